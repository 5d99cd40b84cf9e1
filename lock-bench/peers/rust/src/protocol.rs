//! What `lock-bench compare` and a driver say to each other: one JSON object on each line of the driver's standard input
//! and output. `peers/README.md` shows each of them as it is written.
//!
//! All times are nanoseconds of `CLOCK_MONOTONIC`, which every language reads and all processes of a machine share.

use serde::{Deserialize, Serialize};

/// The first line of a driver.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Hello {
    /// It is connected.
    Ready {
        /// The release of the library.
        version: String,
        /// What it can be asked for: `mutex`, `rw`, `semaphore`.
        kinds: Vec<Kind>,
    },
    /// It cannot do anything, and why.
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

/// What a driver is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Order {
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
    /// Give back all that is held or kept.
    GiveBack {},
}

/// See [`Order::Pairs`].
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

/// See [`Order::Contend`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Contend {
    /// Of the lock.
    pub(crate) name: String,
    /// What it is.
    pub(crate) kind: Kind,
    /// How many contenders are in this process.
    pub(crate) tasks: usize,
    /// The first so many of them write; only for [`Kind::Rw`].
    pub(crate) writers: usize,
    /// Which of the processes this is.
    pub(crate) process: usize,
    /// How many processes there are.
    pub(crate) processes: usize,
    /// How long each keeps what it got, in microseconds.
    pub(crate) hold_us: u64,
    /// When to begin.
    pub(crate) start_ns: u64,
    /// Nobody asks again, and nobody keeps anything, after this.
    pub(crate) until_ns: u64,
}

/// What a driver answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// To [`Order::Pairs`].
    Pairs {
        /// How many there were, of all tasks.
        count: u64,
        /// From the beginning to the end.
        ns: u64,
        /// How long each took; left out where there are several tasks.
        latencies: Vec<u64>,
    },
    /// To [`Order::Contend`].
    Contended {
        /// All of them, in any order.
        grants: Vec<Grant>,
        /// Releases that found the lock lost.
        lost: u64,
    },
    /// To [`Order::Contend`], by a floor: from the sending of each message to its receipt.
    Passed {
        /// In nanoseconds.
        latencies: Vec<u64>,
    },
    /// To [`Order::Hold`]: when it was acquired.
    Acquired {
        /// In nanoseconds.
        at_ns: u64,
    },
    /// To [`Order::Keep`] and [`Order::GiveBack`].
    Done {
        /// How many of the locks had been lost, as far as the library says so.
        lost: u64,
    },
    /// It went wrong, and how.
    Failed(String),
}

/// One tenure: task, asked, acquired, release called, and 1 if it was shared with others, as a reader's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant(pub(crate) u32, pub(crate) u64, pub(crate) u64, pub(crate) u64, pub(crate) u8);
