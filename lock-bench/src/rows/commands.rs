//! `commands`: the commands that are sent to the server, as the server and the client count them.

use async_trait::async_trait;
use lock_core::{AcquireOptions, DistributedLock, Guard, Lock, Locks};
use tokio::task::JoinSet;

use super::{Bench, Bound, Measurement, Outcome, RowFigures, RowSpec};
use crate::{
    counting_backend::CountingBackend,
    drivers::LONG_TTL,
    error::Result,
    store::{CommandCounts, StoreKind},
};

pub(super) struct Commands;

const WAITERS: [u64; 4] = [1, 10, 100, 1000];

/// Locks that are acquired and released.
const LOCKS: u64 = 200;

#[async_trait]
impl Measurement for Commands {
    fn rows(&self, store: StoreKind) -> Vec<RowSpec> {
        // A script calls commands; on etcd, requests on the stream of watches are counted apart.
        let is_counted_inside = store == StoreKind::Redis || store.is_etcd();
        let rows = |name: String, bound: Option<f64>| {
            let sent = RowSpec::new(&name, "commands");
            let sent = match bound {
                Some(bound) => sent.bound(Bound::ValueAtMost(bound)),
                None => sent,
            };
            let inside =
                is_counted_inside.then(|| RowSpec::new(format!("{name}.inside"), "calls in scripts"));
            std::iter::once(sent).chain(inside)
        };
        let mut all: Vec<RowSpec> = Vec::new();
        for verb in ["acquire", "release"] {
            all.extend(rows(format!("commands.{verb}"), Some(1.0)));
        }
        for waiters in WAITERS {
            // On etcd a waiter looks again from time to time, so that more commands are sent the longer it waits.
            let at_most = |bound: f64| (!store.is_etcd()).then_some(bound);
            all.extend(rows(format!("commands.handoff.{waiters}"), at_most(1.0)));
            let join = (waiters + first_waiter_asks_again(store)) as f64 / waiters as f64;
            all.extend(rows(format!("commands.join.{waiters}"), at_most(join)));
        }
        all
    }

    async fn run(&self, bench: &Bench) -> Result<Outcome> {
        if bench.store.kind().is_zk() {
            return Ok(Outcome::NotPossible(
                "a verb is several requests on ZooKeeper, which a test of lock-zk counts",
            ));
        }
        let counter = Counter::new(bench)?;
        eprintln!("commands: {LOCKS} locks that nobody else wants");
        // The first use of a script is two commands: one with its digest, one with its text.
        counter.warm_up().await?;
        let mut figures = RowFigures::default();
        counter.uncontended(&mut figures).await?;
        for waiters in WAITERS {
            let [handoff, join] = ["handoff", "join"].map(|row| format!("commands.{row}.{waiters}"));
            if bench.plan.wants(&handoff) || bench.plan.wants(&join) {
                eprintln!("commands: {waiters} waiters");
                let [before, queued, handed_over] = counter.hand_over(waiters).await?;
                counter.count(&mut figures, handoff, [queued, handed_over], waiters, 0)?;
                let more = first_waiter_asks_again(bench.store.kind());
                counter.count(&mut figures, join, [before, queued], waiters, more)?;
            }
        }
        Ok(Outcome::Measured(figures))
    }
}

/// Counts commands on the client and on the server.
struct Counter<'a> {
    bench: &'a Bench,
    backend: CountingBackend,
    locks: Locks,
    options: AcquireOptions,
}

/// What both sides had counted at one moment.
#[derive(Clone, Copy)]
struct Snapshot {
    client: u64,
    server: Option<CommandCounts>,
}

impl<'a> Counter<'a> {
    fn new(bench: &'a Bench) -> Result<Self> {
        let backend = CountingBackend::new(bench.store.backend()?);
        let locks = backend.locks();
        Ok(Self { bench, backend, locks, options: AcquireOptions::new().ttl(LONG_TTL) })
    }

    /// Runs each script once: those for a lock that nobody else wants, and those for a queue.
    async fn warm_up(&self) -> Result<()> {
        let mutex = self.locks.mutex("bench:count:free")?;
        mutex.acquire_with(&self.options).await?.release().await?;
        self.hand_over(1).await?;
        Ok(())
    }

    async fn uncontended(&self, figures: &mut RowFigures) -> Result<()> {
        let mutexes: Vec<Lock> =
            (0..LOCKS).map(|i| self.locks.mutex(format!("bench:count:{i}"))).collect::<Result<_, _>>()?;
        let before = self.snapshot().await?;
        let mut guards = Vec::new();
        for mutex in &mutexes {
            guards.push(mutex.acquire_with(&self.options).await?);
        }
        let between = self.snapshot().await?;
        for guard in guards {
            guard.release().await?;
        }
        let after = self.snapshot().await?;
        self.count(figures, "commands.acquire".to_owned(), [before, between], LOCKS, 0)?;
        self.count(figures, "commands.release".to_owned(), [between, after], LOCKS, 0)
    }

    /// Waiters join the queue one after the other; then each gets the lock once. No waiter comes back, so that the commands
    /// of a hand-off and those of a new waiter are counted apart: one snapshot before, one between and one behind.
    async fn hand_over(&self, waiters: u64) -> Result<[Snapshot; 3]> {
        let mutex = self.locks.mutex(format!("bench:count:queue:{waiters}"))?;
        let holder = mutex.acquire_with(&self.options).await?;
        let (before, others) = (self.snapshot().await?, self.backend.entries());
        let mut queue = JoinSet::new();
        for place in 1..=waiters {
            let (mutex, options, is_last) = (mutex.clone(), self.options.clone(), place == waiters);
            queue.spawn(async move { wait_in_queue(&mutex, &options, is_last).await });
            self.backend.wait_for_entries(others + place).await;
        }
        let queued = self.snapshot().await?;
        holder.release().await?;
        let mut last = None;
        while let Some(guard) = queue.join_next().await {
            last = guard??.or(last);
        }
        // Each release so far was a hand-off; the next one is not.
        let handed_over = self.snapshot().await?;
        last.ok_or("the last waiter did not get the lock")?.release().await?;
        Ok([before, queued, handed_over])
    }

    async fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot { client: self.backend.requests(), server: self.bench.store.command_counts().await? })
    }

    /// The commands between two snapshots, divided by `each`. The server may have counted `more` than the client asked for.
    fn count(
        &self,
        figures: &mut RowFigures,
        row: String,
        between: [Snapshot; 2],
        each: u64,
        more: u64,
    ) -> Result<()> {
        let [before, after] = between;
        let asked = after.client - before.client;
        let counted = before.server.zip(after.server).map(|(before, after)| after.since(before));
        let sent = match counted {
            // On etcd a verb may be several requests, which only the server counts.
            Some(counted) if self.bench.store.kind().is_etcd() => counted.sent,
            Some(counted) if !(asked..=asked + more).contains(&counted.sent) => {
                let said = format!("{row}: the server counted {} commands, the client {asked}", counted.sent);
                return Err(said.into());
            }
            Some(counted) => counted.sent,
            None => asked,
        };
        if let Some(counted) = counted {
            figures.value(format!("{row}.inside"), counted.inside as f64 / each as f64, None);
        }
        figures.value(row, sent as f64 / each as f64, None);
        Ok(())
    }
}

/// On Redis the first waiter asks as if nobody held the lock, and then joins the queue: one command more.
fn first_waiter_asks_again(store: StoreKind) -> u64 {
    u64::from(store == StoreKind::Redis)
}

/// The last waiter keeps the lock.
async fn wait_in_queue(mutex: &Lock, options: &AcquireOptions, is_last: bool) -> Result<Option<Guard>> {
    let guard = mutex.acquire_with(options).await?;
    if is_last {
        return Ok(Some(guard));
    }
    guard.release().await?;
    Ok(None)
}
