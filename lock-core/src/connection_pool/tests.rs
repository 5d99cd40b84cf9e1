//! With connections to nowhere.

mod retired;
mod wakers;

use std::{
    future::pending,
    net::Ipv4Addr,
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_executor::block_on;
use futures_util::{FutureExt, future::join_all};
use tokio::{
    net::UdpSocket,
    runtime::{Builder, Handle, Runtime},
    sync::oneshot,
};

use super::*;
use crate::{BackendErrorKind, Keeper, sync::Mutex};

/// The most that a busy machine takes for anything here.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time limit of attempts that nobody answers.
const SOON: Duration = Duration::from_millis(50);

const AWAY: &str = "nobody there";
const TIMED_OUT: &str = "too late";
const PANICKED: &str = "opening a connection panicked";
const SHUT_DOWN: &str = "the runtime that opened the connection was shut down";

/// What becomes of attempts to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Opened,
    Refused,
    Silent,
}

/// Opens connections to nowhere.
#[derive(Debug)]
struct Nowhere {
    fate: Mutex<Fate>,
    limit: Duration,
    attempts: AtomicU32,
    /// What was told of attempts that failed.
    failed: Mutex<Vec<&'static str>>,
    /// How many open connections have ended.
    closed: AtomicU32,
}

/// A connection to nowhere, and on which thread it was opened.
#[derive(Debug)]
struct Link {
    target: u8,
    thread: Option<String>,
    /// Ends the connection.
    end: Mutex<Option<oneshot::Sender<()>>>,
    /// Whether it is still driven.
    driven: Weak<()>,
}

impl Link {
    fn is_keepers(&self) -> bool {
        self.thread.as_deref() == Some("distlock-keeper")
    }
}

#[async_trait]
impl Connector for Nowhere {
    type Target = u8;
    type Connection = Arc<Link>;
    type Failure = &'static str;

    async fn open(&self, target: &u8, _keeper: &Keeper) -> Result<(Arc<Link>, ConnectionTask), &'static str> {
        self.attempts.fetch_add(1, Relaxed);
        // Panics on a runtime without I/O.
        drop(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await);
        let fate = *self.fate.lock();
        match fate {
            Fate::Opened => {}
            Fate::Refused => return Err(AWAY),
            Fate::Silent => pending().await,
        }
        let (end, ended) = oneshot::channel::<()>();
        let driving = Arc::new(());
        let link = Link {
            target: *target,
            thread: thread::current().name().map(str::to_owned),
            end: Mutex::new(Some(end)),
            driven: Arc::downgrade(&driving),
        };
        let task = async move {
            // Its sender may be dropped.
            let _ = ended.await;
            drop(driving);
        };
        Ok((Arc::new(link), Box::pin(task)))
    }

    fn connect_timeout(&self) -> Duration {
        self.limit
    }

    fn timed_out(&self, _target: &u8) -> &'static str {
        TIMED_OUT
    }

    fn failure(&self, _kind: BackendErrorKind, message: &'static str) -> &'static str {
        message
    }

    fn not_opened(&self, _target: &u8, failure: &&'static str) {
        self.failed.lock().push(*failure);
    }

    fn closed(&self, _connection: &Arc<Link>) {
        self.closed.fetch_add(1, Relaxed);
    }
}

fn pool_with(fate: Fate, limit: Duration) -> ConnectionPool<Nowhere> {
    let connector = Nowhere {
        fate: Mutex::new(fate),
        limit,
        attempts: AtomicU32::new(0),
        failed: Mutex::default(),
        closed: AtomicU32::new(0),
    };
    ConnectionPool::new(Arc::new(connector), Arc::new(RuntimeSelector::new(Keeper::start().unwrap())))
}

fn pool() -> ConnectionPool<Nowhere> {
    pool_with(Fate::Opened, PATIENCE)
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A connection of this runtime that is open.
fn open_on(runtime: &Runtime, pool: &ConnectionPool<Nowhere>, target: u8) -> OpenConnection<Nowhere> {
    runtime.block_on(pool.connect(&target)).unwrap()
}

fn attempts(pool: &ConnectionPool<Nowhere>) -> u32 {
    pool.connector().attempts.load(Relaxed)
}

fn closed(pool: &ConnectionPool<Nowhere>) -> u32 {
    pool.connector().closed.load(Relaxed)
}

fn eventually(mut check: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !check() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn each_runtime_has_one_connection_for_each_target() {
    let pool = pool();
    let (one, other) = (runtime(), Builder::new_multi_thread().enable_all().build().unwrap());
    let mut found: Vec<Arc<PooledConnection<Nowhere>>> = Vec::new();
    for target in [1, 2] {
        for runtime in [&one, &other] {
            let (first, link) = open_on(runtime, &pool, target);
            let (again, _) = open_on(runtime, &pool, target);
            assert!(Arc::ptr_eq(&first, &again) && !first.is_on_keeper());
            assert_eq!(link.target, target);
            found.push(first);
        }
        // From a thread without a runtime.
        let (keepers, link) = block_on(pool.connect(&target)).unwrap();
        assert!(keepers.is_on_keeper() && link.is_keepers());
        found.push(keepers);
    }
    for (i, one) in found.iter().enumerate() {
        assert!(found[..i].iter().all(|before| !Arc::ptr_eq(one, before)));
    }
    assert_eq!((found.len(), attempts(&pool)), (6, 6));
}

#[test]
fn the_keeper_and_threads_without_a_runtime_share_a_connection() {
    let pool = pool();
    let (tell, told) = oneshot::channel();
    let theirs = pool.clone();
    pool.keeper().spawn(async move { drop(tell.send(theirs.connect(&0).await.unwrap().0)) });
    let keepers = block_on(told).unwrap();
    assert!(keepers.is_on_keeper());
    assert!(Arc::ptr_eq(&keepers, &block_on(pool.connect(&0)).unwrap().0));
    assert_eq!(attempts(&pool), 1);
}

#[tokio::test]
async fn a_hundred_callers_share_an_attempt_and_its_failure() {
    let pool = pool_with(Fate::Refused, PATIENCE);
    let failed = join_all((0..100).map(|_| pool.connect(&0))).await;
    assert!(failed.iter().all(|failed| failed.as_ref().err() == Some(&AWAY)));
    assert_eq!((attempts(&pool), closed(&pool)), (1, 0));
    assert_eq!(*pool.connector().failed.lock(), [AWAY], "one line for all");

    *pool.connector().fate.lock() = Fate::Opened;
    let opened = join_all((0..100).map(|_| pool.connect(&0))).await;
    assert!(opened.iter().all(Result::is_ok));
    assert_eq!(attempts(&pool), 2, "the failure was that of one attempt");
}

#[tokio::test]
async fn an_attempt_that_nobody_answers_ends_at_its_limit() {
    let pool = pool_with(Fate::Silent, SOON);
    let began = Instant::now();
    let failed = join_all((0..10).map(|_| pool.connect(&0))).await;
    assert!(began.elapsed() >= SOON);
    assert!(failed.iter().all(|failed| failed.as_ref().err() == Some(&TIMED_OUT)));
    assert_eq!((attempts(&pool), closed(&pool)), (1, 0));
}

/// As where a caller has only entered a runtime that no thread drives.
#[test]
fn a_limit_holds_though_the_runtime_that_connects_is_blocked() {
    let pool = pool_with(Fate::Opened, SOON);
    let idle = runtime();
    let entered = idle.enter();
    assert_eq!(block_on(pool.connect(&0)).err(), Some(TIMED_OUT));
    drop(entered);
    assert_eq!(attempts(&pool), 0);
    // Others are not stalled; the limit is short for a busy machine.
    eventually(|| block_on(pool.connect(&0)).is_ok());
}

/// As where a caller uses a runtime call by call: nobody drives it in between.
#[test]
fn a_caller_is_not_failed_by_an_attempt_that_its_runtime_never_began() {
    let pool = pool_with(Fate::Opened, SOON);
    let runtime = runtime();
    let entered = runtime.enter();
    assert!(pool.connect(&0).now_or_never().is_none());
    drop(entered);
    thread::sleep(SOON);
    let began = Instant::now();
    let opened = runtime.block_on(pool.connect(&0));
    // The limit is short for a busy machine.
    assert!(opened.is_ok() || began.elapsed() >= SOON, "failed after {:?}", began.elapsed());
}

#[test]
fn a_runtime_without_io_is_served_by_the_keeper() {
    let pool = pool();
    let bare = Builder::new_current_thread().build().unwrap();
    let (first, link) = open_on(&bare, &pool, 1);
    assert!(first.is_on_keeper() && link.is_keepers());
    // Once is enough to know it, for all targets.
    assert!(bare.block_on(async { pool.connection(&2) }).is_on_keeper());
    eventually(|| attempts(&pool) == 3);
    assert!(pool.connector().failed.lock().is_empty(), "it is no failure");
}

#[test]
fn when_a_runtime_is_shut_down_its_connections_end_and_no_others() {
    let pool = pool();
    let (ending, other) = (runtime(), runtime());
    let (ended, link) = open_on(&ending, &pool, 0);
    let (kept, _) = open_on(&other, &pool, 0);
    drop(ending);
    assert!(ended.is_closed() && link.driven.upgrade().is_none());
    assert_eq!(closed(&pool), 1);
    assert!(!kept.is_closed());
    assert!(Arc::ptr_eq(&kept, &open_on(&other, &pool, 0).0));
}

#[test]
fn callers_on_a_runtime_that_is_shut_down_are_told_so() {
    let pool = pool();
    let ending = runtime();
    let handle: Handle = ending.handle().clone();
    drop(ending);
    let _entered = handle.enter();
    assert_eq!(block_on(pool.connect(&0)).err(), Some(SHUT_DOWN));
    assert_eq!((attempts(&pool), closed(&pool)), (0, 0));
}

#[tokio::test]
async fn a_connection_that_has_ended_is_replaced() {
    let pool = pool();
    let (first, link) = pool.connect(&0).await.unwrap();
    drop(link.end.lock().take());
    while !first.is_closed() {
        tokio::task::yield_now().await;
    }
    assert_eq!(closed(&pool), 1);
    let (second, _) = pool.connect(&0).await.unwrap();
    assert!(!Arc::ptr_eq(&first, &second) && !second.is_closed());
}

#[test]
fn nothing_is_left_when_the_last_clone_is_dropped() {
    let pool = pool();
    let runtime = runtime();
    let (_, own) = open_on(&runtime, &pool, 0);
    let (_, keepers) = block_on(pool.connect(&0)).unwrap();
    let clone = pool.clone();
    drop(pool);
    assert!(Arc::ptr_eq(&own, &open_on(&runtime, &clone, 0).1));
    drop(clone);
    // The runtime has to be driven to drop its task.
    eventually(|| {
        runtime.block_on(tokio::task::yield_now());
        own.driven.upgrade().is_none() && keepers.driven.upgrade().is_none()
    });
    assert_eq!(runtime.metrics().num_alive_tasks(), 0);
}

/// A panic that is no sign of a runtime without I/O: the keeper has all that a connection needs.
#[test]
fn a_panic_on_the_keeper_is_told_to_its_callers() {
    #[derive(Debug)]
    struct Panicking;

    #[async_trait]
    impl Connector for Panicking {
        type Target = ();
        type Connection = ();
        type Failure = (BackendErrorKind, &'static str);

        async fn open(&self, _target: &(), _keeper: &Keeper) -> Result<((), ConnectionTask), Self::Failure> {
            panic!("in the code of a backend");
        }

        fn connect_timeout(&self) -> Duration {
            PATIENCE
        }

        fn timed_out(&self, _target: &()) -> Self::Failure {
            (BackendErrorKind::TimedOut, TIMED_OUT)
        }

        fn failure(&self, kind: BackendErrorKind, message: &'static str) -> Self::Failure {
            (kind, message)
        }

        fn not_opened(&self, _target: &(), _failure: &Self::Failure) {}
    }

    let runtimes = Arc::new(RuntimeSelector::new(Keeper::start().unwrap()));
    let pool = ConnectionPool::new(Arc::new(Panicking), runtimes);
    let failed = block_on(pool.connect(&())).err();
    assert_eq!(failed, Some((BackendErrorKind::Panicked, PANICKED)));
}

#[test]
fn a_wait_that_is_given_up_ends_no_attempt() {
    let pool = pool();
    let runtime = runtime();
    runtime.block_on(async {
        assert!(pool.connect(&0).now_or_never().is_none());
        assert!(pool.connect(&0).await.is_ok());
    });
    assert_eq!(attempts(&pool), 1);
}
