//! When a guard reports that its lock is lost, and when it does not.

use std::{pin::pin, time::Duration};

use futures_util::{FutureExt, future::join_all};
use lock_core::{BackendErrorKind, Departure, DistributedLock, HoldState, LostReason};

use super::{
    lease::{deadline_at_least, deadline_at_most, lock_name, ms, now, queued_behind, snatch},
    stall_tolerant::stall_tolerant,
    steps::{LONG, assert_lost, faulty, on_a_thread, take},
};
use crate::{
    CaseTest, Fault, SLACK, TestEnv, Verb,
    audit::{assert_free, assert_queue_empties, eventually, safety, soon, within},
};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! lost_signal_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] lost_signal {
            the_signal_comes_at_the_deadline ["S01"]
            the_signal_comes_early_when_the_store_has_lost_the_lock ["S02"]
            the_signal_comes_at_once_when_an_operator_evicts_the_holder ["S02"]
            a_loss_stays_and_is_told_again_and_again ["S03"]
            every_listener_hears_it_also_those_who_come_late ["S04"]
            a_release_gives_no_signal ["S05"]
            the_signal_has_come_when_the_next_is_granted ["S06"]
            a_suspect_lock_that_recovers_gives_no_signal ["S07"]
            a_lost_lock_is_never_taken_again ["S08"]
            a_lock_is_over_at_its_deadline_though_nothing_of_its_client_runs ["S09"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = lost_signal_cases!(list);

/// The signal does not come before the deadline, and comes although nothing but the signal is polled.
pub(super) async fn the_signal_comes_at_the_deadline(env: TestEnv) {
    let client = env.client().await;
    let name = env.name("job");
    let options = client.options().ttl(ms(300)).renew(false);
    let guard = client.mutex(&name).acquire_with(&options).await.unwrap();
    let deadline = deadline_at_least(&guard.hold());
    let reason = within("the signal", guard.ttl() + SLACK, guard.lost()).await;
    assert!(now() >= deadline, "it came {:?} before the deadline", deadline.since(now()));
    assert_eq!(reason, LostReason::Expired);
    assert_eq!(guard.state(), HoldState::Lost(LostReason::Expired));
    assert_lost(guard.release().await);
    assert_free(&client, &name).await;
}

/// The reason of the loss shows that a request found it, and that it was not the deadline.
pub(super) async fn the_signal_comes_early_when_the_store_has_lost_the_lock(env: TestEnv) {
    stall_tolerant(env, ms(2500), lost_by_the_store).await;
}

async fn lost_by_the_store(env: TestEnv, ttl: Duration) {
    let client = env.client().await;
    let name = env.name(&format!("job {ttl:?}"));
    let guard = client.mutex(&name).acquire_with(&client.options().ttl(ttl)).await.unwrap();
    env.server().delete(&lock_name(&name)).await.unwrap();
    let reason = within("the signal", guard.ttl() + SLACK, guard.lost()).await;
    assert_eq!(reason, LostReason::Gone);
    safety(!guard.is_held(), "held after the loss was told");
    assert_lost(guard.release().await);
}

/// The signal does not wait for a renewal, which with this ttl would come much later.
pub(super) async fn the_signal_comes_at_once_when_an_operator_evicts_the_holder(env: TestEnv) {
    let (client, operator) = (env.client().await, env.client().await);
    let lock = client.mutex(&env.name("job")).with_options(client.options().ttl(LONG));
    let guard = take(&lock).await;
    let evicted = operator.locks.operator().evict(guard.name(), guard.entry_id()).await.unwrap();
    assert_eq!(evicted, Departure::Left);
    assert_eq!(soon("the signal", guard.lost()).await, LostReason::Gone);
    let next = soon("the next grant", operator.mutex(guard.name().as_str()).acquire()).await.unwrap();
    assert_lost(guard.release().await);
    assert!(next.is_held(), "the release of a lost lock took that of the next holder");
}

/// It stays even when renewals succeed again, and when another client takes and releases the name.
pub(super) async fn a_loss_stays_and_is_told_again_and_again(env: TestEnv) {
    let (client, faults) = faulty(&env).await;
    let name = env.name("job");
    faults.always(Verb::Renew, Fault::Fail(BackendErrorKind::Unavailable));
    let guard = client.mutex(&name).acquire_with(&client.options().ttl(ms(400))).await.unwrap();
    let mut first = pin!(guard.lost());
    assert_eq!(within("the signal", guard.ttl() + SLACK, first.as_mut()).await, LostReason::Expired);
    faults.heal(Verb::Renew);
    let next = within("the next grant", guard.ttl() + SLACK, client.mutex(&name).acquire()).await.unwrap();
    next.extend().await.unwrap();
    for _ in 0..3 {
        assert_eq!(first.as_mut().now_or_never(), Some(LostReason::Expired), "it is ready only once");
        assert_eq!(guard.lost().now_or_never(), Some(LostReason::Expired));
        assert_eq!(guard.state(), HoldState::Lost(LostReason::Expired));
        assert!(guard.extend().await.is_err());
    }
    next.release().await.unwrap();
    assert_eq!(guard.hold().lost().now_or_never(), Some(LostReason::Expired));
}

/// Listeners are in tasks, in clones, and on a thread without a runtime; one that stops listening disturbs no other.
pub(super) async fn every_listener_hears_it_also_those_who_come_late(env: TestEnv) {
    let client = env.client().await;
    let options = client.options().ttl(ms(500)).renew(false);
    let guard = client.mutex(&env.name("job")).acquire_with(&options).await.unwrap();
    let signal = guard.lost();
    let mut listeners: Vec<_> = (0..50).map(|_| tokio::spawn(signal.clone())).collect();
    let (hold, handle) = (guard.hold(), tokio::runtime::Handle::current());
    listeners.push(tokio::spawn(on_a_thread(move || handle.block_on(hold.lost()))));
    let mut leaving = Box::pin(guard.lost());
    assert!(leaving.as_mut().now_or_never().is_none());
    drop(leaving);

    let heard = within("the signal for all", guard.ttl() + SLACK, join_all(listeners)).await;
    assert_eq!(heard.len(), 51);
    assert!(heard.into_iter().all(|reason| reason.unwrap() == LostReason::Expired));
    assert_eq!(signal.clone().now_or_never(), Some(LostReason::Expired), "a late listener");
    assert_eq!(guard.hold().lost().now_or_never(), Some(LostReason::Expired), "a later one");
    drop(guard);
    assert_eq!(signal.now_or_never(), Some(LostReason::Expired), "the guard is gone, the loss is not");
}

/// There is no signal after a release or a drop, even long after the former deadline.
pub(super) async fn a_release_gives_no_signal(env: TestEnv) {
    let client = env.client().await;
    let name = env.name("job");
    let lock = client.mutex(&name).with_options(client.options().ttl(ms(1_500)));
    let guard = lock.acquire().await.unwrap();
    let (released, ttl) = (guard.hold(), guard.ttl());
    let listener = tokio::spawn(released.lost());
    guard.release().await.unwrap().confirmed().unwrap();
    let guard = soon("the next grant", lock.acquire()).await.unwrap();
    let dropped = guard.hold();
    drop(guard);
    assert_queue_empties(&client, &name).await;
    for wait in [Duration::ZERO, ttl + ms(100)] {
        tokio::time::sleep(wait).await;
        for hold in [&released, &dropped] {
            assert_eq!(hold.state(), HoldState::Released);
            assert!(!hold.is_held());
            assert_eq!(hold.remaining(), Duration::ZERO);
            assert!(hold.lost().now_or_never().is_none(), "a release was reported as a loss");
        }
    }
    assert!(!listener.is_finished());
    listener.abort();
}

/// The holder has crashed, or cannot renew, or does not renew on purpose.
pub(super) async fn the_signal_has_come_when_the_next_is_granted(env: TestEnv) {
    let other = env.client().await;
    let name = env.name("job");
    for crash in [true, false] {
        for renew in [true, false] {
            let (holder, faults) = faulty(&env).await;
            faults.always(Verb::Renew, Fault::LoseRequest);
            let options = holder.options().ttl(ms(300)).renew(renew);
            let guard = holder.mutex(&name).acquire_with(&options).await.unwrap();
            let waiter = tokio::spawn({
                let (lock, signal) = (other.mutex(&name), guard.lost());
                async move {
                    let next = lock.acquire().await.unwrap();
                    (signal.now_or_never(), next)
                }
            });
            queued_behind(&other, &guard.hold()).await;
            if crash {
                holder.crash().await;
            }
            let next = within("the next grant", guard.ttl() + SLACK, waiter).await;
            let (signal, next) = next.unwrap();
            assert_eq!(signal, Some(LostReason::Expired), "crash: {crash}, renewal: {renew}");
            assert!(!guard.is_held());
            next.release().await.unwrap();
        }
    }
}

/// The lock is held beyond the deadline that it had when renewals began to fail.
pub(super) async fn a_suspect_lock_that_recovers_gives_no_signal(env: TestEnv) {
    stall_tolerant(env, ms(3000), suspect_and_well_again).await;
}

async fn suspect_and_well_again(env: TestEnv, ttl: Duration) {
    let (client, faults) = faulty(&env).await;
    faults.always(Verb::Renew, Fault::Fail(BackendErrorKind::Unreachable));
    let options = client.options().ttl(ttl);
    let guard = client.mutex(&env.name(&format!("job {ttl:?}"))).acquire_with(&options).await.unwrap();
    let (signal, first) = (guard.lost(), deadline_at_most(&guard.hold()));
    eventually("a renewal fails", guard.ttl(), || async { guard.state() == HoldState::Suspect }).await;
    assert!(guard.is_held(), "a suspect lock is held");
    faults.heal(Verb::Renew);
    eventually("it recovers", guard.ttl(), || async { guard.state() == HoldState::Held }).await;
    let mut signal = pin!(signal);
    while now() < first + ttl / 5 {
        assert!(guard.is_held(), "lost: {:?}", guard.state());
        assert!(signal.as_mut().now_or_never().is_none());
        tokio::time::sleep(ms(20)).await;
    }
    guard.release().await.unwrap().confirmed().unwrap();
}

/// The guard is kept, and the name is free, but the client does not take the lock again.
pub(super) async fn a_lost_lock_is_never_taken_again(env: TestEnv) {
    let (client, counted) = faulty(&env).await;
    let (deleted, expired) = (env.name("deleted"), env.name("expired"));
    let renewed = client.mutex(&deleted).acquire_with(&client.options().ttl(ms(600))).await.unwrap();
    let ending = client.options().ttl(ms(600)).renew(false);
    let ending = client.mutex(&expired).acquire_with(&ending).await.unwrap();
    let entered = counted.calls(Verb::Enter);
    env.server().delete(renewed.name()).await.unwrap();

    // From the loss of each lock until a ttl after the second loss.
    let mut over = None;
    while over.is_none_or(|end| now() < end) {
        let rows = client.backend.operator().queue(renewed.name()).await.unwrap();
        assert!(rows.is_empty(), "{rows:?} after the deletion");
        let rows = client.backend.operator().queue(ending.name()).await.unwrap();
        assert!(rows.iter().all(|row| row.entry == Some(ending.entry_id())), "{rows:?} after the expiry");
        match over {
            Some(_) => assert!(!renewed.is_held() && !ending.is_held(), "held again"),
            None if !renewed.is_held() && !ending.is_held() => over = Some(now() + renewed.ttl()),
            None => {}
        }
        tokio::time::sleep(ms(10)).await;
    }
    assert_eq!(counted.calls(Verb::Enter), entered, "the store was asked again");
    for name in [&deleted, &expired] {
        assert_free(&client, name).await;
    }
}

/// No task and no thread of the client runs: the keeper has ended, and the caller blocks the only runtime.
pub(super) async fn a_lock_is_over_at_its_deadline_though_nothing_of_its_client_runs(env: TestEnv) {
    let (client, other) = (env.client().await, env.client().await);
    let name = env.name("job");
    let lock = client.mutex(&name).with_options(client.options().ttl(ms(400)));
    let guard = lock.acquire().await.unwrap();
    client.crash().await;
    let hold = guard.hold();
    on_a_thread(move || {
        let (least, most) = (deadline_at_least(&hold), deadline_at_most(&hold));
        loop {
            let before = now();
            let lasts = hold.is_held();
            let after = now();
            assert!(!lasts || before < most, "held {:?} after the deadline", before.since(most));
            assert!(lasts || after >= least, "over {:?} before the deadline", least.since(after));
            if !lasts {
                break;
            }
        }
        assert_eq!(hold.lost().now_or_never(), Some(LostReason::Expired));
        assert_eq!(hold.remaining(), Duration::ZERO);
    })
    .await;
    let next = snatch(&other, &name, guard.ttl() + SLACK).await;
    next.release().await.unwrap();
}
