//! [`Waiters`]: who waits in this process, and for what.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use futures_core::Stream;
use lock_core::{EntryId, FencingToken, Hint, Hints, LockName, Switchboard};

/// The entries of this process that listen for hints. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters {
    board: Switchboard,
    waiting: Arc<Mutex<BTreeMap<EntryId, Waiting>>>,
}

#[derive(Debug, Default)]
struct Waiting {
    listeners: usize,
    /// Where it stands, once the store has said so.
    place: Option<(LockName, FencingToken)>,
}

impl Waiters {
    /// The hints for an entry from now on.
    pub(crate) fn listen(&self, entry: EntryId) -> Hints {
        self.lock().entry(entry).or_default().listeners += 1;
        let (hints, pid) = (self.board.listen(entry), std::process::id());
        Box::pin(Listener { entry, hints, waiters: self.clone(), pid })
    }

    /// The store has said where an entry waits. Nothing, if nobody listens any more.
    pub(crate) fn stands(&self, entry: EntryId, name: &LockName, token: FencingToken) {
        if let Some(waiting) = self.lock().get_mut(&entry) {
            waiting.place = Some((name.clone(), token));
        }
    }

    /// Those who are known to wait.
    pub(crate) fn places(&self) -> Vec<(EntryId, LockName, FencingToken)> {
        let place = |(entry, waiting): (&EntryId, &Waiting)| {
            waiting.place.clone().map(|(name, token)| (*entry, name, token))
        };
        self.lock().iter().filter_map(place).collect()
    }

    /// Whether nobody is known to wait.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().values().all(|waiting| waiting.place.is_none())
    }

    /// How many listen.
    pub(crate) fn listeners(&self) -> usize {
        self.board.listeners()
    }

    pub(crate) fn tell(&self, entry: EntryId, hint: Hint) {
        self.board.send(entry, hint);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<EntryId, Waiting>> {
        // Nothing panics while it is held, and each change to it is whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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
        // In a fork the thread of the file, which is not there, may seem to hold them for ever.
        if self.pid != std::process::id() {
            return;
        }
        let mut waiting = self.waiters.lock();
        if let Some(mine) = waiting.get_mut(&self.entry) {
            mine.listeners -= 1;
            if mine.listeners == 0 {
                waiting.remove(&self.entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_stops_listening_is_no_longer_known_to_wait() {
        let (waiters, entry) = (Waiters::default(), EntryId::new(7));
        let name = LockName::new("job").unwrap();
        waiters.stands(entry, &name, FencingToken::new(1));
        assert!(waiters.is_empty(), "nobody listens");
        let (old, new) = (waiters.listen(entry), waiters.listen(entry));
        assert!(waiters.is_empty(), "the store has not said where it waits");
        waiters.stands(entry, &name, FencingToken::new(1));
        drop(old);
        assert_eq!(waiters.places(), [(entry, name, FencingToken::new(1))]);
        drop(new);
        assert!(waiters.is_empty() && waiters.places().is_empty());
        assert_eq!(waiters.listeners(), 0);
    }
}
