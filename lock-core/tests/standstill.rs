//! A keeper that cannot run, or has ended: every loss is reported, and no lock is granted that is not renewed.

use std::{
    fmt,
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use lock_core::{
    AcquireOptions, Alarms, Backend, BackendError, Creates, Departure, DistributedLock, Entry, Error,
    Guarantees, Guard, HoldState, Keeper, Lease, Locks, LostReason, Memory, Operator, Renewal, Standing,
    Step, SystemEntropy, WaitMode,
};

/// The longest that any step may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn locks(keeper: &Keeper) -> Locks {
    Locks::with(Arc::new(Memory::new()), keeper.clone(), Arc::new(SystemEntropy))
}

fn hold(locks: &Locks, ttl: Duration) -> Guard {
    let lock = locks.mutex("a").unwrap();
    futures_executor::block_on(lock.acquire_with(&AcquireOptions::new().ttl(ttl))).unwrap()
}

/// Waits for the signal on another thread, so that the test fails if the signal never comes.
fn await_loss(guard: &Guard) -> LostReason {
    let (tell, told) = mpsc::channel();
    let lost = guard.lost();
    thread::spawn(move || tell.send(futures_executor::block_on(lost)));
    told.recv_timeout(guard.ttl() + PATIENCE).expect("the signal did not come")
}

#[test]
fn a_keeper_that_is_blocked_keeps_no_loss_from_those_who_wait_for_it() {
    let keeper = Keeper::start().unwrap();
    let (guard, other) = (hold(&locks(&keeper), Duration::from_secs(1)), locks(&keeper));
    let (go_on, blocked) = mpsc::channel::<()>();
    keeper.spawn(async move {
        let _ = blocked.recv();
    });
    assert!(guard.is_held());
    assert_eq!(await_loss(&guard), LostReason::Expired);
    // Nothing is renewed in the meantime, and that is logged as well.
    let next = hold(&other, Duration::from_secs(1));
    assert_eq!(await_loss(&next), LostReason::Expired);
    drop(go_on);
    // It runs again, and renews.
    let last = hold(&locks(&keeper), Duration::from_secs(1));
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        assert!(last.is_held(), "{:?}", last.state());
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_close_names_a_lost_lock_that_no_keeper_leaves_for() {
    let keeper = Keeper::start().unwrap();
    let locks = locks(&keeper);
    let guard = hold(&locks, Duration::from_secs(1));
    keeper.stop();
    let started = Instant::now();
    while guard.is_held() {
        assert!(started.elapsed() < PATIENCE, "it is held after its deadline");
        thread::sleep(Duration::from_millis(5));
    }
    let error = locks.close_blocking(Duration::from_millis(50)).expect_err("the entry may still be there");
    let names: Vec<_> = error.unconfirmed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names, error.held.len()), (vec!["a"], 0));
}

/// If a task elsewhere waits for a socket, the keeper wakes it when it polls its sockets.
#[cfg(unix)]
#[test]
fn a_keeper_that_a_panic_ends_tells_losses_refuses_locks_and_is_replaced() {
    use std::io::Write;

    struct Panicking;

    impl Wake for Panicking {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("an ordered panic of a waker"));
        }
    }

    let keeper = Keeper::start().unwrap();
    let guard = hold(&locks(&keeper), Duration::from_secs(1));
    let (tell, told) = mpsc::channel();
    keeper.spawn(async move { tell.send(tokio::net::UnixStream::pair().unwrap()).unwrap() });
    let (here, there) = told.recv_timeout(PATIENCE).unwrap();
    let mut readable = pin!(here.readable());
    let waker = Waker::from(Arc::new(Panicking));
    assert!(readable.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    there.into_std().unwrap().write_all(b"x").unwrap();

    assert_eq!(await_loss(&guard), LostReason::Expired);
    let started = Instant::now();
    while !keeper.has_ended() {
        assert!(started.elapsed() < PATIENCE, "it ended, and nobody noticed");
        thread::sleep(Duration::from_millis(5));
    }
    let locks = locks(&keeper);
    let refused = futures_executor::block_on(locks.mutex("b").unwrap().acquire());
    assert!(matches!(refused, Err(Error::KeeperEnded { .. })), "{refused:?}");
    // Its timers still fire, although it has ended.
    futures_executor::block_on(keeper.sleep_until(keeper.now() + Duration::from_millis(50)));
}

/// A waker that panics with a value that panics when it is dropped.
struct PanickingTwice;

impl Wake for PanickingTwice {
    fn wake(self: Arc<Self>) {
        std::panic::resume_unwind(Box::new(Bomb));
    }
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("an ordered panic of the value of a panic"));
    }
}

/// A waker that says so.
struct Telling(mpsc::Sender<()>);

impl Wake for Telling {
    fn wake(self: Arc<Self>) {
        // The test may have failed.
        let _ = self.0.send(());
    }
}

/// Both timers are fired in one turn, the one of the panicking waker first.
#[test]
fn a_waker_whose_panic_panics_when_it_is_dropped_keeps_no_other_asleep() {
    let keeper = Keeper::start().unwrap();
    let end = keeper.now() + Duration::from_secs(1);
    let (mut first, mut other) = (pin!(keeper.sleep_until(end)), pin!(keeper.sleep_until(end)));
    let (tell, told) = mpsc::channel();
    let (panicking, telling) = (Waker::from(Arc::new(PanickingTwice)), Waker::from(Arc::new(Telling(tell))));
    assert!(first.as_mut().poll(&mut Context::from_waker(&panicking)).is_pending());
    assert!(other.as_mut().poll(&mut Context::from_waker(&telling)).is_pending());
    assert_eq!(told.recv_timeout(PATIENCE), Ok(()), "the other timer was not fired");
    assert!(!keeper.has_ended());
}

/// A store that panics when it is asked for alarms, or when these are listened to.
struct Alarming {
    memory: Memory,
    when_asked: bool,
}

fn panics() -> ! {
    std::panic::resume_unwind(Box::new("an ordered panic of a store"))
}

#[async_trait]
impl Backend for Alarming {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        self.memory.enter(entry, step, wait).await
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        self.memory.renew(leases).await
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        self.memory.leave(entry, creates).await
    }

    async fn give_back(&self) {
        self.memory.give_back().await;
    }

    fn alarms(&self) -> Alarms {
        if self.when_asked {
            panics();
        }
        Box::pin(futures_util::stream::poll_fn(|_| panics()))
    }

    fn guarantees(&self) -> &Guarantees {
        self.memory.guarantees()
    }

    fn operator(&self) -> &dyn Operator {
        &self.memory
    }
}

impl fmt::Debug for Alarming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Alarming")
    }
}

/// C8.
#[test]
fn a_store_that_panics_on_the_keeper_ends_no_renewals() {
    outlives_its_ttl(Alarming { memory: Memory::new(), when_asked: false });
}

/// C8. It panics on the thread that takes the first lock.
#[test]
fn a_store_that_panics_when_asked_for_alarms_ends_no_renewals() {
    outlives_its_ttl(Alarming { memory: Memory::new(), when_asked: true });
}

/// A lock on this store is renewed.
fn outlives_its_ttl(store: Alarming) {
    let locks = Locks::with(Arc::new(store), Keeper::start().unwrap(), Arc::new(SystemEntropy));
    let guard = hold(&locks, Duration::from_secs(1));
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        assert_ne!(guard.state(), HoldState::Lost(LostReason::Expired), "nothing renewed it");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(guard.is_held());
}
