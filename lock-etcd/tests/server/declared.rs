//! What cannot be shown on a server, and why. A file that needs nothing else of these tests: `lock-conformance` reads it too, for
//! `docs/cases.md`.

use lock_conformance::{Declared, NOT_OURS, NOTHING_IS_EVICTED};

/// Why no token can be chosen.
pub(crate) const TOKENS_ARE_REVISIONS: &str = "tokens are revisions of the store, which nobody can set";

/// On a server of the test's own.
pub(crate) const OWN: &[Declared] = &[
    Declared::new("F11", TOKENS_ARE_REVISIONS),
    Declared::new("F12", TOKENS_ARE_REVISIONS),
    Declared::new("T20", NOTHING_IS_EVICTED),
];

/// On a server that is only known by its URL.
pub(crate) const BY_URL: &[Declared] = &[
    OWN[0],
    OWN[1],
    OWN[2],
    Declared::new("L06", NOT_OURS),
    Declared::new("F05", NOT_OURS),
    Declared::new("T09", NOT_OURS),
    Declared::new("T10", NOT_OURS),
    Declared::new("T18", NOT_OURS),
    Declared::new("T19", NOT_OURS),
    Declared::new("T21", NOT_OURS),
    Declared::new("T24", NOT_OURS),
];
