use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{promises::*, *};

fn keys(prefix: &str, name: &str) -> Keys {
    Keys::new(prefix, &LockName::new(name).unwrap())
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[{}a:/ÿ]{1,8}", "\\PC{1,40}", ".{1,20}"]
}

fn prefix() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("locks:".into()),
        Just("{app}".into()),
        Just("a}".into()),
        Just("ÿ".into())
    ]
}

proptest! {
    #[test]
    fn all_keys_of_a_lock_have_one_slot(prefix in prefix(), name in name()) {
        have_one_slot(&keys(&prefix, &name));
    }

    #[test]
    fn keys_of_different_locks_never_meet(prefix in prefix(), one in name(), other in name()) {
        prop_assume!(one != other);
        never_meet(&keys(&prefix, &one), &keys(&prefix, &other));
    }

    #[test]
    fn companions_of_one_prefix_are_no_keys_of_another(
        one in prefix(), other in prefix(), name in name(), theirs in name(),
    ) {
        prop_assume!(one != other);
        have_companions_apart(&keys(&one, &name), &keys(&other, &theirs));
    }

    #[test]
    fn a_name_is_read_back_from_the_key_and_from_the_queue(prefix in prefix(), name in name()) {
        are_read_back(&keys(&prefix, &name), &prefix, &name);
    }

    #[test]
    fn hostile_keys_are_no_names_and_no_panic(prefix in prefix(), key in prop::collection::vec(any::<u8>(), 0..40)) {
        is_no_name_or_a_right_one(&prefix, &key);
        is_no_name_or_a_right_one(&prefix, &[&queue_prefix(&prefix), &*key].concat());
    }
}

#[test]
fn the_checksum_is_the_one_of_the_cluster_specification() {
    assert_eq!(crc16(b"123456789"), 0x31C3);
}

#[test]
fn every_slot_has_a_tag_of_at_most_six_digits() {
    assert_eq!(TAGS.len(), SLOTS);
    for (slot_of, tag) in TAGS.iter().enumerate() {
        assert_eq!(slot(tag.to_string().as_bytes()), slot_of);
        assert!(*tag < 1_000_000);
    }
}

#[test]
fn there_is_one_counter_for_each_slot() {
    let all: BTreeSet<_> = counters("p:").collect();
    assert_eq!(all.len(), SLOTS);
    for of in ["job", "{a}b", "a}", "ü"] {
        assert!(all.contains(&keys("p:", of).counter()), "{of}");
    }
}

#[test]
fn a_pattern_matches_only_what_starts_with_the_text() {
    assert_eq!(starting_with(b"a*b[c]?\\"), b"a\\*b\\[c\\]\\?\\\\*");
}
