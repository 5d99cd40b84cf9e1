//! Where renewal ends: `max_hold`, and a holder that renews by hand.

use lock_core::{DistributedLock, Error, LostReason};

use crate::{
    SLACK, Verb, World,
    audit::{assert_free, within},
    cases::{
        lease::{assert_covered, deadline_at_least, deadline_at_most, ms, now},
        steps::{faulty, is_busy},
    },
};

/// And not before, although it is longer than the ttl.
pub(crate) async fn max_hold_ends_a_lock_that_is_renewed(world: World) {
    let (holder, counted) = faulty(&world).await;
    let other = world.client().await;
    let name = world.name("job");
    let options = holder.options().ttl(ms(1000)).max_hold(ms(1800));
    let lock = holder.mutex(&name);
    let asked = now();
    let guard = lock.acquire_with(&options).await.unwrap();
    let latest = now() + ms(1800);
    while guard.is_held() {
        let bound = ms(1000).min(latest.since(now()));
        let remaining = guard.remaining();
        assert!(remaining <= bound, "{remaining:?} are counted on, where {bound:?} are left");
        let busy = is_busy(&other.mutex(&name)).await;
        assert!(busy || !guard.is_held(), "granted to others while it is held");
        tokio::time::sleep(ms(10)).await;
    }
    let held = now().since(asked);
    assert!(held >= ms(1800), "ended after {held:?}, before `max_hold` was over");
    assert!(held <= ms(1800) + SLACK, "ended after {held:?}, long after `max_hold` was over");
    assert_eq!(within("the loss", SLACK, guard.lost()).await, LostReason::MaxHold);
    assert_free(&other, &name).await;
    let renewals = counted.calls(Verb::Renew);
    assert!(renewals > 1, "it was not renewed up to then");
    tokio::time::sleep(ms(1000)).await;
    assert_eq!(counted.calls(Verb::Renew), renewals, "renewed after `max_hold`");
}

/// Without the keeper's renewals, each extension counts from when it was asked for.
pub(crate) async fn a_lock_can_be_extended_by_hand_and_ends_when_it_is_not(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let name = world.name("job");
    let options = client.options().ttl(ms(1000)).renew(false);
    let guard = client.mutex(&name).acquire_with(&options).await.unwrap();
    for _ in 0..6 {
        let before = deadline_at_least(&guard.hold());
        tokio::time::sleep(ms(250)).await;
        let remaining = guard.extend().await.unwrap();
        assert!(remaining > ms(0) && remaining < ms(1000), "{remaining:?} remain of a second");
        assert!(deadline_at_most(&guard.hold()) > before + ms(200), "the deadline did not move");
        assert_covered(&client, &guard.hold(), "extended by hand").await;
        assert!(is_busy(&other.mutex(&name)).await);
    }
    let deadline = deadline_at_least(&guard.hold());
    let reason = within("the end of what is not extended", guard.ttl() + SLACK, guard.lost()).await;
    assert_eq!(reason, LostReason::Expired);
    assert!(now() >= deadline);
    let late = guard.extend().await;
    assert!(matches!(late, Err(Error::Lost { reason: LostReason::Expired, .. })), "{late:?}");
    assert_free(&other, &name).await;
}
