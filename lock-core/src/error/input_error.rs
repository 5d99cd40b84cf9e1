//! [`InputError`]: an argument that is not allowed.

use std::time::Duration;

use crate::{NameError, limits};

/// A name, number, duration or text that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The limit of a semaphore.
    #[error("a semaphore cannot have {limit} permits; use 1 to {}", limits::MAX_PERMITS)]
    Limit {
        /// The limit that was given.
        limit: u32,
    },
    /// A number of permits.
    #[error("{permits} of {limit} permits cannot be asked for; use 1 to {limit}")]
    Permits {
        /// The permits that were asked for.
        permits: u32,
        /// The limit of the semaphore.
        limit: u32,
    },
    /// An entry id.
    #[error("an entry id is 32 lower-case hexadecimal digits; `queue` shows those there are")]
    EntryId,
    /// A fencing token.
    #[error("a fencing token is a number from 0 to {}, in decimal digits", u64::MAX)]
    Token,
    /// A duration of the options.
    #[error("`{option}` cannot be {given:?}; use {least:?} to {most:?}")]
    Duration {
        /// The name of the option.
        option: &'static str,
        /// What was given.
        given: Duration,
        /// The least that is taken.
        least: Duration,
        /// The most that is taken.
        most: Duration,
    },
    /// A label.
    #[error("a label of {len} bytes is too long; use at most {} bytes", limits::MAX_LABEL)]
    Label {
        /// The length that was given, in bytes.
        len: usize,
    },
}
