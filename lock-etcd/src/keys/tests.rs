use std::time::Duration;

use proptest::prelude::*;

use super::*;

const LEASE: i64 = 0x7fff_0000_0000_0001;

fn entry(name: &str, id: u128, claim: Claim) -> Entry {
    Entry::new(LockName::new(name).unwrap(), EntryId::new(id), claim, Duration::from_secs(1))
}

fn text(key: &[u8]) -> &str {
    std::str::from_utf8(key).unwrap()
}

fn contains(range: &Range, key: &[u8]) -> bool {
    *range.0 <= *key && *key < *range.1
}

#[test]
fn the_stored_format_is_the_documented_one() {
    let one = entry("invoices/42 50%", 255, Claim::mutex());
    let keys = Keys::new("app/", &one.name);
    let id = "000000000000000000000000000000ff";
    assert_eq!(text(&keys.key(&one, 0xabc)), format!("app/q1/invoices%2F42 50%25/m/1/{id}/abc"));
    let two = entry("é\n", 255, Claim::semaphore(3, 10).unwrap());
    let keys = Keys::new("", &two.name);
    assert_eq!(text(&keys.key(&two, 1)), format!("q1/é%0A/s10/3/{id}/1"));
    assert!(text(&keys.key(&entry("é\n", 255, Claim::writer()), 1)).starts_with("q1/é%0A/r/w/"));
    assert_eq!(text(&session("app/", 0xabc)), "app/s1/abc");
    assert_eq!(text(&evictions("app/")), "app/e1");
}

fn claims() -> impl Strategy<Value = Claim> {
    let semaphore = (1..=Claim::MAX).prop_flat_map(|limit| (1..=limit, Just(limit)));
    prop_oneof![
        Just(Claim::mutex()),
        Just(Claim::reader()),
        Just(Claim::writer()),
        semaphore.prop_map(|(permits, limit)| Claim::semaphore(permits, limit).unwrap()),
        (1..12_u32).prop_map(|limit| Claim::semaphore(1, limit).unwrap()),
    ]
}

/// Names that are likely to meet.
fn names() -> impl Strategy<Value = String> {
    prop_oneof!["[a/%2F0m]{1,6}", "\\PC{1,20}", "[\u{0}-\u{7f}]{1,8}"]
}

proptest! {
    #[test]
    fn a_key_is_read_back_as_it_was_written(name in names(), id: u128, claim in claims(), lease in 1..i64::MAX) {
        let entry = entry(&name, id, claim);
        let keys = Keys::new("p/", &entry.name);
        let key = keys.key(&entry, lease);
        prop_assert_eq!(keys.row(&key), Some(Row { claim, entry: entry.id, lease }));
        prop_assert_eq!(row_of("p/", &key), keys.row(&key));
        prop_assert_eq!(name_of("p/", &key), Some(entry.name.clone()));
        prop_assert!(contains(&keys.all(), &key) && contains(&keys.agreeing(claim), &key));
        prop_assert!(contains(&keys.entry(&entry), &key));
        prop_assert!(!keys.disagreeing(claim).iter().any(|range| contains(range, &key)));
        prop_assert_eq!(contains(&keys.writers(), &key), claim == Claim::writer());
    }

    // H77, b08.
    #[test]
    fn no_lock_reaches_into_another_one(one in names(), other in names(), a in claims(), b in claims(), id: u128) {
        let (first, second) = (entry(&one, id, a), entry(&other, id, b));
        let (keys, others) = (Keys::new("p/", &first.name), Keys::new("p/", &second.name));
        let key = others.key(&second, LEASE);
        prop_assert_eq!(contains(&keys.all(), &key), one == other);
        prop_assert_eq!(keys.row(&key).is_some(), one == other);
        prop_assert!(!contains(&keys.all(), &session("p/", LEASE)) && !contains(&keys.all(), &evictions("p/")));
    }

    // PR07.
    #[test]
    fn who_has_another_kind_or_limit_is_found_by_range(name in names(), a in claims(), b in claims(), id: u128) {
        let keys = Keys::new("", &LockName::new(&name).unwrap());
        let key = keys.key(&entry(&name, id, b), LEASE);
        prop_assert_eq!(contains(&keys.agreeing(a), &key), a.agrees_with(&b));
        prop_assert_eq!(keys.disagreeing(a).iter().any(|range| contains(range, &key)), !a.agrees_with(&b));
    }

    #[test]
    fn names_are_found_by_what_they_start_with(name in names(), start in names()) {
        let key = Keys::new("p/", &LockName::new(&name).unwrap()).key(&entry(&name, 1, Claim::mutex()), LEASE);
        prop_assert_eq!(contains(&starting_with("p/", &start), &key), name.starts_with(&start));
        prop_assert!(contains(&starting_with("p/", ""), &key));
    }

    #[test]
    fn what_is_no_key_of_ours_is_not_taken_for_one(key in "q1/[a-z%/]{0,10}/(m|r|s[0-9]{1,3})/[0-9w]{1,3}/[0-9a-f]{30,33}/[0-9a-z]{0,3}") {
        if let Some(row) = row_of("", key.as_bytes()) {
            let name = name_of("", key.as_bytes());
            if let Some(name) = name {
                let again = Keys::new("", &name).key(&entry(name.as_str(), 0, row.claim), row.lease);
                prop_assert_eq!(again.len(), key.len());
            }
        }
    }
}
