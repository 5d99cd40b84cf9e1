//! What is not done in rounds: what goes to the server, how soon the dead are replaced, and what it takes to hold many locks.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::{
    args::CompareArgs,
    conductor::Field,
    driver::now,
    measure::{Rules, contest},
    meter::{Framing, Meter},
    peer::Peer,
    protocol::{Kind, Order, Pairs, Reply},
    record::{Figures, Row},
    scenario::{Scenario, Schedule, Work},
    systems::SystemSpec,
};
use crate::{Result, store::Store, usage::Usage};

/// One row for each system that is asked for.
pub(crate) async fn rows(field: &Field<'_>, args: &CompareArgs, scenario: &Scenario) -> Vec<Row> {
    eprintln!("{}: {}", field.store, scenario.name);
    let asked =
        field.entrants.iter().filter_map(|entrant| Some((entrant.spec, entrant.row(args, scenario)?)));
    let asked: Vec<_> = asked.collect();
    if scenario.work == Work::Takeover {
        // They wait for a clock, and not for each other.
        return join_all(asked.into_iter().map(|(spec, row)| one(field, spec, row, scenario))).await;
    }
    let mut rows = Vec::new();
    for (spec, row) in asked {
        rows.push(one(field, spec, row, scenario).await);
    }
    rows
}

async fn one(field: &Field<'_>, spec: SystemSpec, mut row: Row, scenario: &Scenario) -> Row {
    if row.failed.is_none() {
        let measured = match scenario.work {
            Work::Costs { contenders } => costs(field, &spec, &mut row, contenders).await,
            Work::Takeover => takeovers(field, &spec, &mut row).await,
            Work::Held { locks } => held(field, &spec, &mut row, locks).await,
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

/// So long that no renewal falls into what is counted.
const LONG: Duration = Duration::from_secs(300);

/// Requests and bytes for one pair, and for one tenure among contenders: what wakes them, and their coming back, included.
async fn costs(field: &Field<'_>, spec: &SystemSpec, row: &mut Row, contenders: usize) -> Result<()> {
    const PAIRS: u64 = 200;
    let framing = match field.store {
        "redis" => Framing::Resp,
        "etcd" => Framing::Http2,
        "zk" => Framing::Jute,
        _ => return Err("there is no connection on which anything could be counted".into()),
    };
    let meter = Meter::start(&field.address, framing).await?;
    let mut team = vec![field.start_peer(spec, meter.address(), LONG).await?];
    row.version.clone_from(&team[0].version);
    let pairs = |count| {
        let name = format!("costs-{}", spec.name);
        Order::Pairs(Pairs { name, tasks: 1, run_ms: 0, count })
    };
    // Connects, and makes scripts known.
    team[0].ask(&pairs(20), field.schedule.patience).await?;
    let (before, called) = (meter.read(), calls(&*field.server).await?);
    team[0].ask(&pairs(PAIRS), field.schedule.patience).await?;
    let (pair, pair_calls) = (meter.read().since(before), calls(&*field.server).await?.zip(called));

    let rules = Rules { kind: Kind::Mutex, contenders, hold: Duration::from_millis(1) };
    let (before, called) = (meter.read(), calls(&*field.server).await?);
    let name = format!("costs-{}-{contenders}", spec.name);
    let turn = contest(&mut team, &name, rules, &field.schedule).await?;
    let (tenure, tenure_calls) = (meter.read().since(before), calls(&*field.server).await?.zip(called));
    turn.marks.into_iter().for_each(|mark| row.mark(mark));
    let tenures = turn.figures.get("tenures").copied().filter(|n| *n > 0.0).ok_or("nobody got the lock")?;

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

/// What the server has executed, inside of scripts as well; none where that is no more than what it was asked.
async fn calls(server: &dyn Store) -> Result<Option<u64>> {
    if server.kind().name() != "redis" {
        return Ok(None);
    }
    Ok(server.command_counts().await?.map(|commands| commands.sent + commands.inside))
}

/// Of a holder that is killed.
const SHORT_TTL: Duration = Duration::from_secs(2);

/// For longer than this nobody waits for a dead holder.
const PATIENCE: Duration = Duration::from_secs(20);

async fn takeovers(field: &Field<'_>, spec: &SystemSpec, row: &mut Row) -> Result<()> {
    for kill in 0..field.schedule.kills {
        let mut holder = field.start_peer(spec, &field.address, SHORT_TTL).await?;
        let mut heir = field.start_peer(spec, &field.address, SHORT_TTL).await?;
        row.version.clone_from(&holder.version);
        let order = Order::Hold { name: format!("takeover-{}-{kill}", spec.name) };
        holder.ask(&order, field.schedule.patience).await?;
        heir.tell(&order).await?;
        // A holder that renews keeps it for longer than its ttl; and it is killed somewhere between two renewals.
        let alive = SHORT_TTL * 2 + Duration::from_millis(230) * u32::try_from(kill)?;
        if timeout(alive, heir.reply(PATIENCE)).await.is_ok() {
            row.mark("LOST while the holder lived: nothing renews it");
            continue;
        }
        let killed = now();
        holder.kill().await?;
        match heir.reply(PATIENCE).await {
            Ok(Reply::Acquired { at_ns }) => {
                let after = Duration::from_nanos(at_ns.saturating_sub(killed));
                row.rounds.push(figures([("after_kill_ms", after.as_secs_f64() * 1000.0)]));
            }
            Ok(_) => return Err("its driver answered something else than that it has the lock".into()),
            Err(error) => row.mark(format!("not taken over from the dead: {error}")),
        }
    }
    Ok(())
}

/// What it takes to hold so many locks, of the client and of the server, in percent of a core.
async fn held(field: &Field<'_>, spec: &SystemSpec, row: &mut Row, locks: usize) -> Result<()> {
    const TTL: Duration = Duration::from_secs(15);
    // Whoever renews does so every third of the ttl or more often.
    const WINDOW: Duration = Duration::from_secs(10);
    let patience = field.schedule.patience * 4;
    let mut peer = field.start_peer(spec, &field.address, TTL).await?;
    row.version.clone_from(&peer.version);
    peer.ask(&Order::Keep { name: format!("held-{}", spec.name), count: locks }, patience).await?;
    let windows = if field.schedule.rounds > Schedule::SHORT.rounds { 3 } else { 2 };
    let percent = |after: Duration, before: Duration| {
        100.0 * after.saturating_sub(before).as_secs_f64() / WINDOW.as_secs_f64()
    };
    for _ in 0..windows {
        let (client, server) = (busy(&peer)?, usage(field.server.server_pid())?);
        sleep(WINDOW).await;
        row.rounds.push(figures([
            ("client_percent", percent(busy(&peer)?, client)),
            ("server_percent", percent(usage(field.server.server_pid())?, server)),
        ]));
    }
    let Reply::Done { lost } = peer.ask(&Order::GiveBack {}, patience).await? else {
        return Err("its driver answered something else than what it gave back".into());
    };
    if lost > 0 {
        row.mark(format!("LOST {lost} of {locks} locks that it held"));
    }
    Ok(())
}

fn busy(peer: &Peer) -> Result<Duration> {
    usage(peer.pid())
}

fn usage(pid: Option<u32>) -> Result<Duration> {
    pid.map_or(Ok(Duration::ZERO), |pid| Usage::of(pid).map(|usage| usage.cpu))
}
