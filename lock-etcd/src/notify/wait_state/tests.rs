use lock_core::Claim;

use super::*;

const LOOKED: i64 = 100;

fn snapshot(claim: Claim, ahead: &[(&str, u32)]) -> Snapshot {
    Snapshot {
        revision: LOOKED,
        token: FencingToken::new(90),
        claim,
        own: b"own".to_vec(),
        blockers: ahead.iter().map(|(key, permits)| (key.as_bytes().to_vec(), *permits)).collect(),
        lookahead: None,
        sum: Some(ahead.iter().map(|(_, permits)| u64::from(*permits)).sum()),
    }
}

fn armed(snapshot: Snapshot) -> WaitState {
    let mut wait_state = WaitState::new(snapshot);
    assert!(wait_state.arm().is_empty());
    wait_state
}

const GRANT: Option<Hint> = Some(Hint::Admitted { token: FencingToken::new(90) });
const LOOK: Option<Hint> = Some(Hint::Changed);

#[test]
fn the_delete_of_the_only_one_ahead_is_the_grant() {
    let mut wait_state = armed(snapshot(Claim::mutex(), &[("a", 1)]));
    assert_eq!(wait_state.on_delete(b"a", LOOKED + 1), GRANT);
}

// PR16.
#[test]
fn three_watched_ahead_leave_in_any_order_and_the_last_is_the_grant() {
    for order in ["abc", "acb", "bac", "bca", "cab", "cba"] {
        let mut wait_state = armed(snapshot(Claim::mutex(), &[("c", 1), ("b", 1), ("a", 1)]));
        let told: Vec<_> = (1..)
            .zip(order.chars())
            .map(|(n, key)| wait_state.on_delete(key.to_string().as_bytes(), LOOKED + n))
            .collect();
        assert_eq!(told, [None, None, GRANT], "{order}");
    }
}

#[test]
fn what_was_seen_is_as_before_until_anybody_of_it_has_left() {
    let with_lookahead = || Snapshot {
        lookahead: Some(b"s".to_vec()),
        sum: None,
        ..snapshot(Claim::mutex(), &[("z", 1), ("y", 1)])
    };
    assert!(!WaitState::new(with_lookahead()).is_watched(), "not everything is watched yet");
    for left in ["s", "y", "z", "own"] {
        let mut wait_state = armed(with_lookahead());
        wait_state.on_delete(b"x", LOOKED + 1);
        wait_state.on_delete(left.as_bytes(), LOOKED);
        assert!(wait_state.is_unchanged(), "{left} had left before the look");
        wait_state.on_delete(left.as_bytes(), LOOKED + 1);
        assert!(!wait_state.is_unchanged(), "{left}");
    }
    let mut wait_state = armed(with_lookahead());
    assert!(wait_state.is_watched());
    wait_state.broken = true;
    assert!(!wait_state.is_watched());
}

// PR16: the head is not the only entry ahead, and the others are unknown.
#[test]
fn the_delete_of_one_of_many_is_a_reason_to_look_and_no_grant() {
    let mut wait_state = armed(Snapshot { sum: None, ..snapshot(Claim::mutex(), &[("z", 1)]) });
    assert_eq!(wait_state.on_delete(b"z", LOOKED + 1), LOOK);
    assert!(!wait_state.is_kept_out(), "it may be the next");
}

#[test]
fn when_the_lookahead_has_gone_the_waiter_looks_again_once() {
    let lookahead = Some(b"s".to_vec());
    let mut wait_state = armed(Snapshot { lookahead, sum: None, ..snapshot(Claim::mutex(), &[("z", 1)]) });
    assert!(wait_state.keys().contains(&b"s"[..]));
    assert_eq!(wait_state.on_delete(b"s", LOOKED + 1), LOOK);
    assert!(wait_state.is_kept_out(), "the one right ahead is there");
    assert_eq!(wait_state.on_delete(b"x", LOOKED + 2), None);
}

// PR18.
#[test]
fn a_delete_that_the_look_has_seen_already_counts_no_more() {
    let mut wait_state = armed(snapshot(Claim::mutex(), &[("a", 1)]));
    assert_eq!(wait_state.on_delete(b"a", LOOKED), None);
    assert_eq!(wait_state.on_delete(b"own", LOOKED - 5), None, "the key was another entry's before");
    assert_eq!(wait_state.on_delete(b"a", LOOKED + 1), GRANT);
}

// PR18.
#[test]
fn nothing_is_granted_after_ones_own_entry_was_deleted() {
    let mut wait_state = armed(snapshot(Claim::mutex(), &[("a", 1)]));
    assert_eq!(wait_state.on_delete(b"own", LOOKED + 1), LOOK);
    assert!(!wait_state.is_kept_out(), "it has to start over");
    assert_eq!(wait_state.on_delete(b"a", LOOKED + 2), None);
}

// PR27.
#[test]
fn what_happens_before_the_look_is_known_to_be_good_is_told_then() {
    let mut wait_state = WaitState::new(snapshot(Claim::mutex(), &[("a", 1)]));
    assert_eq!(wait_state.on_delete(b"a", LOOKED + 1), None);
    assert_eq!(wait_state.arm(), [Hint::Admitted { token: FencingToken::new(90) }]);

    let mut wait_state = WaitState::new(snapshot(Claim::mutex(), &[("a", 1)]));
    assert_eq!(wait_state.on_delete(b"a", LOOKED + 1), None);
    wait_state.update(Snapshot { revision: LOOKED + 1, ..snapshot(Claim::mutex(), &[("b", 1)]) });
    assert!(wait_state.arm().is_empty(), "the second look knows of it");
}

#[test]
fn a_portion_is_granted_when_it_fits_and_not_before() {
    let three_of_five = Claim::semaphore(3, 5).unwrap();
    let mut wait_state = armed(snapshot(three_of_five, &[("c", 2), ("b", 1), ("a", 1)]));
    assert_eq!(wait_state.on_delete(b"b", LOOKED + 1), None);
    assert_eq!(wait_state.on_delete(b"a", LOOKED + 2), GRANT);
    let mut wait_state = armed(snapshot(three_of_five, &[("c", 2), ("b", 1), ("a", 1)]));
    assert_eq!(wait_state.on_delete(b"c", LOOKED + 1), GRANT);
}
