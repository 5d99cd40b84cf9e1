//! A log subscriber that panics at every line and in every method of a span, for the tests of several stores.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use futures_executor::block_on;
use lock_core::{AcquireOptions, DistributedLock, Guard, Locks, LostReason, sync::Mutex};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// The most that a busy machine takes for anything here.
const PATIENCE: Duration = Duration::from_secs(20);

/// The target of the lines of the engine.
const ENGINE: &str = "distlock";

/// Panics in its methods, and remembers the target of each panic. Clones share the memory.
#[derive(Clone, Default)]
pub(crate) struct PanickingLog {
    panics: Arc<Mutex<Vec<&'static str>>>,
    /// The number of spans.
    spans: Arc<AtomicU64>,
}

impl PanickingLog {
    /// Serves for the rest of the process.
    pub(crate) fn install() -> Self {
        let log = Self::default();
        tracing::subscriber::set_global_default(log.clone()).unwrap();
        log
    }

    /// How often it has panicked at a target that begins with this.
    pub(crate) fn panics_at(&self, target: &str) -> usize {
        self.panics.lock().iter().filter(|at| at.starts_with(target)).count()
    }

    /// Checks that locks work: a loss, a release, the clean-up after a dropped guard, and a hand-off. Each of them is logged.
    pub(crate) fn costs_nobody_a_lock(&self, locks: &Locks) {
        let take = |name: &str, options: &AcquireOptions| {
            block_on(locks.mutex(name).unwrap().acquire_with(options)).unwrap()
        };
        let usual = AcquireOptions::new().ttl(Duration::from_secs(5));
        let kept = take("kept", &usual);
        for name in ["ending", "again"] {
            let before = self.panics_at(ENGINE);
            let ending = take(name, &AcquireOptions::new().ttl(Duration::from_secs(1)).renew(false));
            assert_eq!(block_on(ending.lost()), LostReason::Expired);
            eventually("a panic at the loss", || self.panics_at(ENGINE) > before);
        }
        drop(take("dropped", &usual));
        let held = take("dropped", &usual);
        let waiting = {
            let lock = locks.mutex("dropped").unwrap();
            thread::spawn(move || block_on(lock.acquire_with(&AcquireOptions::new().wait(PATIENCE))).unwrap())
        };
        let rows = || block_on(locks.mutex("dropped").unwrap().queue()).unwrap().len();
        eventually("a waiter", || rows() == 2);
        block_on(held.release()).unwrap().confirmed().unwrap();
        let next = waiting.join().expect("a waiter goes on");
        block_on(next.release()).unwrap().confirmed().unwrap();
        renewed(&kept);
        renewed(&kept);
        block_on(kept.release()).unwrap().confirmed().unwrap();
    }

    fn panic(&self, target: &'static str) {
        self.panics.lock().push(target);
        std::panic::resume_unwind(Box::new("an ordered panic of a subscriber"));
    }

    /// Every fourth span panics in this method: one that has panicked is not called again.
    fn panic_in_turn(&self, id: &span::Id, turn: u64) {
        if id.into_u64() % 4 == turn {
            self.panic(ENGINE);
        }
    }
}

impl Subscriber for PanickingLog {
    /// Each line of this library, of every level.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let ours = metadata.target() == ENGINE || metadata.target().starts_with("lock_");
        ours || *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        let id = span::Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1);
        self.panic_in_turn(&id, 1);
        id
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {
        // Only the engine has spans.
        self.panic(ENGINE);
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        self.panic(event.metadata().target());
    }

    fn enter(&self, id: &span::Id) {
        self.panic_in_turn(id, 2);
    }

    fn exit(&self, id: &span::Id) {
        self.panic_in_turn(id, 3);
    }

    fn try_close(&self, _: span::Id) -> bool {
        self.panic(ENGINE);
        true
    }
}

/// Waits until the condition is met.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a lease grows, which only a renewal does.
fn renewed(guard: &Guard) {
    let mut last = guard.remaining();
    eventually("a renewal", || {
        assert!(guard.is_held(), "lost because of a log: {:?}", guard.state());
        std::mem::replace(&mut last, guard.remaining()) < last
    });
}
