//! [`Cleanup`]: what dropped guards and futures left behind, tried again until the store confirms it.

use std::{
    collections::BTreeMap,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::FutureExt;
use tokio::sync::watch;

use super::Keeper;
use crate::{
    BackOff, Backend, BackendError, BackendErrorKind, BootTime, Creates, Departure, Entropy, Entry, EntryId,
    LockName, telemetry,
};

const BACK_OFF: BackOff = BackOff { least: Duration::from_millis(20), most: Duration::from_secs(5) };

/// The entries that have to leave their queues, and have not been confirmed to have left.
#[derive(Debug)]
pub(crate) struct Cleanup {
    backend: Arc<dyn Backend>,
    keeper: Keeper,
    entropy: Arc<dyn Entropy>,
    debts: Mutex<BTreeMap<EntryId, Debt>>,
    /// How many debts there are: `close` waits for none.
    count: watch::Sender<usize>,
}

/// One entry that has to leave.
#[derive(Clone, Debug)]
pub(crate) struct Debt {
    pub(crate) name: LockName,
    /// When its lease ends on the store's own account.
    pub(crate) free_by: BootTime,
}

impl Cleanup {
    pub(crate) fn new(backend: Arc<dyn Backend>, keeper: Keeper, entropy: Arc<dyn Entropy>) -> Self {
        Self { backend, keeper, entropy, debts: Mutex::default(), count: watch::Sender::new(0) }
    }

    /// Hands a departure to the keeper. Never blocks, and needs no runtime: a `Drop` calls it.
    pub(crate) fn owe(self: &Arc<Self>, entry: Arc<Entry>, creates: Creates, free_by: BootTime) {
        if self.keeper.is_forked() {
            // The entry is the parent's, and so is its keeper.
            return;
        }
        telemetry::cleanup_owed(&entry);
        let debt = Debt { name: entry.name.clone(), free_by };
        self.change(|debts| debts.insert(entry.id, debt));
        let cleanup = Arc::clone(self);
        self.keeper.spawn(async move { cleanup.settle(entry, creates, free_by).await });
    }

    /// Leaves on the caller's own runtime. If that fails, or the future is dropped, the keeper takes over.
    pub(crate) async fn leave_now(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        creates: Creates,
        free_by: BootTime,
    ) -> Result<Departure, BackendError> {
        let takeover = Takeover { cleanup: self, entry, creates, free_by };
        let departure = match self.leave(entry, creates).await {
            // The connection that broke may have been idle for an hour; a new one is worth a try before we give bad news.
            Err(error) if error.is_transient() && *error.kind() != BackendErrorKind::TimedOut => {
                let again = self.leave(entry, creates).await;
                // If the first one did it, the second finds nothing: that is our own departure.
                if error.is_unsent() { again } else { again.map(|_| Departure::Left) }
            }
            answer => answer,
        }?;
        std::mem::forget(takeover);
        Ok(departure)
    }

    /// The debts there are now.
    pub(crate) fn debts(&self) -> Vec<Debt> {
        self.lock().values().cloned().collect()
    }

    /// Waits until there are no debts.
    pub(crate) async fn settled(&self) {
        // The sender lives in `self`, so that there is always an answer.
        let _ = self.count.subscribe().wait_for(|&count| count == 0).await;
    }

    async fn settle(&self, entry: Arc<Entry>, creates: Creates, free_by: BootTime) {
        let mut failures = 0;
        while let Err(error) = self.leave(&entry, creates).await {
            // A lease that is its own ends at its ttl, and if every create was answered, nothing can bring it back.
            let dies_alone = !self.backend.guarantees().shared_leases && creates == Creates::Answered;
            if dies_alone && self.keeper.now() >= free_by {
                telemetry::cleanup_abandoned(&entry, &error);
                break;
            }
            telemetry::store_away(&entry, "leave", &error);
            failures += 1;
            let pause = BACK_OFF.pause(failures, self.entropy.bits() as u64);
            self.keeper.sleep_until(self.keeper.now() + pause).await;
        }
        telemetry::cleanup_settled(&entry);
        self.change(|debts| debts.remove(&entry.id));
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        guarded(self.backend.guarantees().store, self.backend.leave(entry, creates))
            .await
            .and_then(|answer| answer)
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<EntryId, Debt>) -> T) -> T {
        let mut debts = self.lock();
        let result = change(&mut debts);
        let count = debts.len();
        drop(debts);
        self.count.send_replace(count);
        result
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<EntryId, Debt>> {
        // Nothing panics while the debts are held, and each change to them is whole.
        self.debts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hands a departure to the keeper when it is dropped.
struct Takeover<'a> {
    cleanup: &'a Arc<Cleanup>,
    entry: &'a Arc<Entry>,
    creates: Creates,
    free_by: BootTime,
}

impl Drop for Takeover<'_> {
    fn drop(&mut self) {
        self.cleanup.owe(Arc::clone(self.entry), self.creates, self.free_by);
    }
}

/// Turns a panic of a backend into an error, which means *unknown* like any other.
pub(crate) async fn guarded<T>(
    store: &'static str,
    verb: impl Future<Output = T> + Send,
) -> Result<T, BackendError> {
    AssertUnwindSafe(verb).catch_unwind().await.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        BackendError::new(store, BackendErrorKind::Panicked, format!("panicked: {text}"))
    })
}
