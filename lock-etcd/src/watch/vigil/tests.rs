use super::*;

const LOOKED: i64 = 100;

fn sight(claim: Claim, ahead: &[(&str, u32)]) -> Sight {
    Sight {
        revision: LOOKED,
        token: FencingToken::new(90),
        claim,
        own: b"own".to_vec(),
        blockers: ahead.iter().map(|(key, permits)| (key.as_bytes().to_vec(), *permits)).collect(),
        scout: None,
        sum: Some(ahead.iter().map(|(_, permits)| u64::from(*permits)).sum()),
    }
}

fn armed(sight: Sight) -> Vigil {
    let mut vigil = Vigil::new(sight);
    assert!(vigil.arm().is_empty());
    vigil
}

const GRANT: Option<Hint> = Some(Hint::Admitted { token: FencingToken::new(90) });
const LOOK: Option<Hint> = Some(Hint::Changed);

#[test]
fn the_delete_of_the_only_one_ahead_is_the_grant() {
    let mut vigil = armed(sight(Claim::mutex(), &[("a", 1)]));
    assert_eq!(vigil.delete(b"a", LOOKED + 1), GRANT);
}

// PR16.
#[test]
fn three_ahead_who_are_all_attended_to_leave_in_any_order_and_the_last_one_is_the_grant() {
    for order in ["abc", "acb", "bac", "bca", "cab", "cba"] {
        let mut vigil = armed(sight(Claim::mutex(), &[("c", 1), ("b", 1), ("a", 1)]));
        let told: Vec<_> = (1..)
            .zip(order.chars())
            .map(|(n, key)| vigil.delete(key.to_string().as_bytes(), LOOKED + n))
            .collect();
        assert_eq!(told, [None, None, GRANT], "{order}");
    }
}

#[test]
fn what_was_seen_is_as_before_until_anybody_of_it_has_left() {
    let scouted =
        || Sight { scout: Some(b"s".to_vec()), sum: None, ..sight(Claim::mutex(), &[("z", 1), ("y", 1)]) };
    assert!(!Vigil::new(scouted()).is_watched(), "not everything is watched yet");
    for left in ["s", "y", "z", "own"] {
        let mut vigil = armed(scouted());
        vigil.delete(b"x", LOOKED + 1);
        vigil.delete(left.as_bytes(), LOOKED);
        assert!(vigil.is_as_seen(), "{left} had left before the look");
        vigil.delete(left.as_bytes(), LOOKED + 1);
        assert!(!vigil.is_as_seen(), "{left}");
    }
    let mut vigil = armed(scouted());
    assert!(vigil.is_watched());
    vigil.broken = true;
    assert!(!vigil.is_watched());
}

// PR16: the head is not the only one ahead, and nobody knows of the others.
#[test]
fn the_delete_of_one_of_many_is_a_reason_to_look_and_no_grant() {
    let mut vigil = armed(Sight { sum: None, ..sight(Claim::mutex(), &[("z", 1)]) });
    assert_eq!(vigil.delete(b"z", LOOKED + 1), LOOK);
}

#[test]
fn when_the_scout_has_gone_the_waiter_looks_again_once() {
    let scout = Some(b"s".to_vec());
    let mut vigil = armed(Sight { scout, sum: None, ..sight(Claim::mutex(), &[("z", 1)]) });
    assert!(vigil.keys().contains(&b"s"[..]));
    assert_eq!(vigil.delete(b"s", LOOKED + 1), LOOK);
    assert_eq!(vigil.delete(b"x", LOOKED + 2), None);
}

// PR18.
#[test]
fn a_delete_that_the_look_has_seen_already_counts_no_more() {
    let mut vigil = armed(sight(Claim::mutex(), &[("a", 1)]));
    assert_eq!(vigil.delete(b"a", LOOKED), None);
    assert_eq!(vigil.delete(b"own", LOOKED - 5), None, "the key was somebody else's before");
    assert_eq!(vigil.delete(b"a", LOOKED + 1), GRANT);
}

// PR18.
#[test]
fn nothing_is_granted_after_ones_own_entry_was_deleted() {
    let mut vigil = armed(sight(Claim::mutex(), &[("a", 1)]));
    assert_eq!(vigil.delete(b"own", LOOKED + 1), LOOK);
    assert_eq!(vigil.delete(b"a", LOOKED + 2), None);
}

// PR27.
#[test]
fn what_happens_before_the_look_is_known_to_be_good_is_told_then() {
    let mut vigil = Vigil::new(sight(Claim::mutex(), &[("a", 1)]));
    assert_eq!(vigil.delete(b"a", LOOKED + 1), None);
    assert_eq!(vigil.arm(), [Hint::Admitted { token: FencingToken::new(90) }]);

    let mut vigil = Vigil::new(sight(Claim::mutex(), &[("a", 1)]));
    assert_eq!(vigil.delete(b"a", LOOKED + 1), None);
    vigil.look(Sight { revision: LOOKED + 1, ..sight(Claim::mutex(), &[("b", 1)]) });
    assert!(vigil.arm().is_empty(), "the second look knows of it");
}

#[test]
fn a_portion_is_granted_when_it_fits_and_not_before() {
    let three_of_five = Claim::semaphore(3, 5).unwrap();
    let mut vigil = armed(sight(three_of_five, &[("c", 2), ("b", 1), ("a", 1)]));
    assert_eq!(vigil.delete(b"b", LOOKED + 1), None);
    assert_eq!(vigil.delete(b"a", LOOKED + 2), GRANT);
    let mut vigil = armed(sight(three_of_five, &[("c", 2), ("b", 1), ("a", 1)]));
    assert_eq!(vigil.delete(b"c", LOOKED + 1), GRANT);
}
