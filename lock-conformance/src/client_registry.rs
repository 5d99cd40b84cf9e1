//! [`ClientRegistry`]: which client owns which entry, for the [leak check](crate::leak_check) after a case.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use lock_core::{
    Backend, BackendError, BackendErrorKind, Creates, Departure, Entry, EntryId, Standing, Step, WaitMode,
    sync::{Mutex, MutexGuard},
};

use crate::Layer;

/// Every client of a case.
#[derive(Debug, Default)]
pub(crate) struct ClientRegistry {
    records: Mutex<Vec<Arc<ClientRecord>>>,
    /// Client processes were started. All are killed at the end of the case, and their entries are not known here.
    processes: AtomicBool,
    /// A client connected through a proxy, which ends with the case: the client could not clean up afterwards.
    cut_off: AtomicBool,
}

/// One client: the layer next to its store, which records its entries.
#[derive(Debug, Default)]
pub(crate) struct ClientRecord {
    entries: Mutex<Entries>,
    crashed: AtomicBool,
}

#[derive(Debug, Default)]
struct Entries {
    /// Entries that may be in the store.
    asked: HashSet<EntryId>,
    /// Entries for which the case calls the verbs itself. No engine removes them.
    by_hand: HashSet<EntryId>,
}

impl ClientRegistry {
    /// Adds a client.
    pub(crate) fn add(&self) -> Arc<ClientRecord> {
        let record = Arc::new(ClientRecord::default());
        self.records().push(Arc::clone(&record));
        record
    }

    /// Marks all clients so far as crashed.
    pub(crate) fn crash_all(&self) {
        self.records().iter().for_each(|record| record.crash());
    }

    /// Records that a client process was started.
    pub(crate) fn mark_process(&self) {
        self.processes.store(true, Ordering::SeqCst);
    }

    /// Records that a client connects through a proxy.
    pub(crate) fn mark_cut_off(&self) {
        self.cut_off.store(true, Ordering::SeqCst);
    }

    /// Whether a client has ended without cleaning up, so that its entries stay until their leases end.
    pub(crate) fn has_dead(&self) -> bool {
        let crashed = |record: &Arc<ClientRecord>| record.crashed.load(Ordering::SeqCst);
        let gone = [&self.processes, &self.cut_off].iter().any(|is| is.load(Ordering::SeqCst));
        gone || self.records().iter().any(crashed)
    }

    /// Whether an entry is one that no client could have removed.
    pub(crate) fn may_stay(&self, id: EntryId) -> bool {
        let records = self.records();
        let mut known = records.iter().filter(|record| record.entries().asked.contains(&id));
        match known.next() {
            Some(record) => record.crashed.load(Ordering::SeqCst) || record.entries().by_hand.contains(&id),
            None => self.processes.load(Ordering::SeqCst),
        }
    }

    fn records(&self) -> MutexGuard<'_, Vec<Arc<ClientRecord>>> {
        self.records.lock()
    }
}

impl ClientRecord {
    /// Marks the client as crashed.
    pub(crate) fn crash(&self) {
        self.crashed.store(true, Ordering::SeqCst);
    }

    /// Takes note that the case calls the verbs for this entry.
    pub(crate) fn mark_by_hand(&self, id: EntryId) {
        self.entries().by_hand.insert(id);
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }
}

#[async_trait]
impl Layer for ClientRecord {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        self.entries().asked.insert(entry.id);
        let answer = store.enter(entry, step, wait).await;
        let refused = |error: &BackendError| {
            error.is_unsent() || matches!(error.kind(), BackendErrorKind::ClaimMismatch { .. })
        };
        if matches!(answer, Ok(Standing::Busy)) || answer.as_ref().is_err_and(refused) {
            self.entries().asked.remove(&entry.id);
        }
        answer
    }

    async fn leave(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        creates: Creates,
    ) -> Result<Departure, BackendError> {
        let departure = store.leave(entry, creates).await?;
        // An entry that appears after this was left behind.
        self.entries().asked.remove(&entry.id);
        Ok(departure)
    }
}
