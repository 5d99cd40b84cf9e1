//! Where renewal ends: `max_hold`, and a holder that renews by hand.

use std::time::Duration;

use lock_core::{DistributedLock, Error, LostReason};

use crate::{
    Fault, Gate, SLACK, TestEnv, Verb,
    audit::{assert_free, safety, within},
    cases::{
        lease::{assert_covered, deadline_at_least, deadline_at_most, ms, now},
        stall_tolerant::stall_tolerant,
        steps::{assert_held_alone, faulty, is_busy},
    },
};

/// The lock ends at `max_hold` and not before, although that is longer than the ttl.
pub(crate) async fn max_hold_ends_a_lock_that_is_renewed(env: TestEnv) {
    stall_tolerant(env, ms(3000), renewed_until_max_hold).await;
}

async fn renewed_until_max_hold(env: TestEnv, ttl: Duration) {
    let (holder, counted) = faulty(&env).await;
    let other = env.client().await;
    let max_hold = ttl * 9 / 5;
    let name = env.name(&format!("job {ttl:?}"));
    let options = holder.options().ttl(ttl).max_hold(max_hold);
    let lock = holder.mutex(&name);
    let asked = now();
    let guard = lock.acquire_with(&options).await.unwrap();
    let latest = now() + max_hold;
    while guard.is_held() {
        let bound = ttl.min(latest.since(now()));
        let remaining = guard.remaining();
        safety(remaining <= bound, format_args!("{remaining:?} are counted on, where {bound:?} are left"));
        let busy = is_busy(&other.mutex(&name)).await;
        safety(busy || !guard.is_held(), "granted to others while it is held");
        tokio::time::sleep(ms(10)).await;
    }
    let held = now().since(asked);
    assert!(held >= max_hold, "ended after {held:?}, before `max_hold` was over");
    assert!(held <= max_hold + SLACK, "ended after {held:?}, long after `max_hold` was over");
    assert_eq!(within("the loss", SLACK, guard.lost()).await, LostReason::MaxHold);
    assert_free(&other, &name).await;
    let renewals = counted.calls(Verb::Renew);
    assert!(renewals > 1, "it was not renewed up to then");
    tokio::time::sleep(ttl).await;
    assert_eq!(counted.calls(Verb::Renew), renewals, "renewed after `max_hold`");
}

/// Without the keeper's renewals, the deadline after an extension counts from when it was requested, or up to a step earlier. So many
/// extensions together may also fall short by a step.
pub(crate) async fn a_lock_can_be_extended_by_hand_and_ends_when_it_is_not(env: TestEnv) {
    stall_tolerant(env, ms(3000), extended_by_hand).await;
}

async fn extended_by_hand(env: TestEnv, ttl: Duration) {
    let (client, other) = (env.client().await, env.client().await);
    let name = env.name(&format!("job {ttl:?}"));
    let options = client.options().ttl(ttl).renew(false);
    let guard = client.mutex(&name).acquire_with(&options).await.unwrap();
    let step = env.deadline_step(guard.ttl());
    let first = deadline_at_least(&guard.hold());
    for _ in 0..6 {
        let before = deadline_at_least(&guard.hold());
        tokio::time::sleep(ttl / 4).await;
        let remaining = guard.extend().await.unwrap();
        assert!(remaining > ms(0) && remaining < ttl, "{remaining:?} remain of {ttl:?}");
        let after = deadline_at_most(&guard.hold());
        assert!(after > before && after + step > before + ttl / 5, "the deadline did not move");
        assert_covered(&client, &guard.hold(), "extended by hand").await;
        assert_held_alone(&guard, &other.mutex(&name)).await;
    }
    let deadline = deadline_at_least(&guard.hold());
    assert!(
        deadline + step > first + ttl * 6 / 5,
        "the extensions brought {:?} in all",
        deadline.since(first)
    );
    let reason = within("the end of what is not extended", guard.ttl() + SLACK, guard.lost()).await;
    assert_eq!(reason, LostReason::Expired);
    safety(now() >= deadline, format_args!("lost {:?} before its deadline", deadline.since(now())));
    let late = guard.extend().await;
    assert!(matches!(late, Err(Error::Lost { reason: LostReason::Expired, .. })), "{late:?}");
    assert_free(&other, &name).await;
}

/// The store has carried it out, but its answer is late: the caller gets the error at the deadline, and does not wait for the answer.
pub(crate) async fn an_extension_ends_at_the_deadline(env: TestEnv) {
    let (client, faults) = faulty(&env).await;
    let name = env.name("job");
    let options = client.options().ttl(ms(1500)).renew(false);
    let guard = client.mutex(&name).acquire_with(&options).await.unwrap();
    let deadline = deadline_at_least(&guard.hold());
    let gate = Gate::new();
    faults.always(Verb::Renew, Fault::HoldReply(gate.clone()));
    let ended = within("the end of the extension", guard.ttl() + SLACK, guard.extend()).await;
    assert!(matches!(ended, Err(Error::Lost { reason: LostReason::Expired, .. })), "{ended:?}");
    safety(now() >= deadline, format_args!("given up {:?} before the deadline", deadline.since(now())));
    gate.open();
    assert!(!guard.is_held(), "a late answer revived the lock");
    assert_free(&client, &name).await;
}
