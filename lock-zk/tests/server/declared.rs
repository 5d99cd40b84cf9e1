//! What cannot be shown on a server, and why. This file uses no other file of these tests, because `lock-conformance` includes it, for
//! `docs/cases.md`.

use lock_conformance::{Declared, NOT_OURS, NOTHING_IS_EVICTED};

/// Why no token can be chosen.
pub(crate) const TOKENS_ARE_TRANSACTIONS: &str =
    "tokens are numbers of transactions of the store, which nobody can set";

/// Why nothing is sent twice: `tests/servers/duplicates.rs` shows it.
const NOTHING_COMES_TWICE: &str = "a session has one connection, where TCP lets nothing come twice; a copy of a request \
                                   on another one ends the first";

/// On a server of the test's own.
pub(crate) const OWN: &[Declared] = &[
    Declared::new("F11", TOKENS_ARE_TRANSACTIONS),
    Declared::new("F12", TOKENS_ARE_TRANSACTIONS),
    Declared::new("T04", NOTHING_COMES_TWICE),
    Declared::new("T20", NOTHING_IS_EVICTED),
    Declared::new("C20", "a thread of its client is not there in a fork, which is refused"),
];

/// On a server that is only known by its URL.
pub(crate) const BY_URL: &[Declared] = &[
    OWN[0],
    OWN[1],
    OWN[2],
    OWN[3],
    OWN[4],
    Declared::new("L06", NOT_OURS),
    Declared::new("F05", NOT_OURS),
    Declared::new("T09", NOT_OURS),
    Declared::new("T10", NOT_OURS),
    Declared::new("T19", NOT_OURS),
    Declared::new("T21", NOT_OURS),
    Declared::new("T24", NOT_OURS),
];
