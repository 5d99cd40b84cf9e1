//! Encodes values as arguments of the scripts.

use std::{fmt, time::Duration};

use lock_core::Kind;

/// Marks a mutex: only a mutex has a fast path.
pub(super) fn mutex_flag(kind: Kind) -> Vec<u8> {
    if kind == Kind::Mutex { b"m".to_vec() } else { Vec::new() }
}

pub(super) fn text(value: impl fmt::Display) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Whole milliseconds, rounded up: on the server, a lease is never shorter than the client believes.
pub(super) fn millis(duration: Duration) -> Vec<u8> {
    text(duration.as_nanos().div_ceil(1_000_000))
}
