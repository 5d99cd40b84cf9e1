//! The suite on the store in the memory of this process.

mod memory_harness;

use std::sync::Arc;

use lock_conformance::{Sound, finds};

use self::memory_harness::MemoryHarness;

lock_conformance::suite!(MemoryHarness);

/// The declarations do not matter here.
#[test]
fn a_case_that_finds_no_wire_says_which_labels_to_declare() {
    let (group, case) = ("wire", "what_arrives_twice_counts_once");
    let said = finds::<MemoryHarness>(group, case, |_| Arc::new(Sound));
    let told = "`Harness::wire` gives none, which wire::what_arrives_twice_counts_once needs: give one, or declare T04";
    assert_eq!(said.as_deref(), Some(told));
}
