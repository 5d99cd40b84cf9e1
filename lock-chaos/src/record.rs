//! [`Line`]: what a client writes down.

use std::time::Duration;

use lock_core::{BootTime, FencingToken, Kind};
use serde::{Deserialize, Serialize};

/// A deadline that moved by less has only been read at another moment.
pub(crate) const MOVED: Duration = Duration::from_millis(50);

/// One event, as a line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// When, in nanoseconds on a clock that all processes of the machine share, and that goes on while they stand still.
    pub(crate) at: u64,
    /// The same in milliseconds since 1970, for people: what the wall clock of the client showed, which may have been set.
    pub(crate) wall: u64,
    pub(crate) client: usize,
    pub(crate) what: What,
}

/// What happened. `op` numbers the acquisitions of the client; `until` is the deadline of a guard, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    Connected,
    /// A lock is asked for: its claim as kind, permits and limit, and how long to wait. `None` tries once.
    Asked {
        op: u64,
        name: String,
        claim: (Kind, u32, u32),
        ttl: Duration,
        wait: Option<Duration>,
    },
    Granted {
        op: u64,
        token: FencingToken,
        entry: String,
        until: u64,
    },
    Refused {
        op: u64,
    },
    TimedOut {
        op: u64,
    },
    Failed {
        op: u64,
        error: String,
    },
    /// The deadline moved.
    Renewed {
        op: u64,
        until: u64,
    },
    /// The lost signal came. `gone`: because the store said so, and not at the deadline.
    Lost {
        op: u64,
        gone: bool,
        until: u64,
    },
    /// The guard is about to be released, or dropped.
    Returned {
        op: u64,
        dropped: bool,
        until: u64,
    },
    /// The release was answered.
    Released {
        op: u64,
        confirmed: bool,
    },
    /// The process has stood still up to now.
    Stalled {
        from: u64,
    },
    /// The client has ended, and says what it left behind.
    Closed {
        left: Option<String>,
    },
}

/// An instant as it is written down.
pub(crate) fn nanos(at: BootTime) -> u64 {
    // 584 years fit.
    at.since_start().as_nanos() as u64
}

/// An instant that was written down.
pub(crate) fn time(nanos: u64) -> BootTime {
    BootTime::new(Duration::from_nanos(nanos))
}
