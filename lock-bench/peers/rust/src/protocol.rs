//! The protocol between `lock-bench compare` and a driver: one JSON object on each line of the driver's standard input and
//! output. `peers/README.md` shows each object as it is written.
//!
//! All times are nanoseconds of `CLOCK_MONOTONIC`, which every language can read and all processes of a machine share.

use serde::{Deserialize, Serialize};

/// The first line of a driver.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Hello {
    /// The driver is connected.
    Ready {
        /// The release of the library.
        version: String,
        /// The kinds of lock that it has: `mutex`, `rw`, `semaphore`.
        kinds: Vec<Kind>,
    },
    /// The driver cannot take part, and why.
    Failed(String),
}

/// What is contended for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// One holder.
    Mutex,
    /// Readers, or one writer.
    Rw,
    /// At most 8 holders.
    Semaphore,
}

/// What a driver is asked to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Acquire and release, again and again: each task a lock of its own.
    Pairs(Pairs),
    /// Acquire, keep, release, again and again: all tasks the same lock.
    Contend(Contend),
    /// Take this lock and keep it.
    Hold {
        /// Of the lock.
        name: String,
    },
    /// Take so many locks that nobody else wants, and keep them.
    Keep {
        /// What their names begin with.
        name: String,
        /// How many.
        count: usize,
    },
    /// Release all locks that are held or kept.
    GiveBack {},
    /// Optional: wait for the next renewal of the lock that was taken by [`Request::Hold`].
    NextRenewal {},
    /// Optional: one more contender queues for this mutex. The first one takes it, and keeps it.
    Join {
        /// Of the mutex; the same for all.
        name: String,
    },
    /// Optional: those that joined take the mutex in turn. Then its holder keeps it again.
    TakeTurns {
        /// How long each holder keeps it, in microseconds.
        hold_us: u64,
        /// So long.
        run_ms: u64,
    },
    /// Optional: each of those that joined takes the mutex once more, and ends.
    Disband {},
    /// Optional: be one link of a chain of messages.
    Listen {
        /// The channel to listen on.
        from: String,
        /// The channel to which messages go on.
        to: String,
    },
    /// Optional: pass messages on along the chain.
    PassOn {
        /// Whether to send the first one.
        first: bool,
        /// How long to keep each, in microseconds.
        hold_us: u64,
        /// When to end; the same for each link.
        until_ns: u64,
    },
}

/// See [`Request::Pairs`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Pairs {
    /// What the names of the locks begin with.
    pub(crate) name: String,
    /// How many tasks.
    pub(crate) tasks: usize,
    /// So long, unless `count` says how many.
    pub(crate) run_ms: u64,
    /// So many pairs of each task; 0: as many as there is time for.
    pub(crate) count: u64,
}

/// See [`Request::Contend`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Contend {
    /// Of the lock.
    pub(crate) name: String,
    /// What it is.
    pub(crate) kind: Kind,
    /// How many contenders are in this process.
    pub(crate) tasks: usize,
    /// How many of them write, counted from the first; only for [`Kind::Rw`].
    pub(crate) writers: usize,
    /// The number of this process.
    pub(crate) process: usize,
    /// How many processes there are.
    pub(crate) processes: usize,
    /// How long each holder keeps the lock, in microseconds.
    pub(crate) hold_us: u64,
    /// When to start.
    pub(crate) start_ns: u64,
    /// After this, no contender asks for the lock again, and no holder keeps it.
    pub(crate) until_ns: u64,
}

/// What a driver answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Response {
    /// To [`Request::Pairs`].
    Pairs {
        /// How many there were, of all tasks.
        count: u64,
        /// From the beginning to the end.
        ns: u64,
        /// How long each took; left out where there are several tasks.
        latencies: Vec<u64>,
    },
    /// To [`Request::Contend`].
    Contended {
        /// All of them, in any order.
        grants: Vec<Grant>,
        /// How many locks had been lost when they were released.
        lost: u64,
    },
    /// To [`Request::PassOn`], and to [`Request::Contend`] by a floor: how long each message took, in nanoseconds.
    Passed {
        /// From its sending until the receiver knew all that a waiter has to know.
        latencies: Vec<u64>,
        /// From its sending to its receipt.
        received: Vec<u64>,
    },
    /// To [`Request::Hold`]: when it was acquired.
    Acquired {
        /// In nanoseconds.
        at_ns: u64,
    },
    /// To [`Request::NextRenewal`]: until when the lock may be relied on now.
    Renewed {
        /// In nanoseconds.
        until_ns: u64,
    },
    /// To [`Request::TakeTurns`]: all that ended meanwhile.
    Tenures(Vec<Tenure>),
    /// To all others.
    Done {
        /// How many of the locks had been lost, as far as the library tells.
        lost: u64,
    },
    /// It failed, and why.
    Failed(String),
}

/// One time that a lock was held: task, asked, acquired, release called, and 1 if it was shared, as a reader's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant(pub(crate) u32, pub(crate) u64, pub(crate) u64, pub(crate) u64, pub(crate) u8);

/// One time that a contender held the mutex which it [joined](Request::Join).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tenure {
    /// The fencing token.
    pub(crate) token: u64,
    /// Whether the contender waited in the queue. Otherwise the mutex was free when it asked.
    pub(crate) handed: bool,
    /// When it had the mutex.
    pub(crate) granted_ns: u64,
    /// When it called release.
    pub(crate) released_ns: u64,
}
