//! What cannot be shown on a server, and why. This file uses no other file of these tests, because `lock-conformance` includes it, for
//! `docs/cases.md`.

use lock_conformance::{Declared, NOT_OURS};

/// On a server of the test's own.
pub(crate) const OWN: &[Declared] = &[];

/// On a server that is only known by its URL.
pub(crate) const BY_URL: &[Declared] = &[
    Declared::new("L06", NOT_OURS),
    Declared::new("F05", NOT_OURS),
    Declared::new("T09", NOT_OURS),
    Declared::new("T10", NOT_OURS),
    Declared::new("T19", NOT_OURS),
    Declared::new("T20", NOT_OURS),
    Declared::new("T21", NOT_OURS),
    Declared::new("T24", NOT_OURS),
];
