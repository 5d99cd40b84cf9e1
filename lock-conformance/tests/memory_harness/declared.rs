//! What cannot be shown on a store in the memory of this process, and why: `docs/cases.md` is made from it.

use lock_conformance::Declared;

pub(crate) const NO_PROCESSES: &str = "the store lives in the memory of one process";
pub(crate) const NO_SERVER: &str = "there is no server that could end or lose data while its clients go on";
const NO_WIRE: &str = "there is no wire between the store and its clients";

/// On a store of the test's own.
pub(crate) const OWN: &[Declared] = &[
    Declared::new("X03", NO_PROCESSES),
    Declared::new("X12", "there is no way to put anything but locks into it"),
    Declared::new("L06", NO_SERVER),
    Declared::new("F05", NO_SERVER),
    Declared::new("T01", NO_WIRE),
    Declared::new("T02", NO_WIRE),
    Declared::new("T03", NO_WIRE),
    Declared::new("T04", NO_WIRE),
    Declared::new("T05", NO_WIRE),
    Declared::new("T06", NO_WIRE),
    Declared::new("T07", NO_WIRE),
    Declared::new("T08", NO_WIRE),
    Declared::new("T09", NO_SERVER),
    Declared::new("T10", NO_SERVER),
    Declared::new("T11", NO_PROCESSES),
    Declared::new("T15", NO_WIRE),
    Declared::new("T19", "it has no bound but that of its process"),
    Declared::new("T20", "it throws nothing out"),
    Declared::new("T21", NO_SERVER),
    Declared::new("T24", "it has no authentication"),
];
