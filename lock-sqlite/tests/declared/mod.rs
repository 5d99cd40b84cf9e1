//! What cannot be shown on a file, and why. This file uses no other file of these tests, because `lock-conformance` includes it, for
//! `docs/cases.md`.

use lock_conformance::Declared;

const NO_WIRE: &str = "there is no wire between the store and its clients";
const NO_SERVER: &str = "there is no server that could end or lose data while its clients go on";

/// On a file of the test's own.
pub(crate) const OWN: &[Declared] = &[
    declare("X12", "there is no way to put anything but locks into it"),
    declare("L06", NO_SERVER),
    declare("T01", NO_WIRE),
    declare("T02", NO_WIRE),
    declare("T03", NO_WIRE),
    declare("T04", NO_WIRE),
    declare("T05", NO_WIRE),
    declare("T06", NO_WIRE),
    declare("T07", NO_WIRE),
    declare("T08", NO_WIRE),
    declare("T15", NO_WIRE),
    declare(
        "T19",
        "its bound is the disk, on which nothing at all can be written then; it has a test of its own",
    ),
    declare("T21", NO_SERVER),
    declare("T24", "a client that may open the file does not log in"),
    declare("C20", "a fork would take the locks of its parent for its own, and is refused"),
];

const fn declare(id: &'static str, reason: &'static str) -> Declared {
    Declared { id, reason }
}
