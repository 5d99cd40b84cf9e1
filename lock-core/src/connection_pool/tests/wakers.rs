//! Callers whose wakers use the pool, and panic.

use std::{
    panic::resume_unwind,
    pin::Pin,
    sync::{atomic::AtomicBool, mpsc},
    task::Context,
};

use futures_util::task::{ArcWake, waker};

use super::*;

/// Uses the pool when it is woken, and then panics.
struct Reentrant {
    pool: ConnectionPool<Nowhere>,
    returned: AtomicBool,
}

impl Reentrant {
    fn new(pool: &ConnectionPool<Nowhere>) -> Arc<Self> {
        Arc::new(Self { pool: pool.clone(), returned: AtomicBool::new(false) })
    }

    /// Waits for a connection with this waker.
    fn waits_for(self: &Arc<Self>, connection: &mut Pin<Box<impl Future>>) {
        let foreign = waker(Arc::clone(self));
        assert!(connection.as_mut().poll(&mut Context::from_waker(&foreign)).is_pending());
    }

    fn assert_used_the_pool(&self) {
        assert!(self.returned.load(Relaxed), "the pool is locked while it wakes");
    }
}

impl ArcWake for Reentrant {
    fn wake_by_ref(this: &Arc<Self>) {
        let (pool, (done, returned)) = (this.pool.clone(), mpsc::channel());
        // On a thread of its own: a pool that is locked meanwhile must fail the test, and not hang it.
        thread::spawn(move || {
            pool.retire_where(|_| false);
            // The test may have failed.
            let _ = done.send(());
        });
        this.returned.store(returned.recv_timeout(Duration::from_secs(10)).is_ok(), Relaxed);
        resume_unwind(Box::new("an ordered panic of a waker"));
    }
}

#[tokio::test]
async fn a_waker_may_use_the_pool_and_panic_when_a_connection_is_opened() {
    let pool = pool();
    let (mut first, reentrant) = (Box::pin(pool.connect(&0)), Reentrant::new(&pool));
    reentrant.waits_for(&mut first);
    // At the time limit of the attempt it would wake by itself.
    let other = tokio::time::timeout(PATIENCE / 2, pool.connect(&0)).await.expect("it was not woken");
    let (opened, link) = other.unwrap();
    reentrant.assert_used_the_pool();
    assert!(!opened.is_closed() && link.driven.upgrade().is_some(), "the panic ended the connection");
    assert!(Arc::ptr_eq(&first.await.unwrap().0, &opened));
    assert_eq!(attempts(&pool), 1);
}

/// The panic comes while the task that opens the connection unwinds: one that escapes ends the process.
#[test]
fn a_waker_may_use_the_pool_and_panic_when_its_runtime_has_no_io() {
    let pool = pool();
    let reentrant = Reentrant::new(&pool);
    let bare = Builder::new_current_thread().build().unwrap();
    let (opened, link) = bare.block_on(async {
        let mut first = Box::pin(pool.connect(&0));
        reentrant.waits_for(&mut first);
        pool.connect(&0).await.unwrap()
    });
    reentrant.assert_used_the_pool();
    assert!(opened.is_on_keeper() && link.is_keepers());
}

#[tokio::test]
async fn a_waker_may_use_the_pool_and_panic_when_a_connection_is_taken_back() {
    let pool = pool();
    let (late, _) = pool.connect(&0).await.unwrap();
    pool.retire(&late);
    *pool.connector().fate.lock() = Fate::Silent;
    let (mut waiting, reentrant) = (Box::pin(pool.connect(&0)), Reentrant::new(&pool));
    reentrant.waits_for(&mut waiting);
    let theirs = pool.clone();
    let other = tokio::spawn(async move { theirs.connect(&0).await });
    tokio::task::yield_now().await;
    pool.take_back(&late);
    reentrant.assert_used_the_pool();
    let other = tokio::time::timeout(PATIENCE / 2, other).await.expect("it was not woken").unwrap();
    for taken in [waiting.await, other] {
        assert!(Arc::ptr_eq(&taken.unwrap().0, &late));
    }
}
