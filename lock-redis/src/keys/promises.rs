//! The promises about keys, for tests and fuzz targets. Each function panics if its promise is broken.

use std::collections::BTreeSet;

use super::*;

/// The keys that no other lock has.
fn own(keys: &Keys) -> Vec<Vec<u8>> {
    vec![keys.lock(), keys.queue(), keys.entries(), keys.tombstone(EntryId::new(7))]
}

pub(crate) fn all(keys: &Keys) -> Vec<Vec<u8>> {
    [own(keys), vec![keys.counter()]].concat()
}

/// All keys of a lock have the same slot in a cluster.
pub(crate) fn have_one_slot(keys: &Keys) {
    let slots: BTreeSet<_> = all(keys).iter().map(|key| slot(&hashed(key))).collect();
    assert_eq!(slots.len(), 1, "{keys:?}");
}

/// No key of a lock is a key of another, except the counter of tokens, which all locks of a slot share.
pub(crate) fn never_meet(one: &Keys, other: &Keys) {
    let mut distinct: BTreeSet<_> = [one, other].into_iter().flat_map(own).collect();
    assert_eq!(distinct.len(), 8, "{one:?} {other:?}");
    let counters = BTreeSet::from([one.counter(), other.counter()]);
    distinct.extend(counters.iter().cloned());
    assert_eq!(distinct.len(), 8 + counters.len(), "{one:?} {other:?}");
    let share = slot(&hashed(&one.lock())) == slot(&hashed(&other.lock()));
    assert_eq!(counters.len(), if share { 1 } else { 2 }, "{one:?} {other:?}");
}

/// Only the key of the lock itself may collide with a key under another prefix. Prefixes have to be chosen so that it does not.
pub(crate) fn have_companions_apart(one: &Keys, other: &Keys) {
    let companions: BTreeSet<_> = all(one).into_iter().skip(1).collect();
    assert!(!all(other).iter().any(|key| companions.contains(key)), "{one:?} {other:?}");
}

/// The name is read back from the keys that `list` looks at, and from no other.
pub(crate) fn are_read_back(keys: &Keys, prefix: &str, name: &str) {
    for key in [keys.lock(), keys.queue()] {
        assert_eq!(name_of(prefix, &key).as_ref().map(LockName::as_str), Some(name), "{keys:?}");
    }
    for key in [keys.entries(), keys.counter(), keys.tombstone(EntryId::new(1))] {
        assert_eq!(name_of(prefix, &key), None, "{keys:?}");
    }
}

/// A key is little longer than three times its prefix and name, whose lengths are bounded.
pub(crate) fn are_short(keys: &Keys, prefix: &str, name: &str) {
    let bound = 3 * (prefix.len() + name.len()) + 40;
    assert!(all(keys).iter().all(|key| key.len() <= bound), "{keys:?}");
}

/// Any key, even one that another program wrote, gives no name, or a name whose lock has this key.
pub(crate) fn is_no_name_or_a_right_one(prefix: &str, key: &[u8]) {
    if let Some(name) = name_of(prefix, key) {
        let keys = Keys::new(prefix, &name);
        // A queue of another tag than ours would be read, but never written.
        assert!(keys.lock() == key || key.starts_with(&queue_prefix(prefix)), "{keys:?}");
    }
}

/// The part of a key that Redis Cluster hashes, written from its specification and not from the code above.
fn hashed(key: &[u8]) -> Vec<u8> {
    let Some(open) = key.iter().position(|&b| b == b'{') else { return key.to_vec() };
    match key[open + 1..].iter().position(|&b| b == b'}') {
        None | Some(0) => key.to_vec(),
        Some(len) => key[open + 1..=open + len].to_vec(),
    }
}
