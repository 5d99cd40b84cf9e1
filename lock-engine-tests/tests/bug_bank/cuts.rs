//! `find_cuts` distinguishes a store that cuts its notifications from one that only claims to (L12, PR14).

use std::{sync::Arc, thread};

use lock_conformance::{Sound, find_cuts, finds};

use crate::MemoryHarness;

const CASES: &[(&str, &str)] = &[
    ("liveness", "waiters_go_on_when_their_notifications_are_cut"),
    ("liveness", "waiters_look_again_when_their_notifications_come_back"),
];

#[test]
#[should_panic(expected = "notifications are said to be cut, and are heard of in these")]
fn a_store_that_only_says_that_it_cuts_them_is_found() {
    find_cuts::<MemoryHarness<false>>();
}

/// If waiters also look again by themselves, both stores pass the cases, which then show nothing about cuts.
#[test]
fn nothing_is_found_where_waiters_look_again() {
    thread::scope(|scope| {
        for (group, case) in CASES {
            scope.spawn(|| {
                assert_eq!(finds::<MemoryHarness>(group, case, |_| Arc::new(Sound)), None);
                assert_eq!(finds::<MemoryHarness<false>>(group, case, |_| Arc::new(Sound)), None);
            });
        }
    });
}
