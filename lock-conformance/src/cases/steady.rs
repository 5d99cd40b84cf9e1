//! [`steady`]: for cases that hold the machine to a time, because they rely on leases that are renewed before they end.

use std::{
    collections::HashMap,
    ffi::OsString,
    future::Future,
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::lease::{lock_name, ms};
use crate::{Client, World};

/// A ttl that no standstill excuses: with this, the case fails.
const LONGEST: Duration = Duration::from_secs(20);

/// Runs a scenario with a ttl that it may rely on.
///
/// If it fails, and meanwhile the store got no answer out for a quarter of the ttl, or a thread of this process waited so
/// long for a core, then a lease that ended was right to end, and nothing is shown: the scenario is run again with a
/// longer one. A failure while everything ran is a failure.
pub(super) async fn steady<F>(world: World, ttl: Duration, scenario: impl Fn(World, Duration) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut ttl = ttl;
    loop {
        let watch = Watch::start(world.client().await, &world.name("watched"));
        let outcome = tokio::spawn(scenario(world.clone(), ttl)).await;
        let Err(failure) = outcome else { return };
        let standstill = watch.longest();
        if standstill < ttl / 4 || ttl >= LONGEST {
            resume_unwind(failure.into_panic());
        }
        eprintln!("everything stood still for {standstill:?}, so a ttl of {ttl:?} shows nothing; once more");
        world.give_up();
        ttl = LONGEST.min(ttl * 3);
    }
}

/// How often the waits for a core are looked at: threads that end meanwhile are not seen.
const LOOKS: Duration = Duration::from_millis(200);

/// Asks the store something all the time, from a thread of its own, and notes how long that took at the most.
struct Watch {
    longest: Arc<AtomicU64>,
    asking: Arc<AtomicU64>,
    started: Instant,
}

/// How long each thread of this process had waited for a core, while it could have run, when the watch began. In nanoseconds.
struct Waits(HashMap<OsString, u64>);

impl Watch {
    fn start(client: Client, name: &str) -> Self {
        let (name, started) = (lock_name(name), Instant::now());
        let (longest, asking) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let watch = Self { longest: Arc::clone(&longest), asking: Arc::clone(&asking), started };
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be started").block_on(async move {
                let (before, mut looked) = (Waits::now(), started);
                // Until the watch is over.
                while Arc::strong_count(&longest) > 1 {
                    if looked.elapsed() >= LOOKS {
                        looked = Instant::now();
                        longest.fetch_max(before.longest_since(), Ordering::SeqCst);
                    }
                    let before = millis(started);
                    asking.store(before, Ordering::SeqCst);
                    // That it fails is noted by the time that it takes.
                    let _ = client.backend.operator().queue(&name).await;
                    tokio::time::sleep(ms(5)).await;
                    longest.fetch_max(millis(started) - before, Ordering::SeqCst);
                }
            });
        });
        watch
    }

    /// The longest time that an answer took, or is taking.
    fn longest(&self) -> Duration {
        let pending = millis(self.started).saturating_sub(self.asking.load(Ordering::SeqCst));
        ms(pending.max(self.longest.load(Ordering::SeqCst)))
    }
}

impl Waits {
    /// None where the operating system does not tell.
    fn now() -> Self {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let waited = tasks.filter_map(|task| {
            // The time on a core, the time of waiting for one, and how often.
            let told = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            let nanos = told.split_whitespace().nth(1)?.parse().ok()?;
            Some((task.file_name(), nanos))
        });
        Self(waited.collect())
    }

    /// The longest that a thread has waited since, in milliseconds.
    fn longest_since(&self) -> u64 {
        let before = |thread: &OsString| self.0.get(thread).copied().unwrap_or(0);
        let waited = Self::now().0.into_iter().map(|(thread, nanos)| nanos.saturating_sub(before(&thread)));
        waited.max().unwrap_or(0) / 1_000_000
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
