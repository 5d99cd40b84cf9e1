//! [`Register`]: whose the entries of a case are, for the [look](crate::residue) that follows it.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use lock_core::{
    Backend, BackendError, BackendErrorKind, Creates, Departure, Entry, EntryId, Standing, Step, WaitMode,
};

use crate::Layer;

/// Every client of a case.
#[derive(Debug, Default)]
pub(crate) struct Register {
    pages: Mutex<Vec<Arc<Page>>>,
    /// Processes that were started. All have been killed when the case is over, and their entries are known to nobody.
    processes: AtomicBool,
    /// Somebody went by a proxy, which ends with the case, and with it the way to the server.
    cut_off: AtomicBool,
}

/// One client, and the layer nearest to its store, by which its entries are known.
#[derive(Debug, Default)]
pub(crate) struct Page {
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

impl Register {
    /// A new client.
    pub(crate) fn page(&self) -> Arc<Page> {
        let page = Arc::new(Page::default());
        self.pages().push(Arc::clone(&page));
        page
    }

    /// All clients until now end where they stand.
    pub(crate) fn crash_all(&self) {
        self.pages().iter().for_each(|page| page.crash());
    }

    /// A client in a process of its own.
    pub(crate) fn process(&self) {
        self.processes.store(true, Ordering::SeqCst);
    }

    /// A client that reaches the server by a proxy.
    pub(crate) fn cut_off(&self) {
        self.cut_off.store(true, Ordering::SeqCst);
    }

    /// Whether somebody has ended without cleaning up, so that what he had at the server stays until its lease ends.
    pub(crate) fn has_dead(&self) -> bool {
        let crashed = |page: &Arc<Page>| page.crashed.load(Ordering::SeqCst);
        let gone = [&self.processes, &self.cut_off].iter().any(|is| is.load(Ordering::SeqCst));
        gone || self.pages().iter().any(crashed)
    }

    /// Whether an entry is one that nobody could have left for.
    pub(crate) fn may_stay(&self, id: EntryId) -> bool {
        let pages = self.pages();
        let mut known = pages.iter().filter(|page| page.entries().asked.contains(&id));
        match known.next() {
            Some(page) => page.crashed.load(Ordering::SeqCst) || page.entries().by_hand.contains(&id),
            None => self.processes.load(Ordering::SeqCst),
        }
    }

    fn pages(&self) -> MutexGuard<'_, Vec<Arc<Page>>> {
        // Nothing panics while they are held.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Page {
    /// The client ends where it stands.
    pub(crate) fn crash(&self) {
        self.crashed.store(true, Ordering::SeqCst);
    }

    /// The case calls the verbs for this entry.
    pub(crate) fn by_hand(&self, id: EntryId) {
        self.entries().by_hand.insert(id);
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // Nothing panics while they are held.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Layer for Page {
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
