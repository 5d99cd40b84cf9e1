//! [`Event`]: one thing that happened.

use std::{fmt, time::Duration};

use lock_core::{BootTime, Claim, EntryId, FencingToken, LostReason};

/// The number of an acquisition in its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Op(pub usize);

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, on the clock of the store.
    pub at: BootTime,
    /// What.
    pub what: EventKind,
}

/// How an acquisition asks for its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireMode {
    /// Asks once.
    Try,
    /// Waits until it is granted.
    Wait,
    /// Waits for this time at most.
    WaitFor(Duration),
}

/// How a holder gave its lock back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveBack {
    /// By `release`.
    Release,
    /// By dropping the guard.
    Drop,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// An acquisition was begun.
    Invoked {
        /// Which one.
        op: Op,
        /// Its client.
        client: usize,
        /// The lock.
        name: String,
        /// The kind, permits and limit.
        claim: Claim,
        /// The ttl asked for.
        ttl: Duration,
        /// How.
        mode: AcquireMode,
        /// Whether the guard is to be renewed for as long as it is held.
        renew: bool,
        /// The longest time for which the guard may be held.
        max_hold: Option<Duration>,
    },
    /// The store answered for the first time that an entry is in the queue, waiting or holding.
    Enqueued {
        /// The entry.
        entry: EntryId,
        /// When the answered request was sent.
        sent: BootTime,
    },
    /// A guard was returned.
    Granted {
        /// Of which acquisition.
        op: Op,
        /// The token.
        token: FencingToken,
        /// The entry.
        entry: EntryId,
    },
    /// A try found the lock taken.
    Refused {
        /// Which one.
        op: Op,
    },
    /// The wait ended.
    TimedOut {
        /// Of which acquisition.
        op: Op,
    },
    /// An acquisition ended with an error.
    Failed {
        /// Which one.
        op: Op,
        /// The error.
        error: String,
    },
    /// The future of an acquisition was dropped.
    Cancelled {
        /// Which one.
        op: Op,
    },
    /// A guard was given back.
    Returned {
        /// Of which acquisition.
        op: Op,
        /// How.
        way: GiveBack,
        /// Until when the guard could be relied on at that time.
        deadline: BootTime,
    },
    /// A release was answered.
    Released {
        /// Of which acquisition.
        op: Op,
        /// Whether the store confirmed that the lock is free.
        confirmed: bool,
    },
    /// A guard was leaked: the lock is held until it is lost.
    Forgotten {
        /// Of which acquisition.
        op: Op,
    },
    /// The lost signal came.
    Lost {
        /// Of which acquisition.
        op: Op,
        /// Why.
        reason: LostReason,
        /// Until when the guard could be relied on.
        deadline: BootTime,
    },
    /// An operator took an entry away.
    Evicted {
        /// The entry.
        entry: EntryId,
        /// Its life: a create that is repeated after the eviction begins another one.
        token: FencingToken,
    },
    /// A client stood still from here on.
    Blocked {
        /// Which one.
        client: usize,
    },
    /// A client ran again.
    Unblocked {
        /// Which one.
        client: usize,
    },
    /// A client crashed.
    Crashed {
        /// Which one.
        client: usize,
        /// What it held, and until when that could be relied on.
        held: Vec<(Op, BootTime)>,
    },
    /// From here on there are no more faults, and only the existing clients act.
    Calm,
    /// Everything has ended.
    End,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12}  {}", instant(self.at), self.what)
    }
}

/// An instant in seconds, to the microsecond.
pub(super) fn instant(at: BootTime) -> String {
    format!("{:.6}", at.since_start().as_secs_f64())
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invoked { op, client, name, claim, ttl, mode, renew, max_hold } => {
                let renew = if *renew { "" } else { ", without renewal" };
                write!(f, "{op} client {client} asks for `{name}` as {claim}, ttl {ttl:?}{renew}, {mode:?}")?;
                max_hold.map_or(Ok(()), |max_hold| write!(f, ", to hold it for {max_hold:?} at the most"))
            }
            Self::Enqueued { entry, sent } => write!(f, "entry {entry} is in, asked at {}", instant(*sent)),
            Self::Granted { op, token, entry } => write!(f, "{op} is granted, token {token}, entry {entry}"),
            Self::Refused { op } => write!(f, "{op} is refused"),
            Self::TimedOut { op } => write!(f, "{op} has waited long enough"),
            Self::Failed { op, error } => write!(f, "{op} fails: {error}"),
            Self::Cancelled { op } => write!(f, "{op} is cancelled"),
            Self::Returned { op, way, deadline } => {
                write!(f, "{op} gives back by {way:?}, good until {}", instant(*deadline))
            }
            Self::Released { op, confirmed: true } => write!(f, "{op} is released"),
            Self::Released { op, confirmed: false } => write!(f, "{op} is not known to be released"),
            Self::Forgotten { op } => write!(f, "{op} is leaked"),
            Self::Lost { op, reason, deadline } => {
                write!(f, "{op} is lost ({reason}), was good until {}", instant(*deadline))
            }
            Self::Evicted { entry, token } => write!(f, "entry {entry} is evicted, token {token}"),
            Self::Blocked { client } => write!(f, "client {client} is blocked"),
            Self::Unblocked { client } => write!(f, "client {client} runs again"),
            Self::Crashed { client, held } => {
                write!(f, "client {client} crashes, holding")?;
                held.iter().try_for_each(|(op, until)| write!(f, " {op} until {}", instant(*until)))
            }
            Self::Calm => write!(f, "nothing goes wrong from here on"),
            Self::End => write!(f, "the end"),
        }
    }
}
