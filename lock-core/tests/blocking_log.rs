//! A log subscriber that blocks at every warning and error, as one does whose output is a full pipe: everybody learns of a loss all the
//! same. A subscriber serves a whole process, so these tests have a program of their own.

#[cfg(unix)]
#[path = "support/keeper_end.rs"]
mod keeper_end;

use std::{
    mem,
    panic::resume_unwind,
    sync::{
        Arc, Once,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_executor::block_on;
use futures_util::FutureExt;
use lock_core::{
    AcquireOptions, Alarms, Backend, BackendError, BackendErrorKind, Creates, Departure, DistributedLock,
    Entry, Guarantees, Guard, HoldState, Keeper, Lease, Locks, Lost, LostReason, Memory, Operator, Renewal,
    Standing, Step, SystemEntropy, WaitMode,
};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// The most that a busy machine takes for anything here.
const PATIENCE: Duration = Duration::from_secs(20);

struct Blocking;

impl Blocking {
    /// For the rest of the process, and for all tests in it.
    fn install() {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| tracing::subscriber::set_global_default(Self).unwrap());
    }
}

impl Subscriber for Blocking {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "distlock" && *metadata.level() <= Level::WARN
    }

    fn event(&self, _: &Event<'_>) {
        // Much longer than a test waits for anything.
        thread::sleep(PATIENCE * 10);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A memory store that gives this answer to each renewal, and these alarms.
#[derive(Debug)]
struct Store {
    memory: Memory,
    renewal: fn() -> Result<Renewal, BackendError>,
    alarms: fn(&Memory) -> Alarms,
}

#[async_trait]
impl Backend for Store {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        self.memory.enter(entry, step, wait).await
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        leases.iter().map(|_| (self.renewal)()).collect()
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        self.memory.leave(entry, creates).await
    }

    async fn give_back(&self) {
        self.memory.give_back().await;
    }

    fn alarms(&self) -> Alarms {
        (self.alarms)(&self.memory)
    }

    fn guarantees(&self) -> &Guarantees {
        self.memory.guarantees()
    }

    fn operator(&self) -> &dyn Operator {
        &self.memory
    }
}

/// Sends the name of a lock when it is woken.
struct Watcher {
    name: String,
    tell: mpsc::Sender<String>,
}

impl Wake for Watcher {
    fn wake(self: Arc<Self>) {
        // Nobody listens any more if the test has failed.
        let _ = self.tell.send(self.name.clone());
    }
}

/// Locks that are held, and watched without a thread or a task that would look at them.
struct Watched {
    guards: Vec<(Guard, Lost)>,
    tell: mpsc::Sender<String>,
    told: mpsc::Receiver<String>,
}

impl Watched {
    fn new() -> Self {
        let (tell, told) = mpsc::channel();
        Self { guards: Vec::new(), tell, told }
    }

    fn take(&mut self, locks: &Locks, name: &str, options: &AcquireOptions) {
        let guard = block_on(locks.mutex(name).unwrap().acquire_with(options)).unwrap();
        let (mut lost, watcher) = (guard.lost(), Watcher { name: name.to_owned(), tell: self.tell.clone() });
        let waker = Waker::from(Arc::new(watcher));
        assert!(lost.poll_unpin(&mut Context::from_waker(&waker)).is_pending(), "`{name}` is lost too early");
        self.guards.push((guard, lost));
    }

    /// Waits until the watchers of all of them are woken.
    fn are_told_to_be_lost(&self) {
        let mut left: Vec<_> = self.guards.iter().map(|(guard, _)| guard.name().as_str()).collect();
        while !left.is_empty() {
            let told = self.told.recv_timeout(PATIENCE);
            let name = told.unwrap_or_else(|_| panic!("nobody was told that these are lost: {left:?}"));
            left.retain(|other| *other != name);
        }
    }
}

impl Drop for Watched {
    /// The clients live on: the drop of one logs what was counted of its losses, on the thread of the test, and that would block.
    fn drop(&mut self) {
        self.guards.drain(..).for_each(mem::forget);
    }
}

fn locks(keeper: &Keeper, store: impl Backend) -> Locks {
    Locks::with(Arc::new(store), keeper.clone(), Arc::new(SystemEntropy))
}

fn ttl(seconds: u64) -> AcquireOptions {
    AcquireOptions::new().ttl(Duration::from_secs(seconds))
}

#[test]
fn a_log_that_blocks_at_a_loss_delays_no_other_loss() {
    Blocking::install();
    let (keeper, mut watched) = (Keeper::start().unwrap(), Watched::new());
    // Each client logs its first loss at once. So there are as many lines as threads that could be blocked by one: the keeper, and the
    // watchdog.
    for client in 1..=2 {
        let locks = locks(&keeper, Memory::new());
        for lock in 1..=2 {
            watched.take(&locks, &format!("{client}/{lock}"), &ttl(2).renew(false));
        }
    }
    watched.are_told_to_be_lost();
}

#[test]
fn a_log_that_blocks_the_keeper_keeps_no_loss_from_anybody() {
    Blocking::install();
    let (keeper, mut watched) = (Keeper::start().unwrap(), Watched::new());
    let store = Store {
        memory: Memory::new(),
        renewal: || Err(BackendError::new("memory", BackendErrorKind::Unreachable, "told to fail")),
        alarms: Memory::alarms,
    };
    let locks = locks(&keeper, store);
    // The keeper is blocked when the first renewal has failed. When the second is lost, the keeper stands still for the first time, and a
    // second later that is logged.
    for (name, seconds) in [("first", 1), ("second", 2), ("third", 4)] {
        watched.take(&locks, name, &ttl(seconds));
    }
    watched.are_told_to_be_lost();
}

#[test]
fn all_losses_of_an_answer_are_told_before_the_log_blocks() {
    Blocking::install();
    let (keeper, mut watched) = (Keeper::start().unwrap(), Watched::new());
    let store = Store { memory: Memory::new(), renewal: || Ok(Renewal::Lost), alarms: Memory::alarms };
    let locks = locks(&keeper, store);
    let (go_on, blocked) = mpsc::channel::<()>();
    let (start, started) = mpsc::channel();
    keeper.spawn(async move {
        start.send(()).unwrap();
        let _ = blocked.recv();
    });
    started.recv_timeout(PATIENCE).unwrap();
    for name in ["one", "other"] {
        watched.take(&locks, name, &ttl(6));
    }
    // When the keeper goes on, both renewals are due, and go into one request.
    thread::sleep(Duration::from_secs(2));
    drop(go_on);
    watched.are_told_to_be_lost();
    let states: Vec<_> = watched.guards.iter().map(|(guard, _)| guard.state()).collect();
    assert_eq!(states, [HoldState::Lost(LostReason::Gone); 2], "the answer was not read to its end");
}

/// The thread that takes the first lock logs the panic, and is blocked.
#[test]
fn a_log_that_blocks_at_a_panic_of_the_store_costs_no_renewal() {
    static RENEWED: AtomicBool = AtomicBool::new(false);
    Blocking::install();
    let keeper = Keeper::start().unwrap();
    let store = Store {
        memory: Memory::new(),
        renewal: || {
            RENEWED.store(true, Ordering::Release);
            Ok(Renewal::Lost)
        },
        alarms: |_| resume_unwind(Box::new("an ordered panic of a store")),
    };
    let locks = locks(&keeper, store);
    thread::spawn(move || block_on(locks.mutex("job").unwrap().acquire_with(&ttl(1))));
    let started = Instant::now();
    while !RENEWED.load(Ordering::Acquire) {
        assert!(started.elapsed() < PATIENCE, "it was not renewed");
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(unix)]
#[test]
fn a_keeper_that_has_ended_wakes_sleepers_though_the_log_blocks() {
    Blocking::install();
    let keeper = Keeper::start().unwrap();
    keeper_end::end(&keeper);
    let asleep = keeper.sleep_until(keeper.now() + Duration::from_millis(50));
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        block_on(asleep);
        tell.send(())
    });
    told.recv_timeout(PATIENCE).expect("nobody was woken");
}
