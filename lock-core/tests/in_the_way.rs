//! What the error of a wait that timed out says about the holders and waiters ahead.

mod support;

use std::time::Duration;

use lock_core::{AcquireOptions, DistributedLock, Error, Guard, Lock};
use support::{Client, Sim, ms, s, sleep};

async fn take(lock: &Lock, label: &str) -> Guard {
    lock.acquire_with(&AcquireOptions::new().ttl(s(30)).label(label)).await.unwrap()
}

/// The error of a wait that timed out, and whether it names this client or other clients as holders.
async fn refused(lock: &Lock, wait: Duration) -> (String, bool, bool) {
    let error = lock.acquire_with(&AcquireOptions::new().ttl(s(30)).wait(wait)).await.unwrap_err();
    let Error::WaitTimeout { waited, here, others, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*waited, wait);
    (error.to_string(), *here, *others)
}

/// The likeliest reason is that the caller has it already: no lock is re-entrant.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_lock_that_its_own_process_holds_says_so() {
    let sim = Sim::new();
    let (ours, theirs) = (sim.client(), sim.client());
    let mutex = |client: &Client| client.locks.mutex("a").unwrap();
    let guard = take(&mutex(&ours), "web-1").await;
    for wait in [s(2), ms(1), s(0)] {
        let (said, here, others) = refused(&mutex(&ours), wait).await;
        assert!(here && !others && said.contains(", held by this process: `web-1`; "), "{said}");
        let (said, here, others) = refused(&mutex(&theirs), wait).await;
        assert!(!here && !others && !said.contains("this process"), "{said}");
    }
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn permits_that_are_held_here_are_named_and_not_those_that_were_first() {
    let sim = Sim::new();
    let (ours, theirs) = (sim.client(), sim.client());
    let permit = |client: &Client| client.locks.semaphore("a", 2).unwrap().permits(1).unwrap();
    let first = take(&permit(&theirs), "theirs").await;
    let _second = take(&permit(&ours), "ours").await;
    for wait in [s(2), s(0)] {
        let (said, here, others) = refused(&permit(&ours), wait).await;
        let told = said.contains(", held by this process (`ours`), and maybe by others; ");
        assert!(here && others && told, "{said}");
    }
    first.release().await.unwrap();
    let _third = take(&permit(&ours), "ours too").await;
    for wait in [s(2), s(0)] {
        let (said, here, others) = refused(&permit(&ours), wait).await;
        assert!(here && !others && said.contains(", held by this process: `ours`; "), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_lock_that_is_held_here_tells_whether_others_may_read_too() {
    let sim = Sim::new();
    let (ours, theirs) = (sim.client(), sim.client());
    let lock = |client: &Client| client.locks.rwlock("a").unwrap();
    let _ours = take(&lock(&ours).read(), "ours").await;
    let (said, here, others) = refused(&lock(&ours).write(), s(2)).await;
    assert!(here && !others && said.contains(", held by this process: `ours`; "), "{said}");
    let _theirs = take(&lock(&theirs).read(), "theirs").await;
    let (said, here, others) = refused(&lock(&ours).write(), s(2)).await;
    assert!(here && others && said.contains(" (`ours`), and maybe by others; "), "{said}");
}

/// A waiter further behind is not notified of the hand-off.
#[tokio::test(start_paused = true)]
async fn a_holder_that_has_left_since_the_last_look_is_not_taken_for_our_own() {
    let sim = Sim::new();
    let (ours, theirs) = (sim.client(), sim.client());
    let held = take(&theirs.locks.mutex("a").unwrap(), "theirs").await;
    let (next, last) = (ours.locks.mutex("a").unwrap(), ours.locks.mutex("a").unwrap());
    let next = tokio::spawn(async move { take(&next, "ours").await });
    sleep(ms(1)).await;
    let last = tokio::spawn(async move { refused(&last, s(3)).await });
    sleep(ms(1)).await;
    held.release().await.unwrap();
    let _next = next.await.unwrap();
    let (said, ..) = last.await.unwrap();
    assert!(said.contains(" (2 ahead), held by this process: `ours`; "), "{said}");
}
