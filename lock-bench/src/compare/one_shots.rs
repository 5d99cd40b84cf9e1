//! [`rows`]: the scenarios that are not run in rounds: requests and bytes, takeover from a killed holder, and many held locks.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::{
    args::CompareArgs,
    counting_proxy::{CountingProxy, Framing},
    results::{Figures, ScenarioResult},
    scenario::{Scenario, Schedule, Work},
    store_run::StoreRun,
    systems::SystemSpec,
    turn::{ContentionRules, contend},
};
use crate::{
    drivers::{
        DriverProcess, now,
        protocol::{Kind, Pairs, Request, Response},
    },
    error::Result,
    store::Store,
    usage::Usage,
};

/// One row for each system that is asked for.
pub(crate) async fn rows(run: &StoreRun<'_>, args: &CompareArgs, scenario: &Scenario) -> Vec<ScenarioResult> {
    eprintln!("{}: {}", run.store, scenario.name);
    let asked = run
        .participants
        .iter()
        .filter_map(|participant| Some((participant.spec, participant.row(args, scenario)?)));
    let asked: Vec<_> = asked.collect();
    if scenario.work == Work::Takeover {
        // Systems only wait here, so that they can do so at the same time.
        return join_all(asked.into_iter().map(|(spec, row)| measure_row(run, spec, row, scenario))).await;
    }
    let mut rows = Vec::new();
    for (spec, row) in asked {
        rows.push(measure_row(run, spec, row, scenario).await);
    }
    rows
}

async fn measure_row(
    run: &StoreRun<'_>,
    spec: SystemSpec,
    mut row: ScenarioResult,
    scenario: &Scenario,
) -> ScenarioResult {
    if row.failed.is_none() {
        let measured = match scenario.work {
            Work::Costs { contenders } => costs(run, &spec, &mut row, contenders).await,
            Work::Takeover => takeovers(run, &spec, &mut row).await,
            Work::Held { locks } => held(run, &spec, &mut row, locks).await,
            Work::Pairs { .. } | Work::HandOff { .. } | Work::Shared { .. } => Ok(()),
        };
        if let Err(error) = measured {
            eprintln!("{}: {} failed in {}: {error}", row.store, row.system, row.scenario);
            row.failed = Some(error.to_string());
        }
    }
    row
}

fn figures<const N: usize>(all: [(&str, f64); N]) -> Figures {
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// So long that no renewal is counted.
const LONG_TTL: Duration = Duration::from_secs(300);

/// Requests and bytes for one pair, and for one tenure among contenders. They include what wakes a contender.
async fn costs(
    run: &StoreRun<'_>,
    spec: &SystemSpec,
    row: &mut ScenarioResult,
    contenders: usize,
) -> Result<()> {
    const PAIRS: u64 = 200;
    let framing = match run.store {
        "redis" => Framing::Resp,
        "etcd" => Framing::Http2,
        "zk" => Framing::Jute,
        _ => return Err("this store has no connection on which requests can be counted".into()),
    };
    let proxy = CountingProxy::start(&run.address, framing).await?;
    let mut team = vec![run.start_driver(spec, proxy.address(), LONG_TTL).await?];
    row.version.clone_from(&team[0].version);
    let pairs = |count| {
        let name = format!("costs-{}", spec.name);
        Request::Pairs(Pairs { name, tasks: 1, run_ms: 0, count })
    };
    // Connects, and makes scripts known.
    team[0].ask(&pairs(20), run.schedule.grace).await?;
    let (before, called) = (proxy.read(), calls(&*run.server).await?);
    team[0].ask(&pairs(PAIRS), run.schedule.grace).await?;
    let (pair, pair_calls) = (proxy.read().since(before), calls(&*run.server).await?.zip(called));

    let rules = ContentionRules { kind: Kind::Mutex, contenders, hold: Duration::from_millis(1) };
    let (before, called) = (proxy.read(), calls(&*run.server).await?);
    let name = format!("costs-{}-{contenders}", spec.name);
    let turn = contend(&mut team, &name, rules, &run.schedule).await?;
    let (tenure, tenure_calls) = (proxy.read().since(before), calls(&*run.server).await?.zip(called));
    turn.marks.into_iter().for_each(|mark| row.mark(mark));
    let tenures =
        turn.figures.get("tenures").copied().filter(|n| *n > 0.0).ok_or("no contender got the lock")?;

    let mut costs = figures([
        ("pair_requests", pair.requests as f64 / PAIRS as f64),
        ("pair_bytes", pair.bytes as f64 / PAIRS as f64),
        ("tenure_requests", tenure.requests as f64 / tenures),
        ("tenure_bytes", tenure.bytes as f64 / tenures),
    ]);
    for (name, calls, of) in
        [("pair_calls", pair_calls, PAIRS as f64), ("tenure_calls", tenure_calls, tenures)]
    {
        costs.extend(calls.map(|(after, before)| (name.to_owned(), (after - before) as f64 / of)));
    }
    row.rounds.push(costs);
    Ok(())
}

/// Commands that the server executed, also in scripts. `None` where it has no scripts.
async fn calls(server: &dyn Store) -> Result<Option<u64>> {
    if server.kind().name() != "redis" {
        return Ok(None);
    }
    Ok(server.command_counts().await?.map(|commands| commands.sent + commands.inside))
}

/// The ttl of a holder that is killed.
const SHORT_TTL: Duration = Duration::from_secs(2);

/// How long the next holder waits at most.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(20);

async fn takeovers(run: &StoreRun<'_>, spec: &SystemSpec, row: &mut ScenarioResult) -> Result<()> {
    for kill in 0..run.schedule.kills {
        let mut holder = run.start_driver(spec, &run.address, SHORT_TTL).await?;
        let mut heir = run.start_driver(spec, &run.address, SHORT_TTL).await?;
        row.version.clone_from(&holder.version);
        let request = Request::Hold { name: format!("takeover-{}-{kill}", spec.name) };
        holder.ask(&request, run.schedule.grace).await?;
        heir.tell(&request).await?;
        // Longer than the ttl, which a holder that renews survives. Each kill is at another moment between two renewals.
        let alive = SHORT_TTL * 2 + Duration::from_millis(230) * u32::try_from(kill)?;
        if timeout(alive, heir.response(TAKEOVER_TIMEOUT)).await.is_ok() {
            row.mark("LOST while the holder lived: nothing renews it");
            continue;
        }
        let killed = now();
        holder.kill().await?;
        match heir.response(TAKEOVER_TIMEOUT).await {
            Ok(Response::Acquired { at_ns }) => {
                let after = Duration::from_nanos(at_ns.saturating_sub(killed));
                row.rounds.push(figures([("after_kill_ms", after.as_secs_f64() * 1000.0)]));
            }
            Ok(_) => return Err("its driver did not answer that it has the lock".into()),
            Err(error) => row.mark(format!("not taken over from a killed holder: {error}")),
        }
    }
    Ok(())
}

/// How much of a core the client and the server need while so many locks are held, in percent.
async fn held(run: &StoreRun<'_>, spec: &SystemSpec, row: &mut ScenarioResult, locks: usize) -> Result<()> {
    const TTL: Duration = Duration::from_secs(15);
    // Systems that renew do so at least every third of the ttl.
    const WINDOW: Duration = Duration::from_secs(10);
    let reply_time = run.schedule.grace * 4;
    let mut driver = run.start_driver(spec, &run.address, TTL).await?;
    row.version.clone_from(&driver.version);
    driver.ask(&Request::Keep { name: format!("held-{}", spec.name), count: locks }, reply_time).await?;
    let windows = if run.schedule.rounds > Schedule::SHORT.rounds { 3 } else { 2 };
    let percent = |after: Duration, before: Duration| {
        100.0 * after.saturating_sub(before).as_secs_f64() / WINDOW.as_secs_f64()
    };
    for _ in 0..windows {
        let (client, server) = (driver_usage(&driver)?, usage(run.server.server_pid())?);
        sleep(WINDOW).await;
        row.rounds.push(figures([
            ("client_percent", percent(driver_usage(&driver)?, client)),
            ("server_percent", percent(usage(run.server.server_pid())?, server)),
        ]));
    }
    let Response::Done { lost } = driver.ask(&Request::GiveBack {}, reply_time).await? else {
        return Err("its driver did not answer how many locks it lost".into());
    };
    if lost > 0 {
        row.mark(format!("LOST {lost} of {locks} locks that it held"));
    }
    Ok(())
}

fn driver_usage(driver: &DriverProcess) -> Result<Duration> {
    usage(driver.pid())
}

fn usage(pid: Option<u32>) -> Result<Duration> {
    pid.map_or(Ok(Duration::ZERO), |pid| Usage::of(pid).map(|usage| usage.cpu))
}
