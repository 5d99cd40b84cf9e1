//! What cannot be shown on a store in the memory of this process, and why: `docs/cases.md` is made from it.

use lock_conformance::Declared;

pub(crate) const NO_PROCESSES: &str = "the store lives in the memory of one process";
pub(crate) const NO_SERVER: &str = "there is no server that could end or lose data while its clients go on";
const NO_WIRE: &str = "there is no wire between the store and its clients";

/// On a store of the test's own.
pub(crate) const OWN: &[Declared] = &[
    declare("X03", NO_PROCESSES),
    declare("X12", "there is no way to put anything but locks into it"),
    declare("L06", NO_SERVER),
    declare("F05", NO_SERVER),
    declare("T01", NO_WIRE),
    declare("T02", NO_WIRE),
    declare("T03", NO_WIRE),
    declare("T04", NO_WIRE),
    declare("T05", NO_WIRE),
    declare("T06", NO_WIRE),
    declare("T07", NO_WIRE),
    declare("T08", NO_WIRE),
    declare("T09", NO_SERVER),
    declare("T10", NO_SERVER),
    declare("T11", NO_PROCESSES),
    declare("T15", NO_WIRE),
    declare("T19", "it has no bound but that of its process"),
    declare("T20", "it throws nothing out"),
    declare("T21", NO_SERVER),
    declare("T24", "it has no authentication"),
];

const fn declare(id: &'static str, reason: &'static str) -> Declared {
    Declared { id, reason }
}
