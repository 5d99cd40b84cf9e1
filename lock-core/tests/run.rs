//! `run`: a body under a lock, stopped when the lock is lost.

mod support;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use lock_core::{AcquireOptions, DistributedLock, Error, LostReason};
use support::{Fault, Sim, Verb, assert_at, lease, ms, s, sleep};

/// Records that it was dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn the_value_of_the_body_is_given_back_and_the_lock_released() {
    let sim = Sim::new();
    let client = sim.client();
    let lock = client.locks.mutex("a").unwrap();
    let token = lock.run(|hold| async move { (hold.is_held(), hold.token()) }).await.unwrap();
    assert!(token.0);
    assert!(sim.rows("a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_body_is_dropped_at_its_next_await_when_the_lock_is_lost() {
    let sim = Sim::new();
    let client = sim.client();
    client.wire.always(Verb::Renew, Some(Fault::Hangs));
    let lock = client.locks.mutex("a").unwrap().with_options(AcquireOptions::new().ttl(s(10)));
    let dropped = Arc::new(AtomicBool::new(false));
    let sees = Dropped(Arc::clone(&dropped));
    let start = sim.now();
    let error = lock
        .run(|_| async move {
            let _sees = sees;
            loop {
                // A body that is ready again and again must not outrun the loss.
                sleep(ms(1)).await;
            }
        })
        .await
        .unwrap_err();
    assert_at(sim.now(), start + lease(s(10)));
    assert!(matches!(error, Error::Lost { reason: LostReason::Expired, stopped: true, .. }), "{error:?}");
    assert!(error.is_transient(), "what was stopped may be run again");
    assert!(dropped.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_ends_after_the_loss_does_not_pass_for_done() {
    let sim = Sim::new();
    let client = sim.client();
    let lock = client.locks.mutex("a").unwrap().with_options(AcquireOptions::new().ttl(s(10)));
    let sim = &sim;
    // It never awaits, so it cannot be stopped.
    let error = lock.run(|_| async { sim.suspend(s(60)) }).await.unwrap_err();
    assert!(matches!(error, Error::Lost { stopped: false, .. }), "{error:?}");
    assert!(!error.is_transient(), "what may be finished is not run again");
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_lock_is_found_gone_at_its_end_does_not_count_as_done() {
    let sim = Sim::new();
    let client = sim.client();
    let lock = client.locks.mutex("a").unwrap();
    let operator = client.locks.operator();
    let evict =
        |hold: lock_core::Hold| async move { operator.evict(hold.name(), hold.entry_id()).await.unwrap() };
    let error = lock.run(evict).await.unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::Gone, stopped: false, .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_is_done_though_its_release_is_pending() {
    let sim = Sim::new();
    let client = sim.client();
    let lock = client.locks.mutex("a").unwrap();
    client.wire.once(Verb::Leave, Fault::Lost(ms(500)));
    assert_eq!(lock.run(|_| async { 42 }).await.unwrap(), 42);
    sleep(s(10)).await;
    assert!(sim.rows("a").await.is_empty(), "the keeper goes on");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_panics_releases_the_lock_and_the_panic_goes_on() {
    let sim = Sim::new();
    let client = sim.client();
    let lock = client.locks.mutex("a").unwrap();
    let task = tokio::spawn(async move { lock.run(|_| async { panic!("the body's own") }).await });
    assert!(task.await.unwrap_err().is_panic());
    sleep(ms(1)).await;
    assert!(sim.rows("a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn dropping_a_run_drops_the_body_and_releases_the_lock() {
    let sim = Sim::new();
    let client = sim.client();
    let lock = client.locks.mutex("a").unwrap();
    let dropped = Arc::new(AtomicBool::new(false));
    let sees = Dropped(Arc::clone(&dropped));
    let run = lock.run(|_| async move {
        let _sees = sees;
        std::future::pending::<()>().await;
    });
    assert!(tokio::time::timeout(s(5), run).await.is_err());
    sleep(ms(1)).await;
    assert!(dropped.load(Ordering::Relaxed));
    assert!(sim.rows("a").await.is_empty());
}
