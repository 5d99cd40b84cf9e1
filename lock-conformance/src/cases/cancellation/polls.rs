//! Futures that are dropped after 0, 1, 2, … polls, until they are ready.

use std::time::Duration;

use lock_core::{AcquireOptions, DistributedLock, Guard};

use crate::{
    Client, Fault, TestEnv, Verb,
    cases::steps::{faulty, freed, mutex, permits, queue, reader, take_free, writer},
    polls::polled,
};

/// More polls than any operation takes that does not wait for another client.
const MOST: usize = 100;

/// The future is dropped at once, or when an unread answer may have arrived.
const DROPPED_AFTER: [Duration; 2] = [Duration::ZERO, Duration::from_millis(20)];

/// A client whose futures can be dropped in the middle of every request, however fast the store is. At that time `enter` and `renew`
/// have arrived at the store, and `leave` has not.
async fn slow(env: &TestEnv) -> Client {
    const PAUSE: Duration = Duration::from_millis(4);
    let (client, faulty) = faulty(env).await;
    faulty.always(Verb::Enter, Fault::DelayReply(PAUSE));
    faulty.always(Verb::Renew, Fault::DelayReply(PAUSE));
    faulty.always(Verb::Leave, Fault::DelayRequest(PAUSE));
    client
}

pub(in crate::cases) async fn a_try_can_be_dropped_at_every_point(env: TestEnv) {
    let (client, name) = (slow(&env).await, env.name("free"));
    let lock = mutex(&client, &name);
    nothing_is_left_of(&lock, async || lock.try_acquire().await.unwrap().expect("the lock is free")).await;
}

pub(in crate::cases) async fn an_acquisition_can_be_dropped_at_every_point(env: TestEnv) {
    let (client, name) = (slow(&env).await, env.name("free"));
    let lock = mutex(&client, &name);
    nothing_is_left_of(&lock, async || lock.acquire().await.unwrap()).await;
}

pub(in crate::cases) async fn a_queued_acquisition_can_be_dropped_at_every_point(env: TestEnv) {
    let (holder, waiter) = (env.client().await, slow(&env).await);
    let name = env.name("taken");
    nothing_is_left_of_waiting(&mutex(&holder, &name), &mutex(&waiter, &name)).await;
}

/// The lock stays held, the keeper goes on renewing it, and its release works.
pub(in crate::cases) async fn a_renewal_can_be_dropped_at_every_point(env: TestEnv) {
    let (client, name) = (slow(&env).await, env.name("held"));
    let lock = client.mutex(&name).with_options(AcquireOptions::new().ttl(Duration::from_secs(1)));
    for pause in DROPPED_AFTER {
        let guard = take_free(&lock).await;
        for polls in 0.. {
            assert!(polls < MOST, "a renewal is not ready after {polls} polls");
            if let Some(renewed) = polled_until(polls, pause, guard.extend()).await {
                assert!(renewed.unwrap() > Duration::ZERO);
                break;
            }
            assert!(guard.is_held(), "a renewal that was dropped cost the lock");
            assert_eq!(queue(&lock).await.len(), 1);
        }
        // For longer than our own last renewal lasts.
        tokio::time::sleep(guard.remaining() + Duration::from_millis(50)).await;
        assert!(guard.is_held(), "a renewal that was dropped ended those of the keeper");
        guard.release().await.unwrap().confirmed().unwrap();
        freed(&lock).await;
    }
}

pub(in crate::cases) async fn a_release_can_be_dropped_at_every_point(env: TestEnv) {
    let (client, name) = (slow(&env).await, env.name("held"));
    let lock = mutex(&client, &name);
    for pause in DROPPED_AFTER {
        for polls in 0.. {
            assert!(polls < MOST, "a release is not ready after {polls} polls");
            let guard = take_free(&lock).await;
            let released = polled_until(polls, pause, guard.release()).await;
            freed(&lock).await;
            if let Some(released) = released {
                released.unwrap().confirmed().unwrap();
                break;
            }
        }
    }
}

pub(in crate::cases) async fn both_sides_of_a_rwlock_can_be_dropped_at_every_point(env: TestEnv) {
    let (holder, waiter) = (env.client().await, slow(&env).await);
    let name = env.name("sides");
    for lock in [reader(&waiter, &name), writer(&waiter, &name)] {
        nothing_is_left_of(&lock, async || lock.acquire().await.unwrap()).await;
    }
    nothing_is_left_of_waiting(&reader(&holder, &name), &writer(&waiter, &name)).await;
    nothing_is_left_of_waiting(&writer(&holder, &name), &reader(&waiter, &name)).await;
}

pub(in crate::cases) async fn portions_of_a_semaphore_can_be_dropped_at_every_point(env: TestEnv) {
    let (holder, waiter) = (env.client().await, slow(&env).await);
    let name = env.name("portions");
    let two = permits(&waiter, &name, 2, 3);
    nothing_is_left_of(&two, async || two.acquire().await.unwrap()).await;
    nothing_is_left_of_waiting(&permits(&holder, &name, 2, 3), &two).await;
}

/// Drops an attempt at every point: each time the lock becomes free again, long before a lease would end.
async fn nothing_is_left_of<A>(lock: &dyn DistributedLock, attempt: impl Fn() -> A)
where
    A: Future<Output = Guard>,
{
    for pause in DROPPED_AFTER {
        for polls in 0.. {
            assert!(polls < MOST, "an attempt is not ready after {polls} polls");
            let granted = polled_until(polls, pause, attempt()).await;
            let ready = granted.is_some();
            if let Some(guard) = granted {
                guard.release().await.unwrap().confirmed().unwrap();
            }
            freed(lock).await;
            if ready {
                break;
            }
        }
    }
}

/// The same for a waiter whose holder releases after a while.
async fn nothing_is_left_of_waiting(holder: &dyn DistributedLock, lock: &dyn DistributedLock) {
    for pause in DROPPED_AFTER {
        for polls in 0.. {
            assert!(polls < MOST, "a waiter is not granted the lock after {polls} polls");
            let held = take_free(holder).await;
            let release = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(15)).await;
                held.release().await
            });
            let granted = polled_until(polls, pause, lock.acquire()).await;
            release.await.unwrap().unwrap().confirmed().unwrap();
            let ready = granted.is_some();
            if let Some(guard) = granted {
                guard.unwrap().release().await.unwrap().confirmed().unwrap();
            }
            freed(lock).await;
            if ready {
                break;
            }
        }
    }
}

/// Polls a future this many times, waits for a short time, and drops it.
async fn polled_until<T>(polls: usize, pause: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut future = Box::pin(future);
    let output = polled(polls, future.as_mut()).await;
    if output.is_none() && !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    output
}
