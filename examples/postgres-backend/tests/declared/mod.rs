//! What cannot be shown on a server, and why. A file that needs nothing else of these tests: `lock-conformance` reads it too, for
//! `docs/cases.md`.

use lock_conformance::Declared;

/// On a server of the test's own.
pub(crate) const OWN: &[Declared] = &[
    Declared { id: "X12", reason: "there is no way to put anything but locks into its table" },
    Declared { id: "T19", reason: "its bound is the disk, on which nothing at all can be written then" },
];
