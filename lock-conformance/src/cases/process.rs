//! Clients, runtimes, threads and forks.

mod crowd;
pub(super) mod forks;

use std::{
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread,
};

use lock_core::DistributedLock;
use tokio::runtime;

use self::{
    crowd::many_runtimes_take_locks_at_the_same_time,
    forks::a_fork_holds_no_lock_of_its_parent_and_costs_it_none,
};
use super::steps::{freed, is_busy, lasting, mutex, on_a_thread, queue_of, take, take_free};
use crate::{CaseTest, TestEnv, audit::soon};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! process_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] process {
            a_client_serves_one_runtime_after_the_other ["K03"]
            a_blocked_runtime_stalls_no_other ["K03"]
            many_runtimes_take_locks_at_the_same_time ["K03"]
            a_lock_is_taken_and_released_without_a_runtime ["K03"]
            a_fork_holds_no_lock_of_its_parent_and_costs_it_none ["PR35"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = process_cases!(list);

/// The first runtime that uses a client ends, and others use the client, as when each test of a service has its own runtime.
pub(super) async fn a_client_serves_one_runtime_after_the_other(env: TestEnv) {
    let client = env.client().await;
    let lock = mutex(&client, &env.name("runtimes"));
    for build in [one_thread as fn() -> runtime::Runtime, two_threads, one_thread, without_timers] {
        let theirs = lock.clone();
        let guard = on_a_thread(move || {
            let runtime = build();
            let (first, second) = runtime.block_on(async {
                let guard = theirs.acquire().await.unwrap();
                let first = guard.token();
                guard.release().await.unwrap();
                (first, theirs.acquire().await.unwrap())
            });
            assert!(first < second.token());
            second
        })
        .await;
        // One runtime takes the lock; another one waits for it and releases it.
        assert!(is_busy(&lock).await);
        let theirs = lock.clone();
        let released = on_a_thread(move || one_thread().block_on(guard.release()));
        let waiting = tokio::spawn(async move { theirs.acquire().await });
        soon("the release", released).await.unwrap().confirmed().unwrap();
        soon("the grant", waiting).await.unwrap().unwrap().release().await.unwrap();
    }
    freed(&lock).await;
}

/// The first runtime that uses a client is blocked. Others can use the client, and the lock held there is renewed.
pub(super) async fn a_blocked_runtime_stalls_no_other(env: TestEnv) {
    let client = env.client().await;
    let name = env.name("blocked");
    let theirs = client.mutex(&name).with_options(lasting());
    let (go_on, blocked) = mpsc::channel::<()>();
    let (took, taken) = tokio::sync::oneshot::channel();
    let runtime = thread::spawn(move || {
        one_thread().block_on(async {
            let guard = theirs.acquire().await.unwrap();
            took.send(guard.hold()).unwrap();
            blocked.recv().unwrap();
            assert!(guard.is_held(), "the lock was lost while its runtime was blocked");
            guard.release().await.unwrap();
        });
    });
    let hold = soon("the first grant", taken).await.unwrap();
    let free = mutex(&client, &env.name("free"));
    let end_time = tokio::time::Instant::now() + hold.remaining() * 4 / 3;
    while tokio::time::Instant::now() < end_time {
        take(&free).await.release().await.unwrap();
        tokio::time::sleep(hold.remaining() / 20).await;
    }
    assert!(hold.is_held(), "the lock of a blocked runtime was not renewed");
    assert!(is_busy(&mutex(&client, &name)).await);
    go_on.send(()).unwrap();
    on_a_thread(move || runtime.join().unwrap()).await;
    freed(&mutex(&client, &name)).await;
}

/// A thread without any runtime polls the futures, and parks in between.
pub(super) async fn a_lock_is_taken_and_released_without_a_runtime(env: TestEnv) {
    let client = env.client().await;
    let lock = mutex(&client, &env.name("parked"));
    let held = take_free(&lock).await;
    let theirs = lock.clone();
    let thread = on_a_thread(move || {
        assert!(runtime::Handle::try_current().is_err(), "this thread has a runtime");
        parked(async {
            assert!(theirs.try_acquire().await.unwrap().is_none());
            let guard = theirs.acquire().await.unwrap();
            guard.extend().await.unwrap();
            guard.release().await.unwrap()
        })
    });
    let thread = tokio::spawn(thread);
    queue_of(2, &lock).await;
    held.release().await.unwrap();
    soon("the turn of the thread", thread).await.unwrap().confirmed().unwrap();
    freed(&lock).await;
}

fn one_thread() -> runtime::Runtime {
    runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn two_threads() -> runtime::Runtime {
    runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A runtime on which `tokio::time` panics.
fn without_timers() -> runtime::Runtime {
    runtime::Builder::new_current_thread().enable_io().build().unwrap()
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Drives a future with nothing but the thread it is on.
fn parked<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
