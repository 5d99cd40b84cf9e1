//! The list of cases is complete: each required label belongs to a case, and each case has a unique name that states a promise.

use std::collections::BTreeSet;

use lock_conformance::{REQUIRED, cases};

#[test]
fn every_label_is_carried_by_a_case() {
    let carried: BTreeSet<_> = cases::all().flat_map(|case| case.ids).copied().collect();
    let missing: Vec<_> = REQUIRED.iter().filter(|id| !carried.contains(**id)).collect();
    assert!(missing.is_empty(), "no case carries {missing:?}");
}

#[test]
fn every_case_carries_labels_that_exist() {
    for case in cases::all() {
        assert!(!case.ids.is_empty(), "{case:?} shows nothing");
        for id in case.ids {
            assert!(REQUIRED.contains(id), "{case:?} carries {id}, which does not exist");
        }
    }
}

#[test]
fn every_case_states_its_promise_under_a_name_of_its_own() {
    let mut names = BTreeSet::new();
    for case in cases::all() {
        assert!(names.insert(case.name), "{case:?} has the name of another case");
        assert!(case.name.split('_').count() >= 4, "{case:?}: the name states no promise");
    }
}

#[test]
fn every_label_is_listed_once() {
    let labels: BTreeSet<_> = REQUIRED.iter().collect();
    assert_eq!(labels.len(), REQUIRED.len());
}
