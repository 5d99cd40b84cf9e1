//! What cannot be shown on a file, and why. This file uses no other file of these tests, because `lock-conformance` includes it, for
//! `docs/cases.md`.

use lock_conformance::Declared;

const NO_WIRE: &str = "there is no wire between the store and its clients";
const NO_SERVER: &str = "there is no server that could end or lose data while its clients go on";

/// On a file of the test's own.
pub(crate) const OWN: &[Declared] = &[
    Declared::new("X12", "there is no way to put anything but locks into it"),
    Declared::new("L06", NO_SERVER),
    Declared::new("T01", NO_WIRE),
    Declared::new("T02", NO_WIRE),
    Declared::new("T03", NO_WIRE),
    Declared::new("T04", NO_WIRE),
    Declared::new("T05", NO_WIRE),
    Declared::new("T06", NO_WIRE),
    Declared::new("T07", NO_WIRE),
    Declared::new("T08", NO_WIRE),
    Declared::new("T15", NO_WIRE),
    Declared::new(
        "T19",
        "its bound is the disk, on which nothing at all can be written then; it has a test of its own",
    ),
    Declared::new("T21", NO_SERVER),
    Declared::new("T24", "a client that may open the file does not log in"),
    Declared::new("C20", "a fork would take the locks of its parent for its own, and is refused"),
];
