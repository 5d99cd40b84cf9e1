//! Looks that are delayed until a hand-off is over.

use super::*;
use crate::notify::later_looks::later_looks;

/// A waiter with more entries ahead than it watches.
fn far_behind(blocker: &str, lookahead: &str, own: &str) -> Snapshot {
    Snapshot { lookahead: Some(lookahead.into()), sum: None, ..behind(blocker, own) }
}

/// `OTHER`, a waiter with the blocker `c` (watch 3) and the lookahead `a` (watch 2), whose snapshot is armed.
fn other_is_far_behind() -> (Arc<WatchHub>, Subscription) {
    let hub = Arc::new(WatchHub::default());
    let _ = hub.on_stream_opened();
    let other = Subscription::new(&hub, OTHER, far_behind("c", "a", "d"));
    hub.arm(OTHER);
    (hub, other)
}

#[tokio::test]
async fn the_next_is_told_at_once_and_one_further_behind_later() {
    let (hub, mut other) = other_is_far_behind();
    let mut me = Subscription::new(&hub, ME, behind("a", "b"));
    hub.arm(ME);
    assert_eq!(hub.on_event(2, WatchEvent::Deleted(LOOKED + 1)), [OTHER]);
    assert_eq!(told(&mut me), Some(admissible("b", LOOKED + 1)));
    assert_eq!(told(&mut other), None);
    hub.tell_to_look(OTHER);
    assert_eq!(told(&mut other), CHANGED);
}

#[tokio::test]
async fn a_look_that_can_wait_comes_by_itself() {
    let (hub, mut other) = other_is_far_behind();
    let keeper = Keeper::start().unwrap();
    let (look_later, later) = later_looks(&keeper);
    look_later.add(hub.on_event(2, WatchEvent::Deleted(LOOKED + 1)));
    assert_eq!(told(&mut other), None);
    drop(look_later);
    later.run(&hub, &keeper).await;
    assert_eq!(told(&mut other), CHANGED);
}

#[tokio::test]
async fn a_waiter_whose_turn_may_have_come_is_told_to_look_at_once() {
    let (hub, mut other) = other_is_far_behind();
    assert_eq!(hub.on_event(2, WatchEvent::Deleted(LOOKED + 1)), [OTHER]);
    assert!(hub.on_event(3, WatchEvent::Deleted(LOOKED + 2)).is_empty());
    assert_eq!(told(&mut other), CHANGED);
}

#[tokio::test]
async fn a_waiter_that_has_looked_meanwhile_is_not_told_to() {
    let (hub, mut other) = other_is_far_behind();
    assert_eq!(hub.on_event(2, WatchEvent::Deleted(LOOKED + 1)), [OTHER]);
    hub.update(OTHER, Snapshot { revision: LOOKED + 1, ..behind("c", "d") });
    hub.tell_to_look(OTHER);
    assert_eq!(told(&mut other), None);
}

/// PR14.
#[tokio::test]
async fn one_that_was_to_look_later_is_told_to_on_the_next_stream() {
    let (hub, mut other) = other_is_far_behind();
    assert_eq!(hub.on_event(2, WatchEvent::Deleted(LOOKED + 1)), [OTHER]);
    hub.on_stream_closed();
    assert_eq!(told(&mut other), None);
    let (_commands, _) = hub.on_stream_opened();
    assert_eq!(told(&mut other), CHANGED);
}
