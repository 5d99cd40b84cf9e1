//! [`AcquireProgress`]: what an acquisition has seen so far.

use std::sync::Arc;

use crate::{EntryId, Holder, sync::Mutex};

/// What an acquisition that is under way has seen so far, to be shown to people who wait. Clones show the same.
///
/// It shows the last look at the queue, which may be as old as a third of the ttl: entries ahead may have left since.
/// [`DistributedLock::queue`](crate::DistributedLock::queue) asks the store, and [`entry`](Self::entry) tells which row is this acquisition.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{AcquireOptions, AcquireProgress, DistributedLock, Locks, Memory};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::Error> {
/// let lock = Locks::new(Memory::new()).mutex("invoices/42")?;
/// let holder = lock.acquire().await?;
///
/// let progress = AcquireProgress::new();
/// let options = AcquireOptions::new().wait(Duration::from_millis(50));
/// assert!(lock.acquire_observed(&options, &progress).await.is_err());
/// assert_eq!(progress.ahead(), Some(1));
/// holder.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct AcquireProgress(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    entry: Option<EntryId>,
    ahead: Option<u64>,
    holder: Option<Holder>,
}

impl AcquireProgress {
    /// Of an acquisition that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The id of its entry, which a [`QueueRow`](crate::QueueRow) of the queue has, too. `None` until it begins. It changes when the place
    /// in the queue is lost and the acquisition goes to the end.
    #[must_use]
    pub fn entry(&self) -> Option<EntryId> {
        self.0.lock().entry
    }

    /// How many entries were ahead, holders included. `None` until the queue was seen.
    #[must_use]
    pub fn ahead(&self) -> Option<u64> {
        self.0.lock().ahead
    }

    /// Who held the lock, as far as the store told.
    #[must_use]
    pub fn holder(&self) -> Option<Holder> {
        self.0.lock().holder.clone()
    }

    /// It has an entry, which nothing is known of yet.
    pub(crate) fn set_entry(&self, entry: EntryId) {
        *self.0.lock() = Seen { entry: Some(entry), ..Seen::default() };
    }

    /// What a look at the queue showed.
    pub(crate) fn set_seen(&self, ahead: u64, holder: Option<Holder>) {
        let mut seen = self.0.lock();
        seen.ahead = Some(ahead);
        seen.holder = holder;
    }
}
