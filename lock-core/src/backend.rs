//! [`Backend`]: what a store implements. A few verbs on a queue of leased entries.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_core::Stream;

use crate::{
    BackendError, BootTime, Departure, Entry, EntryId, FencingToken, Guarantees, Operator, escape_unprintable,
};

/// A store that keeps, for every name, one ordered queue of leased entries.
///
/// `lock-core` builds mutexes, read-write locks, semaphores, waiting, renewal, loss and fencing on these verbs. Every method is required: a
/// default would be convenient for the author of a wrapper, and wrong in the wrapper.
///
/// ### To ensure correctness
///
/// | | rule |
/// |---|---|
/// | C1 | the order of entering is the order of the queue and the order of the tokens |
/// | C2 | the tokens of a name grow forever: across release, expiry, an empty queue, operator deletes, restarts |
/// | C3 | a repeated [`enter`](Self::enter) keeps the place **and** refreshes the lease, and returns the same token |
/// | C4 | an entry whose lease ran out is gone, and never comes back with its old place |
/// | C5 | [`leave`](Self::leave) is idempotent, and works when the answer to `enter` was lost |
/// | C6 | hints are live before the standing is judged |
/// | C7 | a [`BackendError`] after sending means *unknown*: the request may or may not have been carried out |
/// | C8 | a verb never blocks its thread, and ends within the store's own time limit for a command |
///
/// Every verb judges its **own** entry's expiry first, with the clock reading that it uses for admission. Every verb
/// ends with the same step: remove dead entries, admit **all** entries that now fit, and send a hint to each. A lease never shrinks.
///
/// The suite in `lock-conformance` has a case for each of these.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Stands in the queue, or looks again from the place already taken, and refreshes the lease.
    ///
    /// [`Step::Create`] creates the entry if it is not there. [`Step::Again`] never creates: if the entry is not there
    /// with that token, the answer is [`Standing::Gone`]. Idempotent per entry id.
    ///
    /// The lease is refreshed by the ttl of the entry as it is given here. That is longer than the one that it was created with when an
    /// entry that [waited with less](crate::AcquireOptions::waiting_ttl) is to hold the lock.
    ///
    /// # Errors
    /// [`BackendErrorKind::ClaimMismatch`](crate::BackendErrorKind::ClaimMismatch) leaves no entry behind. Any other
    /// error that is not [unsent](BackendError::is_unsent) means that the entry may be there.
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError>;

    /// Extends leases, in as few round trips as the store allows. One answer for each, in order.
    ///
    /// Never creates, never extends another's, never extends a later life of the same entry: a lease whose token is
    /// not the entry's is [`Renewal::Lost`]. An error means *unknown*, neither renewed nor lost.
    ///
    /// Only holders are renewed: waiters [enter](Self::enter) again. Renewed is not admitted, so a store that marks the admitted entries
    /// answers [`Renewal::Lost`] for one that is not, and leaves it as it is: a client that believes by mistake, or by a forged hint, that
    /// it holds the lock learns the truth from its first renewal.
    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>>;

    /// Leaves the queue, holding or waiting. Never touches another's entry.
    ///
    /// With [`Creates::InDoubt`] a creating request of this entry may still arrive, and must create nothing then: put a tombstone.
    ///
    /// Where [leases are shared](Guarantees::shared_leases) it is repeated until it succeeds, however long the store is away. So it has to
    /// succeed without the store if no request for this entry was sent, or what was given up meanwhile fills the memory.
    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError>;

    /// Gives back what the store keeps for this client beside entries, such as a session without entries: the client is closed, and its
    /// process may end at once. Ready when the store has confirmed it; the caller bounds the time. What was begun goes on when the future
    /// is dropped. Entries stay as they are. A later entry opens again what it needs.
    async fn give_back(&self);

    /// Entries of this client that may have been lost, as the store says so: an early warning, which the keeper follows
    /// up with a renewal. That of an entry that still waits is renewed as soon as it holds. May miss some, may be empty; each call starts
    /// a stream of its own.
    fn alarms(&self) -> Alarms;

    /// What this store promises, as data.
    fn guarantees(&self) -> &Guarantees;

    /// The same store, for people and tools. A wrapper gives that of the backend it wraps.
    fn operator(&self) -> &dyn Operator;
}

/// Whether [`Backend::enter`] may create the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Create the entry if it is not there.
    Create,
    /// Look again from the place that was given this token; never create.
    Again(FencingToken),
}

/// What [`Backend::enter`] does when the entry is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// Leave nothing behind and answer [`Standing::Busy`].
    Try,
    /// Stay in the queue and answer [`Standing::Waiting`].
    Queue,
}

/// Where an entry stands, as judged by the store.
pub enum Standing {
    /// It holds the lock.
    Admitted {
        /// Minted when the entry was created.
        token: FencingToken,
        /// The ttl that the store granted: the ttl of the entry, or a longer one if the store has no such short ttl.
        ttl: Duration,
        /// Until when the holder may rely on it: see [`valid_until`](crate::valid_until).
        valid_until: BootTime,
    },
    /// It stands in the queue.
    Waiting {
        /// Minted when the entry was created.
        token: FencingToken,
        /// The ttl that the store granted.
        ttl: Duration,
        /// Until when the place is kept without being refreshed.
        valid_until: BootTime,
        /// How many entries stand ahead, holders included. For people to read: dead entries may be counted.
        ahead: u64,
        /// The holder of the lock, for people.
        holder: Option<Holder>,
        /// When to look again even if no hint came: the earliest moment at which the end of another lease can admit the entry.
        look_again: BootTime,
        /// Live since before the standing was judged. Empty where the store [has none](Guarantees::polls).
        hints: Hints,
    },
    /// Only for [`WaitMode::Try`]: not admitted, and no entry was left behind.
    Busy,
    /// The entry is not there, or it is another life of it. To a [`Step::Create`] it says that the entry has left for good: a
    /// [`leave`](Backend::leave) came first, and left a tombstone. A client that still wants the lock comes back under another id.
    Gone,
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admitted { token, ttl, valid_until } => f
                .debug_struct("Admitted")
                .field("token", token)
                .field("ttl", ttl)
                .field("valid_until", valid_until)
                .finish(),
            Self::Waiting { token, ahead, look_again, .. } => f
                .debug_struct("Waiting")
                .field("token", token)
                .field("ahead", ahead)
                .field("look_again", look_again)
                .finish_non_exhaustive(),
            Self::Busy => f.write_str("Busy"),
            Self::Gone => f.write_str("Gone"),
        }
    }
}

/// The holder of a lock, as far as a waiter is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// One of ours, with its label if it gave one.
    Ours {
        /// The label of the holder.
        label: Option<String>,
    },
    /// A client of another library, on the same key.
    Foreign {
        /// Whether its hold ends by itself.
        expires: bool,
    },
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours { label: Some(label) } => write!(f, "`{}`", escape_unprintable(label)),
            Self::Ours { label: None } => f.write_str("a holder without a label"),
            Self::Foreign { expires: true } => f.write_str("a client of another library"),
            Self::Foreign { expires: false } => {
                f.write_str("a client of another library, without expiry: it stays until somebody deletes it")
            }
        }
    }
}

/// A message from the store that it is worth looking again. A lost hint delays, and does no harm; but a hint has to be true: a waiter that
/// receives [`Admitted`](Self::Admitted) takes the lock without another look, so to forge one is to grant the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The store has made the entry with this token the holder; there is nothing left to ask.
    Admitted {
        /// The token of the entry's life that was admitted.
        token: FencingToken,
    },
    /// Something changed: look again.
    Changed,
}

/// Hints for one entry. When the stream ends, the waiter looks again on a timer.
pub type Hints = Pin<Box<dyn Stream<Item = Hint> + Send>>;

/// Entries that may have been lost. See [`Backend::alarms`].
pub type Alarms = Pin<Box<dyn Stream<Item = EntryId> + Send>>;

/// A lease to extend: an entry in one of its lives.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The entry.
    pub entry: Arc<Entry>,
    /// The life of the entry.
    pub token: FencingToken,
}

/// The outcome of extending a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// It was extended.
    Renewed {
        /// Until when the holder may rely on it.
        valid_until: BootTime,
    },
    /// It is over, for good.
    Lost,
}

/// Whether every creating request of an entry was answered before it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creates {
    /// Every [`Step::Create`] was answered.
    Answered,
    /// One was not, and may still arrive.
    InDoubt,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_shown_to_people_hides_no_character_and_turns_no_text() {
        let holder = Holder::Ours { label: Some("w\u{3164}e\u{202e}b\n".to_owned()) };
        assert_eq!(holder.to_string(), "`w\\u{3164}e\\u{202e}b\\n`");
    }
}
