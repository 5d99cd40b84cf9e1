//! Closing a client: waiters get an error, current work is waited for, and nothing is granted afterwards.

use std::{future::Future, pin::pin, task::Poll, time::Duration};

use futures_util::{FutureExt, future::poll_fn};
use lock_core::{DistributedLock, Error, Guard, LockName};

use super::steps::{faulty, freed, mutex, queue_of, refused, take_free};
use crate::{CaseTest, Fault, Gate, SLACK, TestEnv, Verb, audit::soon};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! close_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] close {
            waiters_are_told_of_a_close_at_once_and_never_granted ["C19"]
            a_close_waits_for_a_guard_that_is_dropped_meanwhile ["C19"]
            a_close_that_races_an_acquisition_grants_nothing_and_leaves_nothing ["C19"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = close_cases!(list);

fn assert_closed(granted: Result<Guard, Error>) {
    let error = refused(granted);
    assert!(matches!(error, Error::Closed { .. }), "{error}");
}

/// Polls a future until another client has seen its request. After that the future is not polled any more.
async fn polled_until<T>(future: &mut (impl Future<Output = T> + Unpin), seen: impl Future) {
    let mut seen = pin!(seen);
    poll_fn(|cx| {
        assert!(future.poll_unpin(cx).is_pending(), "it is ready too early");
        seen.as_mut().poll(cx).map(drop)
    })
    .await;
}

/// A waiter that is polled, and one that is not polled any more.
pub(super) async fn waiters_are_told_of_a_close_at_once_and_never_granted(env: TestEnv) {
    let (client, other) = (env.client().await, env.client().await);
    let name = env.name("job");
    let (lock, theirs) = (mutex(&client, &name), mutex(&other, &name));
    let held = take_free(&theirs).await;
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    queue_of(2, &theirs).await;
    let mut unpolled = lock.acquire();
    polled_until(&mut unpolled, queue_of(3, &theirs)).await;

    // Both wait without a bound, and the next look is later than the time limit of this case.
    let closing = tokio::spawn({
        let locks = client.locks.clone();
        async move { locks.close(SLACK).await }
    });
    assert_closed(soon("the word that the client is closed", waiting).await.unwrap());
    assert_eq!(closing.await.unwrap(), Ok(()));
    queue_of(1, &theirs).await;
    held.release().await.unwrap();
    assert_closed(soon("the same error for a late caller", unpolled).await);
    assert_closed(lock.acquire().await);
    assert!(matches!(lock.try_acquire().await, Err(Error::Closed { .. })));
    freed(&theirs).await;
}

/// A guard that is kept is not waited for beyond the given time. The error names it.
pub(super) async fn a_close_waits_for_a_guard_that_is_dropped_meanwhile(env: TestEnv) {
    let (client, other) = (env.client().await, env.client().await);
    let (dropped, kept) = (env.name("dropped"), env.name("kept"));
    let (guard, stays) =
        (take_free(&mutex(&client, &dropped)).await, take_free(&mutex(&client, &kept)).await);
    let left = client.locks.close(Duration::ZERO).await.unwrap_err();
    assert_eq!(left.held.iter().map(LockName::as_str).collect::<Vec<_>>(), [&*dropped, &*kept]);
    let closing = tokio::spawn({
        let locks = client.locks.clone();
        async move { locks.close(Duration::from_secs(2)).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!closing.is_finished(), "it did not wait");
    drop(guard);
    let left = closing.await.unwrap().unwrap_err();
    assert_eq!(left.held.iter().map(LockName::as_str).collect::<Vec<_>>(), [&*kept]);
    freed(&mutex(&other, &dropped)).await;
    assert!(stays.is_held(), "the close ended the lock: {:?}", stays.state());

    let closing = tokio::spawn({
        let locks = client.locks.clone();
        async move { locks.close(SLACK).await }
    });
    stays.release().await.unwrap();
    assert_eq!(soon("the end of a close that need not wait any more", closing).await.unwrap(), Ok(()));
    freed(&mutex(&other, &kept)).await;
}

/// The request is late, or its answer is; the acquisition is polled, or it is not polled any more.
pub(super) async fn a_close_that_races_an_acquisition_grants_nothing_and_leaves_nothing(env: TestEnv) {
    for (i, polls) in [true, false].into_iter().enumerate() {
        for late in [Fault::InFlight as fn(Gate) -> Fault, Fault::HoldReply] {
            let ((client, faults), other) = (faulty(&env).await, env.client().await);
            let name = env.name(&format!("job {i}"));
            let theirs = mutex(&other, &name);
            let (gate, lock) = (Gate::new(), mutex(&client, &name));
            faults.next(Verb::Enter, late(gate.clone()));
            let mut asking = lock.acquire();
            polled_until(&mut asking, gate.reached()).await;
            if polls {
                let closing = tokio::spawn({
                    let locks = client.locks.clone();
                    async move { locks.close(SLACK).await }
                });
                assert_closed(soon("the word that the client is closed", asking).await);
                assert_eq!(closing.await.unwrap(), Ok(()));
                gate.open();
            } else {
                assert_eq!(client.locks.close(SLACK).await, Ok(()));
                gate.open();
                // The entry may be in the store by now, or arrive later. The acquisition must not take it.
                tokio::time::sleep(Duration::from_millis(50)).await;
                match poll_fn(|cx| Poll::Ready(asking.poll_unpin(cx))).await {
                    Poll::Ready(granted) => assert_closed(granted),
                    Poll::Pending => assert_closed(soon("its end", asking).await),
                }
            }
            freed(&theirs).await;
        }
    }
}
