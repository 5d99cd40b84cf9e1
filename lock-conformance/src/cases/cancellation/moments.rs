//! Futures that are dropped in races with a grant or a timeout.

use std::time::Duration;

use lock_core::{DistributedLock, Error, Guard};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    Fault, Gate, TestEnv, Verb,
    audit::soon,
    cases::steps::{faulty, freed, long, mutex, queue_of, refused, take, take_free},
};

pub(in crate::cases) async fn a_future_that_was_never_polled_asks_nothing(env: TestEnv) {
    let (client, faulty) = faulty(&env).await;
    let lock = mutex(&client, &env.name("unpolled"));
    drop(lock.acquire());
    drop(lock.try_acquire());
    drop(lock.try_acquire_with(&long()));
    drop(lock.acquire_with(&long().wait(Duration::from_secs(1))));
    drop(lock.run(|_| async {}));
    let guard = {
        assert_eq!(faulty.calls(Verb::Enter), 0, "a future that was never polled asked the store");
        take_free(&lock).await
    };
    drop(guard.extend());
    assert_eq!(faulty.calls(Verb::Renew), 0, "a future that was never polled asked the store");
    assert!(guard.is_held());
    // The future owns the guard: dropping the future drops the guard.
    drop(guard.release());
    freed(&lock).await;
}

/// The store has admitted a waiter, but its future is not polled any more, and then dropped.
pub(in crate::cases) async fn a_grant_that_nobody_collects_goes_to_the_next(env: TestEnv) {
    let (holder, waiter, next) = (env.client().await, env.client().await, env.client().await);
    let name = env.name("uncollected");
    let seen = mutex(&holder, &name);
    let held = take_free(&seen).await;
    let lock = mutex(&waiter, &name);
    let mut waiting = lock.acquire();
    tokio::select! {
        granted = &mut waiting => panic!("the lock is held, and was granted: {granted:?}"),
        _ = queue_of(2, &seen) => {}
    }
    held.release().await.unwrap();
    let rows = queue_of(1, &seen).await;
    assert!(rows[0].admitted, "the lock is free, and the first in its queue does not hold it: {rows:?}");

    let theirs = mutex(&next, &name);
    let last = tokio::spawn(async move { theirs.acquire().await });
    queue_of(2, &seen).await;
    drop(waiting);
    let guard = soon("the grant that was passed on", last).await.unwrap().unwrap();
    assert!(guard.is_held());
}

/// In a `select!`, the other branch becomes ready at about the same time as the grant.
pub(in crate::cases) async fn an_acquisition_that_loses_a_race_leaves_nothing_behind(env: TestEnv) {
    let (holder, waiter) = (env.client().await, env.client().await);
    let name = env.name("race");
    let (theirs, lock) = (mutex(&holder, &name), mutex(&waiter, &name));
    for round in 0..30 {
        let held = take_free(&theirs).await;
        let pause = Duration::from_micros(100 * round);
        tokio::select! {
            granted = lock.acquire() => drop(granted.unwrap()),
            () = async {
                sleep(pause).await;
                held.release().await.unwrap();
            } => {}
        }
        freed(&lock).await;
    }
}

/// The holder releases within 5 ms of the end of the wait. The outcome is a valid guard, or a timeout that leaves nothing behind.
pub(in crate::cases) async fn a_grant_that_comes_as_the_wait_ends_is_taken_or_given_back(env: TestEnv) {
    const WAIT: Duration = Duration::from_millis(30);
    let (holder, waiter) = (env.client().await, env.client().await);
    let name = env.name("race");
    let (theirs, lock) = (mutex(&holder, &name), mutex(&waiter, &name));
    for round in 0..30 {
        let held = take_free(&theirs).await;
        let end_time = Instant::now() + WAIT;
        let (ours, options) = (lock.clone(), long().wait(WAIT));
        let waiting = tokio::spawn(async move { ours.acquire_with(&options).await });
        sleep_until(end_time - Duration::from_millis(5) + Duration::from_micros(333 * round)).await;
        held.release().await.unwrap();
        match soon("the end of the wait", waiting).await.unwrap() {
            Ok(guard) => {
                assert!(guard.is_held(), "a guard was given for a lock that is not held");
                guard.release().await.unwrap();
            }
            Err(error) => assert!(matches!(error, Error::WaitTimeout { .. }), "{error:?}"),
        }
        freed(&lock).await;
    }
}

/// The store granted the lock; the answer is still on its way when the wait ends.
pub(in crate::cases) async fn a_grant_whose_answer_comes_too_late_is_given_back(env: TestEnv) {
    let (client, faulty) = faulty(&env).await;
    let other = env.client().await;
    let name = env.name("late");
    let gate = Gate::new();
    faulty.next(Verb::Enter, Fault::HoldReply(gate.clone()));
    let options = long().wait(Duration::from_millis(100));
    let lock = mutex(&client, &name);
    let error = refused(soon("the end of the wait", lock.acquire_with(&options)).await);
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error:?}");
    freed(&mutex(&other, &name)).await;
}

/// In the middle of the queue: the waiters ahead and behind keep their places, and their turn comes.
pub(in crate::cases) async fn a_cancelled_waiter_leaves_the_queue_at_once(env: TestEnv) {
    let (holder, waiter) = (env.client().await, env.client().await);
    let name = env.name("middle");
    let seen = mutex(&holder, &name);
    let held = take_free(&seen).await;
    let mut waiting = Vec::new();
    for place in 2..5 {
        let lock = mutex(&waiter, &name);
        waiting.push(tokio::spawn(async move { lock.acquire().await.map(Guard::release)?.await }));
        queue_of(place, &seen).await;
    }
    let before = queue_of(4, &seen).await;
    waiting.remove(1).abort();
    let left: Vec<_> = queue_of(3, &seen).await.into_iter().map(|row| row.entry).collect();
    assert_eq!(left, [before[0].entry, before[1].entry, before[3].entry]);

    held.release().await.unwrap();
    for waiter in waiting {
        soon("the turn of those who still wait", waiter).await.unwrap().unwrap();
    }
    drop(take(&seen).await);
}
