//! Leases are renewed for as long as the guard is held, and no longer.

mod bounds;
mod many;
mod owner;

use std::time::Duration;

use futures_util::FutureExt;
use lock_core::{BackendErrorKind, DistributedLock, Error, Guard, HoldState, LostReason};

pub(super) use self::many::a_thousand_locks_are_renewed_in_few_requests;
use self::{
    bounds::{
        a_lock_can_be_extended_by_hand_and_ends_when_it_is_not, an_extension_ends_at_the_deadline,
        max_hold_ends_a_lock_that_is_renewed,
    },
    many::a_lease_that_cannot_be_renewed_costs_no_other,
    owner::{
        a_lease_is_proved_by_its_own_entry_and_not_by_others_of_its_client, a_renewal_creates_nothing,
        a_renewal_extends_nobody_elses_lease, nothing_is_renewed_after_a_release,
    },
};
use super::{
    lease::{deadline_at_least, ms, now},
    stall_tolerant::stall_tolerant,
    steps::{assert_held_alone, faulty, is_busy, on_a_thread},
};
use crate::{
    CaseTest, Client, Fault, Gate, SLACK, TestEnv, Verb,
    audit::{assert_free, eventually, safety, soon, within},
};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! renewal_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] renewal {
            a_renewed_lock_is_held_ten_times_its_ttl ["R01"]
            a_renewal_that_fails_now_and_then_costs_nothing ["R02"]
            a_lock_that_cannot_be_renewed_is_lost_at_its_deadline ["R03"]
            a_renewal_answered_after_the_deadline_revives_nothing ["R04"]
            a_renewal_creates_nothing ["R05"]
            a_renewal_extends_nobody_elses_lease ["R06"]
            nothing_is_renewed_after_a_release ["R07"]
            renewals_go_on_while_the_runtime_is_blocked ["R08"]
            max_hold_ends_a_lock_that_is_renewed ["R09"]
            a_lock_can_be_extended_by_hand_and_ends_when_it_is_not ["R10"]
            an_extension_ends_at_the_deadline ["R10"]
            a_lease_that_cannot_be_renewed_costs_no_other ["R12"]
            a_lease_is_proved_by_its_own_entry_and_not_by_others_of_its_client ["R13"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = renewal_cases!(list);

/// Another client tries to take the lock all the time.
pub(super) async fn a_renewed_lock_is_held_ten_times_its_ttl(env: TestEnv) {
    stall_tolerant(env, ms(2000), held_ten_times_its_ttl).await;
}

async fn held_ten_times_its_ttl(env: TestEnv, ttl: Duration) {
    let (holder, other) = (env.client().await, env.client().await);
    let name = env.name(&format!("job {ttl:?}"));
    let guard = holder.mutex(&name).acquire_with(&holder.options().ttl(ttl)).await.unwrap();
    assert_refused_for(&other, &guard, guard.ttl() * 10).await;
    assert!(guard.lost().now_or_never().is_none());
    guard.release().await.unwrap();
    assert_free(&other, &name).await;
}

/// Checks for a time that a lock is held, and that others are refused.
async fn assert_refused_for(other: &Client, guard: &Guard, time: Duration) {
    let lock = other.mutex(guard.name().as_str());
    let end = now() + time;
    while now() < end {
        assert_held_alone(guard, &lock).await;
        tokio::time::sleep(ms(20)).await;
    }
}

/// Each kind of failure occurs once, and the next renewal succeeds.
pub(super) async fn a_renewal_that_fails_now_and_then_costs_nothing(env: TestEnv) {
    stall_tolerant(env, ms(3000), failing_now_and_then).await;
}

async fn failing_now_and_then(env: TestEnv, ttl: Duration) {
    let (holder, faults) = faulty(&env).await;
    let other = env.client().await;
    let failures = [
        Fault::Fail(BackendErrorKind::Unavailable),
        Fault::FailUnsent(BackendErrorKind::Unreachable),
        Fault::LoseRequest,
        Fault::LoseReply,
        Fault::Panic,
        Fault::DelayReply(ttl / 2),
    ];
    let orders = failures.len() * 2;
    for failure in failures {
        faults.next(Verb::Renew, failure);
        faults.pass(Verb::Renew);
    }
    let name = env.name(&format!("job {ttl:?}"));
    let guard = holder.mutex(&name).acquire_with(&holder.options().ttl(ttl)).await.unwrap();
    while faults.calls(Verb::Renew) <= orders {
        assert_refused_for(&other, &guard, ms(50)).await;
    }
    assert_refused_for(&other, &guard, guard.ttl()).await;
    let recovered = || async { guard.state() == HoldState::Held };
    eventually("a lock that is renewed again is held and no longer suspect", SLACK, recovered).await;
    assert!(guard.lost().now_or_never().is_none());
}

/// The lock is not lost later, whatever the renewals do, and not earlier: one of them may still succeed.
pub(super) async fn a_lock_that_cannot_be_renewed_is_lost_at_its_deadline(env: TestEnv) {
    stall_tolerant(env, ms(1200), lost_at_its_deadline).await;
}

async fn lost_at_its_deadline(env: TestEnv, ttl: Duration) {
    let (holder, faults) = faulty(&env).await;
    let other = env.client().await;
    let name = env.name(&format!("job {ttl:?}"));
    for failure in [Fault::Fail(BackendErrorKind::Unreachable), Fault::LoseRequest] {
        faults.always(Verb::Renew, failure);
        let guard = holder.mutex(&name).acquire_with(&holder.options().ttl(ttl)).await.unwrap();
        let deadline = deadline_at_least(&guard.hold());
        eventually("a lock whose renewal failed is suspect", guard.ttl(), || async {
            guard.state() == HoldState::Suspect
        })
        .await;
        assert!(guard.is_held(), "a suspect lock is held until its deadline");
        let reason = within("the loss", guard.ttl() + SLACK, guard.lost()).await;
        assert_eq!(reason, LostReason::Expired);
        safety(now() >= deadline, format_args!("lost {:?} before its deadline", deadline.since(now())));
        safety(!guard.is_held(), "held after the loss was told");
        // The lost entry leaves, or its lease ends, and the next client is admitted.
        let next = within("the next grant", guard.ttl() + SLACK, other.mutex(&name).acquire()).await;
        next.unwrap().release().await.unwrap();
    }
}

/// The renewals are carried out long before the deadline, so that the proof in their answers would still be valid.
pub(super) async fn a_renewal_answered_after_the_deadline_revives_nothing(env: TestEnv) {
    let (holder, faults) = faulty(&env).await;
    let other = env.client().await;
    let name = env.name("job");
    let gate = Gate::new();
    faults.always(Verb::Renew, Fault::HoldReply(gate.clone()));
    let guard = holder.mutex(&name).acquire_with(&holder.options().ttl(ms(800))).await.unwrap();
    let ttl = guard.ttl();
    tokio::time::sleep(ms(400)).await;
    let extending = async {
        let answer = guard.extend().await;
        assert!(matches!(answer, Err(Error::Lost { reason: LostReason::Expired, .. })), "{answer:?}");
    };
    let losing = async {
        assert_eq!(within("the loss", ttl + SLACK, guard.lost()).await, LostReason::Expired);
        gate.open();
    };
    soon("a renewal that was let go", futures_util::future::join(extending, losing)).await;

    faults.heal(Verb::Renew);
    let next = within("the next grant", ttl + SLACK, other.mutex(&name).acquire()).await.unwrap();
    assert_refused_for(&holder, &next, ttl).await;
    assert_eq!(guard.state(), HoldState::Lost(LostReason::Expired));
    assert_eq!(guard.remaining(), Duration::ZERO);
}

/// The only thread of the runtime that took the lock is busy for three times the ttl.
pub(super) async fn renewals_go_on_while_the_runtime_is_blocked(env: TestEnv) {
    stall_tolerant(env, ms(3000), renewed_while_blocked).await;
}

async fn renewed_while_blocked(env: TestEnv, ttl: Duration) {
    let (holder, other) = (env.client().await, env.client().await);
    let name = env.name(&format!("job {ttl:?}"));
    let (lock, options) = (holder.mutex(&name), holder.options().ttl(ttl));
    let (granted, grant) = tokio::sync::oneshot::channel();
    let blocked = on_a_thread(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let guard = lock.acquire_with(&options).await.unwrap();
            granted.send(guard.hold()).unwrap();
            std::thread::sleep(guard.ttl() * 3);
            assert!(guard.is_held(), "lost while the runtime was blocked: {:?}", guard.state());
            assert!(guard.lost().now_or_never().is_none());
            guard.release().await.unwrap();
        });
    });
    let watched = async {
        let hold = grant.await.unwrap();
        let lock = other.mutex(&name);
        while hold.is_held() {
            let busy = is_busy(&lock).await;
            safety(busy || !hold.is_held(), "granted to others while it is held");
            tokio::time::sleep(ms(20)).await;
        }
        // It ended by the release, and was not lost while the runtime was blocked.
        assert_eq!(hold.state(), HoldState::Released);
    };
    futures_util::future::join(blocked, watched).await;
}
