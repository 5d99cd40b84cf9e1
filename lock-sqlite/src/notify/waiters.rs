//! [`Waiters`]: the waiting entries of this process.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::Stream;
use lock_core::{EntryId, FencingToken, Hint, Hints, LockName, Notifier, sync::Mutex};

use super::worker_waker::WorkerWaker;

/// The entries of this process that listen for hints. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters {
    board: Notifier,
    /// Wakes the worker, which watches holders for these entries.
    pub(crate) waker: WorkerWaker,
    table: Arc<Mutex<WaiterTable>>,
}

#[derive(Debug, Default)]
struct WaiterTable {
    listening: BTreeMap<EntryId, Waiting>,
    /// The number of entries that are known to wait.
    waiting_count: usize,
    /// How often the set of waiting entries changed.
    changes: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    listeners: usize,
    /// The place of the entry, once the store has reported it.
    place: Option<(LockName, FencingToken)>,
}

impl Waiters {
    /// The hints for an entry from now on.
    pub(crate) fn listen(&self, entry: EntryId) -> Hints {
        self.table.lock().listening.entry(entry).or_default().listeners += 1;
        let (hints, pid) = (self.board.listen(entry), std::process::id());
        Box::pin(Listener { entry, hints, waiters: self.clone(), pid })
    }

    /// Records where an entry waits, as the store has reported. Does nothing if the entry has no listener any more.
    pub(crate) fn mark_waiting(&self, entry: EntryId, name: &LockName, token: FencingToken) {
        let mut table = self.table.lock();
        let WaiterTable { listening, waiting_count, changes } = &mut *table;
        let Some(waiting) = listening.get_mut(&entry) else { return };
        if waiting.place.as_ref().is_none_or(|(known, at)| (known, *at) != (name, token)) {
            *waiting_count += usize::from(waiting.place.is_none());
            *changes += 1;
            waiting.place = Some((name.clone(), token));
            drop(table);
            self.waker.wake();
        }
    }

    /// The entries that are known to wait.
    pub(crate) fn places(&self) -> Vec<(EntryId, LockName, FencingToken)> {
        let place = |(entry, waiting): (&EntryId, &Waiting)| {
            waiting.place.clone().map(|(name, token)| (*entry, name, token))
        };
        self.table.lock().listening.iter().filter_map(place).collect()
    }

    /// A number that changes whenever the set of waiting entries changes.
    pub(crate) fn changes(&self) -> u64 {
        self.table.lock().changes
    }

    /// Whether no entry is known to wait.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.lock().waiting_count == 0
    }

    /// The number of listeners.
    pub(crate) fn listeners(&self) -> usize {
        self.board.listeners()
    }

    pub(crate) fn tell(&self, entry: EntryId, hint: Hint) {
        self.board.send(entry, hint);
    }
}

struct Listener {
    entry: EntryId,
    hints: Hints,
    waiters: Waiters,
    /// The process that listens.
    pid: u32,
}

impl Stream for Listener {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Hint>> {
        self.hints.as_mut().poll_next(cx)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // In a forked child, the lock may stay locked forever by the worker, which exists only in the parent.
        if self.pid != std::process::id() {
            return;
        }
        let mut table = self.waiters.table.lock();
        let WaiterTable { listening, waiting_count, changes } = &mut *table;
        let Some(mine) = listening.get_mut(&self.entry) else { return };
        mine.listeners -= 1;
        if mine.listeners == 0 {
            if mine.place.is_some() {
                *waiting_count -= 1;
                *changes += 1;
            }
            listening.remove(&self.entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_whose_listeners_are_gone_is_not_known_to_wait() {
        let (waiters, entry) = (Waiters::default(), EntryId::new(7));
        let name = LockName::new("job").unwrap();
        waiters.mark_waiting(entry, &name, FencingToken::new(1));
        assert!(waiters.is_empty(), "nobody listens");
        let (old, new) = (waiters.listen(entry), waiters.listen(entry));
        assert!(waiters.is_empty(), "the store has not said where it waits");
        waiters.mark_waiting(entry, &name, FencingToken::new(1));
        drop(old);
        let changes = waiters.changes();
        waiters.mark_waiting(entry, &name, FencingToken::new(1));
        assert_eq!(waiters.changes(), changes, "it waits where it waited");
        assert_eq!(waiters.places(), [(entry, name, FencingToken::new(1))]);
        drop(new);
        assert!(waiters.is_empty() && waiters.places().is_empty() && waiters.changes() > changes);
        assert_eq!(waiters.listeners(), 0);
    }
}
