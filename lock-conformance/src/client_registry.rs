//! [`ClientRegistry`]: whose the entries of a case are, for the [look](crate::leak_check) that follows it.

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
};
use parking_lot::{Mutex, MutexGuard};

use crate::Layer;

/// Every client of a case.
#[derive(Debug, Default)]
pub(crate) struct ClientRegistry {
    records: Mutex<Vec<Arc<ClientRecord>>>,
    /// Processes that were started. All have been killed when the case is over, and their entries are known to nobody.
    processes: AtomicBool,
    /// Somebody went by a proxy, which ends with the case, and with it the way to the server.
    cut_off: AtomicBool,
}

/// One client, and the layer nearest to its store, by which its entries are known.
#[derive(Debug, Default)]
pub(crate) struct ClientRecord {
    entries: Mutex<Entries>,
    crashed: AtomicBool,
}

#[derive(Debug, Default)]
struct Entries {
    /// Those that may be in the store.
    asked: HashSet<EntryId>,
    /// Those that the case calls the verbs for. No engine leaves for them.
    by_hand: HashSet<EntryId>,
}

impl ClientRegistry {
    /// A new client.
    pub(crate) fn add(&self) -> Arc<ClientRecord> {
        let record = Arc::new(ClientRecord::default());
        self.records().push(Arc::clone(&record));
        record
    }

    /// All clients until now end where they stand.
    pub(crate) fn crash_all(&self) {
        self.records().iter().for_each(|record| record.crash());
    }

    /// A client in a process of its own.
    pub(crate) fn mark_process(&self) {
        self.processes.store(true, Ordering::SeqCst);
    }

    /// A client that reaches the server by a proxy.
    pub(crate) fn mark_cut_off(&self) {
        self.cut_off.store(true, Ordering::SeqCst);
    }

    /// Whether somebody has ended without cleaning up, so that what he had at the server stays until its lease ends.
    pub(crate) fn has_dead(&self) -> bool {
        let crashed = |record: &Arc<ClientRecord>| record.crashed.load(Ordering::SeqCst);
        let gone = [&self.processes, &self.cut_off].iter().any(|is| is.load(Ordering::SeqCst));
        gone || self.records().iter().any(crashed)
    }

    /// Whether an entry is one that nobody could have left for.
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
    /// The client ends where it stands.
    pub(crate) fn crash(&self) {
        self.crashed.store(true, Ordering::SeqCst);
    }

    /// The case calls the verbs for this entry.
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
        // What comes into the store after this is a stray, whoever sent it.
        self.entries().asked.remove(&entry.id);
        Ok(departure)
    }
}
