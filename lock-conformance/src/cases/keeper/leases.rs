//! Leases that the keeper ends, and leases that it must not delay.

use std::{sync::Arc, time::Duration};

use lock_core::{
    AcquireOptions, DistributedLock, Guard, HoldState, Locks, LostReason, Memory, SystemEntropy,
};

use super::quirks::{Quirk, quirky, quirky_and_counted};
use crate::{
    Client, Fault, Gate, SLACK, TestEnv, Verb,
    audit::{eventually, soon, within},
    cases::steps::{brief, faulty, freed, lasting, long, mutex, queue_of, take, take_free},
};

/// A guard without renewal, a guard at the end of its `max_hold`, and both again after `mem::forget`. The store would keep their entries for
/// two minutes.
pub(in crate::cases) async fn a_lease_of_its_own_ends_although_its_session_lives(env: TestEnv) {
    let (client, other) = (quirky(&env, Quirk::SharedSession).await, env.client().await);
    let ends = [
        ("unrenewed", brief().renew(false)),
        ("held long enough", long().max_hold(Duration::from_millis(600))),
    ];
    for (how, options) in ends {
        for forgotten in [false, true] {
            let name = env.name(&format!("{how}, forgotten: {forgotten}"));
            let guard = take_free(&client.mutex(&name).with_options(options.clone())).await;
            let hold = guard.hold();
            let kept = if forgotten {
                std::mem::forget(guard);
                None
            } else {
                Some(guard)
            };
            let next =
                within("the next grant", hold.remaining() + SLACK, mutex(&other, &name).acquire()).await;
            assert!(!hold.is_held(), "a lock that is {how} was taken away before its end");
            assert!(kept.is_none_or(|guard| !guard.is_held()));
            next.unwrap().release().await.unwrap();
        }
    }
    // A forgotten guard keeps its client alive.
    client.crash().await;
}

/// All renewals fail, so the lock is lost at its deadline, but the store keeps the entry.
pub(in crate::cases) async fn a_lost_lock_is_left_although_its_session_lives(env: TestEnv) {
    let (client, other) = (quirky(&env, Quirk::DeafSession).await, env.client().await);
    let name = env.name("deaf");
    let guard = take_free(&mutex(&client, &name).with_options(brief())).await;
    let next = within("the next grant", guard.ttl() + SLACK, mutex(&other, &name).acquire()).await.unwrap();
    assert_eq!(guard.state(), HoldState::Lost(LostReason::Expired));
    next.release().await.unwrap();
}

/// The future of a waiter is alive, but not polled: its entry would block the waiters behind it.
pub(in crate::cases) async fn a_place_that_nobody_polls_ends_although_its_session_lives(env: TestEnv) {
    let (client, counted) = quirky_and_counted(&env, Quirk::SharedSession).await;
    let other = env.client().await;
    let name = env.name("unpolled");
    let seen = mutex(&other, &name);
    let held = take_free(&seen).await;
    let lock = mutex(&client, &name).with_options(brief());
    let mut waiting = lock.acquire();
    tokio::select! {
        granted = &mut waiting => panic!("the lock is held, and was granted: {granted:?}"),
        // From here on the waiter has a place, and its client knows that.
        () = eventually("a place", SLACK, || async { counted.answers(Verb::Enter) > 0 }) => {}
    }
    queue_of(1, &seen).await;
    held.release().await.unwrap();
    take(&seen).await.release().await.unwrap();
    // When it is polled again, it joins the queue again, at the end.
    soon("the late waiter", waiting).await.unwrap().release().await.unwrap();
    freed(&seen).await;
}

/// A store that does not answer, a class of leases whose renewals are not answered, and a paused server: other leases on the same keeper
/// are renewed in time.
pub(in crate::cases) async fn a_slow_store_or_class_delays_no_other_lease(env: TestEnv) {
    // A try may take a sixth of the ttl. With this ttl, that is longer than the other leases last, which must not wait for it.
    let slow = AcquireOptions::new().ttl(Duration::from_secs(12));
    let swift = AcquireOptions::new().ttl(Duration::from_millis(1_600));
    let client = quirky(&env, Quirk::Stuck(slow.ttl)).await;
    let (slow_store, silent) = faulty(&env).await;
    silent.always(Verb::Renew, Fault::HoldReply(Gate::new()));
    let beside = |keeper: &lock_core::Keeper| {
        Locks::with(Arc::new(Memory::new()), keeper.clone(), Arc::new(SystemEntropy))
    };
    let take = |locks: Locks, tag: &str, options: &AcquireOptions| {
        let lock = locks.mutex(env.name(tag)).unwrap().with_options(options.clone());
        async move { take_free(&lock).await }
    };
    let _slow = [
        take(client.locks.clone(), "slow class", &slow).await,
        take(slow_store.locks.clone(), "slow store", &slow).await,
    ];
    let swift = [
        take(client.locks.clone(), "swift class", &swift).await,
        take(beside(&slow_store.keeper), "swift store", &swift).await,
    ];
    // The first renewals of the slow leases are due after 4 s, and take 2 s each.
    assert_stay_held(&swift, Duration::from_secs(7)).await;

    let (still, silence) = faulty(&env).await;
    let theirs = take(still.locks.clone(), "still", &brief()).await;
    let ours = [take(beside(&still.keeper), "beside it", &lasting()).await];
    // A store without a server that can be paused is only silent to this client: it carries out requests, and answers none.
    let stopped = env.server().pause().await.is_ok();
    let gate = Gate::new();
    if !stopped {
        for verb in [Verb::Enter, Verb::Renew, Verb::Leave] {
            silence.always(verb, Fault::HoldReply(gate.clone()));
        }
    }
    drop(theirs);
    let entered = silence.calls(Verb::Enter);
    stay_busy_with(&still, &env.name("still"), assert_stay_held(&ours, Duration::from_secs(4))).await;
    assert!(
        silence.calls(Verb::Enter) > entered && silence.calls(Verb::Leave) > 0,
        "nothing was asked meanwhile"
    );
    gate.open();
    if stopped {
        env.server().resume().await.unwrap();
    }
    // Requests that are never answered keep their clients alive until the lease ends.
    for client in [client, slow_store] {
        client.crash().await;
    }
}

async fn stay_busy_with(client: &Client, name: &str, work: impl Future<Output = ()>) {
    let lock = mutex(client, name);
    tokio::select! {
        // It may wait for the server, or give up.
        () = async {
            let _ = lock.acquire().await;
            std::future::pending::<()>().await;
        } => {}
        () = work => {}
    }
}

async fn assert_stay_held(guards: &[Guard], time: Duration) {
    let end = tokio::time::Instant::now() + time;
    while tokio::time::Instant::now() < end {
        for guard in guards {
            // A try that fails on a busy machine makes a lock suspect; a lock whose renewal waits for the others is lost.
            assert!(guard.is_held(), "`{}` was delayed by another: {:?}", guard.name(), guard.state());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
