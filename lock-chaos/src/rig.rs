//! [`run`]: one run, from the start of the cluster to the verdict.

use std::{
    env, fs,
    path::Path,
    time::{Duration, Instant},
};

use distlock::{Locks, connect};
use lock_conformance::ServerProgram;
use lock_core::{Clock, LockName, SystemClock};
use lock_engine_tests::history::{Event, EventKind, History};
use tokio::time::sleep;

use crate::{
    args::RunArgs,
    checker::check,
    cluster::start,
    crew::Crew,
    error::Result,
    excuse::Excuses,
    history::{ClientLog, Frame, histories},
    log_file::{last_word, read},
    nemesis::{Nemesis, Notes},
    network::Network,
    plan::Plan,
    store_kind::StoreKind,
    timeline::around,
    verdict::Verdict,
};

/// How many clients there are at a time.
const SEATS: usize = 3;

/// How long the clients go on when nothing goes wrong any more: until all waits of before are over, and then for some.
const CALM: Duration = Duration::from_secs(40);

/// How long entries may stay that clients had when they were killed at the end.
const LEASES: Duration = Duration::from_secs(60);

/// How long it may take to see that the queues are empty when all clients have ended as they should. It is less than the shortest lease, so
/// that what they left behind is seen.
const A_LOOK: Duration = Duration::from_secs(1);

/// What the errors of a store say that is full.
const FULL: &str = "out of memory or space";

/// So many times a store is full before it is an error that no client was told. In a short time none may have asked for a lock that is free.
const FILLS: usize = 3;

/// Starts a cluster and clients, breaks and heals them, and judges what they saw.
///
/// # Errors
/// If that cannot be done, or if too little happened.
///
/// # Panics
/// If a server is not installed, or does not start.
pub(crate) async fn run(args: RunArgs) -> Result<Verdict> {
    make_empty(&args.folder)?;
    let length = Duration::from_secs(60 * args.minutes);
    let cluster = start(args.store).await?;
    let servers = cluster.addresses();
    // Past the proxies.
    let locks = connect(&cluster.url(&servers)).await?;
    let network = Network::new(SEATS, &servers);
    let urls = (0..SEATS).map(|seat| cluster.url(&network.addresses(seat))).collect();
    let program = ServerProgram::local([env::current_exe()?.display().to_string()]);
    let crew = Crew::start(cluster.client(program), urls, args.seed, args.folder.clone());
    let nemesis = Nemesis::new(&*cluster, &network, &crew);
    nemesis.run(&Plan::new(args.seed, args.store, SEATS, length), length).await?;
    cluster.all_serve().await?;
    let calm = SystemClock.now();
    sleep(CALM).await;
    let hanging = crew.finish().await;
    let left = left_behind(&locks, if hanging.is_empty() { A_LOOK } else { LEASES }).await?;
    let frame = Frame { calm, end: SystemClock.now(), sessions: locks.guarantees().shared_leases };
    let logs = crew.logs().into_iter().enumerate();
    let logs = logs.map(|(client, (path, killed))| read(client, &path, killed));
    let logs = logs.collect::<Result<Vec<_>>>()?;

    let mut findings: Vec<_> = hanging.iter().map(|client| format!("client {client} does not end")).collect();
    findings.extend(left.iter().map(|name| format!("the queue of `{name}` does not get empty")));
    for log in logs.iter().filter(|log| log.killed.is_none()) {
        findings.extend(last_word(log)?.map(|left| format!("client {} left behind: {left}", log.client)));
    }
    judge(&args, &logs, frame, &nemesis.notes(), findings)?.of_enough(args.minutes)
}

/// The names that still have entries after some time.
async fn left_behind(locks: &Locks, patience: Duration) -> Result<Vec<LockName>> {
    let end = Instant::now() + patience;
    loop {
        let names = locks.operator().list("").await?;
        if names.is_empty() || Instant::now() >= end {
            return Ok(names);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Checks the histories, and keeps them in the folder of the run.
///
/// # Errors
/// If they cannot be kept, or if a store was full and no client was told.
fn judge(
    args: &RunArgs,
    logs: &[ClientLog],
    frame: Frame,
    notes: &Notes,
    findings: Vec<String>,
) -> Result<Verdict> {
    let mut verdict = Verdict { faults: notes.counts.clone(), findings, ..Verdict::default() };
    let histories = histories(logs, frame, &Excuses::new(args.store, &notes.deeds));
    for (name, history) in &histories {
        fs::write(args.folder.join(format!("{name}.history")), history.to_string())?;
        verdict.grants += count(history, |what| matches!(what, EventKind::Granted { .. }));
        verdict.losses += count(history, |what| matches!(what, EventKind::Lost { .. }));
        verdict.excused += count(history, |what| matches!(what, EventKind::Evicted { .. }));
        verdict.findings.extend(check(history).into_iter().map(|violation| {
            format!("`{name}`: {violation}\n{}", around(history, &violation, &notes.faults))
        }));
    }
    for &(kind, word) in told_of(args.store) {
        let tells = |event: &Event| match &event.what {
            EventKind::Failed { error, .. } => error.contains(word),
            _ => false,
        };
        let is_told = histories.values().any(|history| history.events.iter().any(tells));
        let is_often = notes.counts.get(kind).is_some_and(|times| *times >= FILLS);
        if verdict.findings.is_empty() && is_often && !is_told {
            return Err(format!("no client was told of the fault `{kind}`").into());
        }
    }
    Ok(verdict)
}

/// The faults of which clients are told, and a word of their errors.
fn told_of(store: StoreKind) -> &'static [(&'static str, &'static str)] {
    match store {
        StoreKind::Redis => &[("fill", FULL), ("fill disk", "MISCONF")],
        StoreKind::Etcd => &[("fill", FULL)],
        StoreKind::Sqlite => &[("fill disk", FULL)],
        // Its clients go on with another member. The cluster looks at its members itself.
        StoreKind::Zookeeper => &[],
    }
}

fn count(history: &History, is: impl Fn(&EventKind) -> bool) -> u64 {
    history.events.iter().filter(|event| is(&event.what)).count() as u64
}

fn make_empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(fs::create_dir_all(folder)?)
}
