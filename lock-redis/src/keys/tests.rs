use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn keys(prefix: &str, name: &str) -> Keys {
    Keys::new(prefix, &LockName::new(name).unwrap())
}

fn all(keys: &Keys) -> Vec<Vec<u8>> {
    let entry = EntryId::new(7);
    vec![keys.lock(), keys.queue(), keys.entries(), keys.tokens(), keys.tombstone(entry)]
}

/// What Redis Cluster hashes of a key, written down from its specification and not from the code above.
fn hashed(key: &[u8]) -> Vec<u8> {
    let Some(open) = key.iter().position(|&b| b == b'{') else { return key.to_vec() };
    match key[open + 1..].iter().position(|&b| b == b'}') {
        None | Some(0) => key.to_vec(),
        Some(len) => key[open + 1..=open + len].to_vec(),
    }
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
        let keys = keys(&prefix, &name);
        let slots: BTreeSet<_> = all(&keys).iter().map(|key| slot(&hashed(key))).collect();
        prop_assert_eq!(slots.len(), 1);
    }

    #[test]
    fn keys_of_different_locks_never_meet(prefix in prefix(), one in name(), other in name()) {
        prop_assume!(one != other);
        let keys = [keys(&prefix, &one), keys(&prefix, &other)];
        let distinct: BTreeSet<_> = keys.iter().flat_map(all).collect();
        prop_assert_eq!(distinct.len(), 10);
    }

    #[test]
    fn companions_of_one_prefix_are_no_keys_of_another(
        one in prefix(), other in prefix(), name in name(), theirs in name(),
    ) {
        prop_assume!(one != other);
        let companions: BTreeSet<_> = all(&keys(&one, &name)).into_iter().skip(1).collect();
        for key in all(&keys(&other, &theirs)) {
            prop_assert!(!companions.contains(&key));
        }
    }

    #[test]
    fn a_name_is_read_back_from_the_key_and_from_the_queue(prefix in prefix(), name in name()) {
        let keys = keys(&prefix, &name);
        for key in [keys.lock(), keys.queue()] {
            prop_assert_eq!(name_of(&prefix, &key).map(String::from), Some(name.clone()));
        }
        for key in [keys.entries(), keys.tokens(), keys.tombstone(EntryId::new(1))] {
            prop_assert_eq!(name_of(&prefix, &key), None);
        }
    }

    #[test]
    fn hostile_keys_are_no_names_and_no_panic(prefix in prefix(), key in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Some(name) = name_of(&prefix, &key) {
            let keys = Keys::new(&prefix, &name);
            // A queue of another tag than ours would be read, but never written.
            prop_assert!(keys.lock() == key || key.starts_with(&queues(&prefix)));
        }
        name_of(&prefix, &[&queues(&prefix), &*key].concat());
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
fn a_pattern_matches_only_what_starts_with_the_text() {
    assert_eq!(starting_with(b"a*b[c]?\\"), b"a\\*b\\[c\\]\\?\\\\*");
}
