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

fn key(keys: &Keys, claim: Claim, lease: i64, number: u32) -> Vec<u8> {
    format!("{}{number}", keys.entry_prefix(claim, lease)).into_bytes()
}

#[test]
fn the_stored_format_is_the_documented_one() {
    let one = entry("invoices/42 50%", 255, Claim::mutex());
    let keys = Keys::new("app/", &one.name);
    assert_eq!(text(&key(&keys, one.claim, 0xabc, 0)), "app/q1/invoices%2F42 50%25/m/1/abc/0");
    assert_eq!(value(&one), "000000000000000000000000000000ff");
    assert_eq!(value(&one.with_label(Some("a:b".into()))), "000000000000000000000000000000ff:a:b");
    let keys = Keys::new("", &LockName::new("é\n").unwrap());
    let claim = Claim::semaphore(3, 10).unwrap();
    assert_eq!(text(&key(&keys, claim, 1, 12)), "q1/é%0A/s10/3/1/12");
    assert!(text(&key(&keys, Claim::writer(), 1, 0)).starts_with("q1/é%0A/r/w/"));
    assert_eq!(text(&session("app/", 0xabc)), "app/s1/abc");
    assert_eq!(text(&tombstone(&session("app/", 0xabc), 7)), "app/s1/abc/7");
    assert_eq!(text(&evictions("app/")), "app/e1");
}

#[test]
fn values_are_read_back_and_those_of_others_are_none() {
    for label in [None, Some(String::new()), Some("web-1".to_owned()), Some("a:b é".to_owned())] {
        let one = entry("job", 7, Claim::mutex()).with_label(label.clone());
        assert_eq!(read_value(value(&one).as_bytes()), Some((one.id, label)));
    }
    let long = format!("{:032x}:{}", 7, "x".repeat(1 << 20));
    let (_, label) = read_value(long.as_bytes()).unwrap();
    assert_eq!(label, Some(format!("{}…", "x".repeat(256))), "what others wrote is cut");
    for other in [&b""[..], b"x", b"7", b"7:x", b"\xff"] {
        assert_eq!(read_value(other), None, "{other:?}");
    }
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

/// Names that are likely to collide.
fn names() -> impl Strategy<Value = String> {
    prop_oneof!["[a/%2F0m]{1,6}", "\\PC{1,20}", "[\u{0}-\u{7f}]{1,8}"]
}

proptest! {
    #[test]
    fn a_key_is_read_back_as_it_was_written(name in names(), claim in claims(), lease in 1..i64::MAX, number: u32) {
        let name = LockName::new(&name).unwrap();
        let keys = Keys::new("p/", &name);
        let key = key(&keys, claim, lease, number);
        prop_assert_eq!(keys.read_entry(&key), Some(EntryKey { claim, lease, number }));
        prop_assert_eq!(name_of("p/", &key), Some(name));
        prop_assert!(is_entry("p/", &key));
        prop_assert!(contains(&keys.all(), &key) && contains(&keys.agreeing(claim), &key));
        prop_assert!(!keys.disagreeing(claim).iter().any(|range| contains(range, &key)));
        prop_assert_eq!(contains(&keys.writers(), &key), claim == Claim::writer());
    }

    // H77, b08.
    #[test]
    fn no_lock_reaches_into_another_one(one in names(), other in names(), claim in claims(), number: u32) {
        let [keys, others] = [&one, &other].map(|name| Keys::new("p/", &LockName::new(name).unwrap()));
        let key = key(&others, claim, LEASE, number);
        prop_assert_eq!(contains(&keys.all(), &key), one == other);
        prop_assert_eq!(keys.read_entry(&key).is_some(), one == other);
        prop_assert!(!contains(&keys.all(), &session("p/", LEASE)) && !contains(&keys.all(), &evictions("p/")));
    }

    // PR07.
    #[test]
    fn an_entry_with_another_kind_or_limit_is_found_by_range(name in names(), a in claims(), b in claims(), number: u32) {
        let keys = Keys::new("", &LockName::new(&name).unwrap());
        let key = key(&keys, b, LEASE, number);
        prop_assert_eq!(contains(&keys.agreeing(a), &key), a.agrees_with(&b));
        prop_assert_eq!(keys.disagreeing(a).iter().any(|range| contains(range, &key)), !a.agrees_with(&b));
    }

    #[test]
    fn names_are_found_by_what_they_start_with(name in names(), start in names()) {
        let keys = Keys::new("p/", &LockName::new(&name).unwrap());
        let key = key(&keys, Claim::mutex(), LEASE, 0);
        prop_assert_eq!(contains(&starting_with("p/", &start), &key), name.starts_with(&start));
        prop_assert!(contains(&starting_with("p/", ""), &key));
    }

    #[test]
    fn a_key_that_we_would_not_have_written_is_somebody_elses(
        found in "q1/[a%2F/]{0,10}/(m|r|s[0-9]{1,3})/[0-9w]{1,3}/[0-9a-f]{1,3}/[0-9]{1,3}",
    ) {
        if let Some(name) = name_of("", found.as_bytes()) {
            let keys = Keys::new("", &name);
            let row = keys.read_entry(found.as_bytes()).expect("it is in the queue of its name");
            let again = key(&keys, row.claim, row.lease, row.number);
            prop_assert_eq!(text(&again), found);
        }
    }
}
