//! [`HubState`]: the watches on a stream, and the waiters of each.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Weak},
};

use futures_channel::mpsc::UnboundedSender;
use lock_core::{EntryId, Hint, isolate};
use tokio::sync::Notify;

use super::wait_state::WaitState;
use crate::session::Session;

/// A message to send on the stream.
#[derive(Debug)]
pub(super) enum Command {
    /// Watch a key from now on.
    Watch { id: i64, key: Vec<u8> },
    /// Stop watching a key.
    Cancel { id: i64 },
    /// Ask for a sign of life.
    Progress,
}

/// The state of a [`WatchHub`](super::hub::WatchHub).
#[derive(Default)]
pub(super) struct HubState {
    /// The sender of the stream, while there is a stream.
    pub(super) commands: Option<UnboundedSender<Command>>,
    pub(super) last_id: i64,
    pub(super) watches: HashMap<Vec<u8>, Watch>,
    pub(super) keys: HashMap<i64, Vec<u8>>,
    pub(super) waiters: HashMap<EntryId, WaitState>,
    pub(super) sessions: HashMap<Vec<u8>, Weak<Session>>,
}

#[derive(Debug)]
pub(super) struct Watch {
    pub(super) id: i64,
    /// The revision in which the watch was created. It reports every later event. `None` until it is created.
    pub(super) since: Option<i64>,
    /// The revision of the last delete that it reported.
    pub(super) deleted: i64,
    pub(super) waiters: BTreeSet<EntryId>,
}

/// The consequences of a delete.
#[must_use]
#[derive(Debug, Default)]
pub(super) struct Departure {
    pub(super) told: Vec<(EntryId, Hint)>,
    /// Waiters that have to look, but cannot be the next holder yet.
    pub(super) look_later: Vec<EntryId>,
}

/// Tasks that wait for a watch. They have to be woken outside the lock: a waker is foreign code, which may drop a waiter.
#[must_use]
#[derive(Default)]
pub(super) struct Wakeups(Vec<Arc<Notify>>);

impl Wakeups {
    pub(super) fn wake(self) {
        for one in self.0 {
            // A waker that panics must not keep the others from being woken.
            isolate(|| one.notify_one());
        }
    }
}

impl HubState {
    pub(super) fn send(&self, command: Command) {
        if let Some(commands) = &self.commands {
            // A stream that has ended will be replaced.
            let _ = commands.unbounded_send(command);
        }
    }

    pub(super) fn watch(&mut self, key: &[u8]) {
        if self.commands.is_none() || self.watches.contains_key(key) {
            return;
        }
        self.last_id += 1;
        let id = self.last_id;
        self.watches.insert(key.to_vec(), Watch { id, since: None, deleted: 0, waiters: BTreeSet::new() });
        self.keys.insert(id, key.to_vec());
        self.send(Command::Watch { id, key: key.to_vec() });
    }

    pub(super) fn watch_for(&mut self, entry: EntryId, key: &[u8]) {
        self.watch(key);
        let Some(watch) = self.watches.get_mut(key) else { return };
        watch.waiters.insert(entry);
        // The watch reported this delete to other waiters before, and this waiter's look may not have seen it.
        if let Some(wait_state) = self.waiters.get_mut(&entry).filter(|_| watch.deleted > 0) {
            let _ = wait_state.on_delete(key, watch.deleted);
        }
    }

    /// Watches the keys of waiters on a new stream. Returns these keys in the order of their watches, and the waiters that have to look.
    pub(super) fn rewatch_all(&mut self) -> (Vec<Vec<u8>>, Vec<EntryId>) {
        let (known, others): (Vec<_>, Vec<_>) = self
            .waiters
            .iter()
            .map(|(entry, wait_state)| (*entry, wait_state.is_unchanged()))
            .partition(|(_, known)| *known);
        for (entry, _) in known {
            let Some(wait_state) = self.waiters.get_mut(&entry) else { continue };
            wait_state.begin_catch_up();
            for key in wait_state.keys() {
                self.watch_for(entry, &key);
            }
        }
        let used = self.watches.iter().filter(|(_, watch)| !watch.waiters.is_empty());
        let mut watched: Vec<_> = used.map(|(key, watch)| (watch.id, key.clone())).collect();
        watched.sort_unstable();
        let keys = watched.into_iter().map(|(_, key)| key).collect();
        (keys, others.into_iter().map(|(entry, _)| entry).collect())
    }

    pub(super) fn unwatch_for(&mut self, entry: EntryId, key: &[u8]) {
        if let Some(watch) = self.watches.get_mut(key) {
            watch.waiters.remove(&entry);
        }
        self.drop_if_unused(key);
    }

    pub(super) fn drop_if_unused(&mut self, key: &[u8]) {
        let used = self.sessions.contains_key(key);
        let Some(watch) = self.watches.get(key).filter(|watch| watch.waiters.is_empty() && !used) else {
            return;
        };
        let id = watch.id;
        self.watches.remove(key);
        self.keys.remove(&id);
        self.send(Command::Cancel { id });
    }

    /// Handles the creation of a watch. Returns the tasks that may wait for it.
    pub(super) fn on_created(&mut self, id: i64, revision: i64) -> Wakeups {
        let Some(watch) = self.keys.get(&id).and_then(|key| self.watches.get_mut(key)) else {
            return Wakeups::default();
        };
        watch.since = Some(watch.since.unwrap_or_default().max(revision));
        let waiters = watch.waiters.iter().filter_map(|entry| self.waiters.get(entry));
        Wakeups(waiters.map(|wait_state| Arc::clone(&wait_state.notify)).collect())
    }

    /// Handles the end of a watch by the server, because of a compaction, a refusal or any other reason. Returns the waiters that have to
    /// look again, and the tasks that may wait for the watch.
    pub(super) fn on_canceled(&mut self, id: i64) -> (Vec<(EntryId, Hint)>, Wakeups) {
        let Some(watch) = self.keys.remove(&id).and_then(|key| self.watches.remove(&key)) else {
            return (Vec::new(), Wakeups::default());
        };
        let mut wakeups = Wakeups::default();
        for entry in &watch.waiters {
            if let Some(wait_state) = self.waiters.get_mut(entry) {
                wait_state.broken = true;
                wakeups.0.push(Arc::clone(&wait_state.notify));
            }
        }
        // A watch that the server refused to create would be refused again, so its waiters poll.
        let lost = watch.since.is_some();
        let told = watch.waiters.into_iter().filter(|_| lost).map(|entry| (entry, Hint::Changed));
        (told.collect(), wakeups)
    }

    /// Handles the end of the stream. Returns the tasks that may wait for a watch.
    pub(super) fn on_stream_closed(&mut self) -> Wakeups {
        self.commands = None;
        self.watches.clear();
        self.keys.clear();
        let waiters = self.waiters.values_mut().map(|wait_state| {
            wait_state.broken = true;
            wait_state.require_look();
            Arc::clone(&wait_state.notify)
        });
        Wakeups(waiters.collect())
    }

    /// Handles the delete of a watched key.
    pub(super) fn on_deleted(&mut self, key: &[u8], revision: i64) -> Departure {
        let mut departure = Departure::default();
        let Some(watch) = self.watches.get_mut(key) else { return departure };
        watch.deleted = watch.deleted.max(revision);
        for entry in &watch.waiters {
            let Some(wait_state) = self.waiters.get_mut(entry) else { continue };
            match wait_state.on_delete(key, revision) {
                Some(Hint::Changed) if wait_state.is_kept_out() => departure.look_later.push(*entry),
                Some(hint) => departure.told.push((*entry, hint)),
                None => {}
            }
        }
        departure
    }
}
