//! Dropping the last handle of `Locks` waits a moment for pending releases, unless the thread runs tasks.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_executor::block_on;
use lock_core::{
    Alarms, Backend, BackendError, Creates, Departure, DistributedLock, Entry, Guarantees, Guard, Keeper,
    Lease, Locks, Memory, Operator, Renewal, Standing, Step, SystemEntropy, WaitMode,
};
use tokio::{runtime::Builder, sync::Semaphore};

/// Longer than a busy machine delays any step.
const LONG: Duration = Duration::from_secs(60);

/// A store that carries out as many leaves as the test permits.
#[derive(Clone, Debug)]
struct Reluctant {
    memory: Memory,
    leaves: Arc<Semaphore>,
}

#[async_trait]
impl Backend for Reluctant {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        self.memory.enter(entry, step, wait).await
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        self.memory.renew(leases).await
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        self.leaves.acquire().await.expect("it is never closed").forget();
        self.memory.leave(entry, creates).await
    }

    async fn give_back(&self) {}

    fn alarms(&self) -> Alarms {
        self.memory.alarms()
    }

    fn guarantees(&self) -> &Guarantees {
        self.memory.guarantees()
    }

    fn operator(&self) -> &dyn Operator {
        self.memory.operator()
    }
}

/// One held lock, and no other handle of its client.
fn held(leaves: usize, linger: Option<Duration>) -> (Reluctant, Guard) {
    let store = Reluctant { memory: Memory::new(), leaves: Arc::new(Semaphore::new(leaves)) };
    let keeper = Keeper::start().unwrap();
    let mut locks = Locks::with(Arc::new(store.clone()), keeper, Arc::new(SystemEntropy));
    if let Some(linger) = linger {
        locks = locks.with_linger(linger);
    }
    let guard = block_on(locks.mutex("job").unwrap().acquire()).unwrap();
    (store, guard)
}

fn is_free(store: &Reluctant) -> bool {
    let name = lock_core::LockName::new("job").unwrap();
    block_on(store.memory.operator().queue(&name)).unwrap().is_empty()
}

#[test]
fn a_guard_that_is_dropped_last_of_all_is_released_by_then() {
    // Even the longest duration does not overflow.
    let (store, guard) = held(1, Some(Duration::MAX));
    drop(guard);
    assert!(is_free(&store));
}

#[test]
fn a_guard_that_lives_to_the_end_of_main_is_released_by_then() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (store, guard) = held(1, Some(LONG));
    runtime.block_on(async move {
        let _guard = guard;
    });
    assert!(is_free(&store));
}

#[test]
fn a_panic_releases_its_guard_before_the_thread_ends() {
    let (store, guard) = held(1, Some(LONG));
    let panicked = std::thread::Builder::new().spawn(move || {
        let _guard = guard;
        std::panic::resume_unwind(Box::new(()));
    });
    panicked.unwrap().join().unwrap_err();
    assert!(is_free(&store));
}

#[test]
fn a_store_that_hangs_is_waited_for_a_moment_and_no_longer() {
    let (store, guard) = held(0, None);
    let began = Instant::now();
    drop(guard);
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(200) && took < LONG, "{took:?}");
    assert!(!is_free(&store));
}

#[test]
fn without_linger_nothing_is_waited_for() {
    let (store, guard) = held(0, Some(Duration::ZERO));
    drop(guard);
    assert!(!is_free(&store));
}

/// With a store that hangs, each of these would take a minute.
#[test]
fn a_thread_that_has_tasks_to_run_waits_for_nothing() {
    let began = Instant::now();
    let one = Builder::new_current_thread().build().unwrap();
    let guard = held(0, Some(LONG)).1;
    one.block_on(async move { drop(guard) });
    let many = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let guard = held(0, Some(LONG)).1;
    many.block_on(async move { tokio::spawn(async move { drop(guard) }).await.unwrap() });
    assert!(began.elapsed() < LONG);
}

#[test]
fn who_has_stopped_the_keeper_waits_for_nothing() {
    let store = Reluctant { memory: Memory::new(), leaves: Arc::new(Semaphore::new(0)) };
    let keeper = Keeper::start().unwrap();
    let locks = Locks::with(Arc::new(store), keeper.clone(), Arc::new(SystemEntropy)).with_linger(LONG);
    let guard = block_on(locks.mutex("job").unwrap().acquire()).unwrap();
    let began = Instant::now();
    keeper.stop();
    drop((guard, locks));
    assert!(began.elapsed() < LONG);
}

/// A remaining clone may take locks, and its drop is the one that waits.
#[test]
fn only_the_last_handle_waits() {
    let store = Reluctant { memory: Memory::new(), leaves: Arc::new(Semaphore::new(0)) };
    let keeper = Keeper::start().unwrap();
    let locks = Locks::with(Arc::new(store), keeper, Arc::new(SystemEntropy)).with_linger(LONG);
    let guard = block_on(locks.mutex("job").unwrap().acquire()).unwrap();
    let last = locks.clone();
    let began = Instant::now();
    drop((guard, locks));
    assert!(began.elapsed() < LONG);
    drop(last.with_linger(Duration::ZERO));
}
