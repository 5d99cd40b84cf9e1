//! [`WatchHub`]: delivers the events of watches to waiters and sessions.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Weak},
};

use etcd_client::{Event, EventType, ResponseHeader, WatchResponse};
use futures_channel::mpsc::{UnboundedReceiver, unbounded};
use lock_core::{
    Alarms, BootTime, EntryId, Hint, Hints, Keeper, Notifier,
    sync::{Mutex, MutexGuard},
};
use tokio::sync::Notify;

use super::{
    hub_state::{Command, Departure, HubState, Wakeups},
    wait_state::{GrantCondition, Presence, WaitState},
};
use crate::{
    queue::Snapshot,
    session::{Session, SessionObserver},
};

/// The id of the watch on evictions. Other watches have larger ids.
pub(super) const EVICTIONS: i64 = 1;

/// An event of a watch.
#[derive(Clone, Copy, Debug)]
enum WatchEvent {
    /// The watch was created, and reports every delete after this revision.
    Created(i64),
    /// The key was deleted in this revision.
    Deleted(i64),
    /// The server has ended the watch.
    Canceled,
}

/// The watches of this process, and the waiters and sessions that their events concern.
#[derive(Default)]
pub(crate) struct WatchHub {
    state: Mutex<HubState>,
    notifier: Notifier,
    /// Notified of each watch that was created, or that the server has ended.
    created: Notify,
}

impl WatchHub {
    /// Watches the entries that a waiter has seen ahead, and its own. The stream of hints exists immediately, but carries only certain
    /// hints, from when the snapshot is [armed](Self::arm).
    pub(super) fn listen(&self, entry: EntryId, snapshot: Snapshot) -> Hints {
        let hints = self.notifier.listen(entry);
        self.update(entry, snapshot);
        if let Some(wait_state) = self.lock().waiters.get_mut(&entry) {
            wait_state.listeners += 1;
        }
        hints
    }

    /// Watches the entries of another look instead.
    pub(crate) fn update(&self, entry: EntryId, snapshot: Snapshot) {
        let mut state = self.lock();
        let mut before = BTreeSet::new();
        if let Some(wait_state) = state.waiters.get_mut(&entry) {
            before = wait_state.keys();
            wait_state.update(snapshot);
        } else {
            state.waiters.insert(entry, WaitState::new(snapshot));
        }
        let after = state.waiters.get(&entry).map(WaitState::keys).unwrap_or_default();
        for key in before.difference(&after) {
            state.unwatch_for(entry, key);
        }
        for key in after {
            state.watch_for(entry, &key);
        }
    }

    /// Waits until all entries that the waiter saw are watched. Returns the revision that its look has to reach so that no event
    /// was missed, or `None` if watching is not possible now.
    pub(crate) async fn watching_since(
        &self,
        entry: EntryId,
        keeper: &Keeper,
        until: BootTime,
    ) -> Option<i64> {
        // The last key whose watch does not exist yet. Watches are created in order, so mostly all exist when this one does.
        let mut missing: Option<Vec<u8>> = None;
        loop {
            let notify = {
                let state = self.lock();
                let wait_state = state.waiters.get(&entry)?;
                if wait_state.broken || state.commands.is_none() {
                    return None;
                }
                let awaits =
                    |key: &Vec<u8>| state.watches.get(key).is_some_and(|watch| watch.since.is_none());
                if missing.as_ref().is_none_or(|key| !awaits(key)) {
                    let since = |key| state.watches.get(key).and_then(|watch| watch.since);
                    let keys = wait_state.keys();
                    match keys.iter().rev().find(|key| since(*key).is_none()) {
                        Some(key) => missing = Some(key.clone()),
                        None => return keys.iter().filter_map(since).max(),
                    }
                }
                Arc::clone(&wait_state.notify)
            };
            // `notify` keeps a permit that was given in between.
            keeper.timeout_at(until, notify.notified()).await?;
        }
    }

    /// Arms a waiter: all its watches existed before its snapshot.
    pub(crate) fn arm(&self, entry: EntryId) {
        let hints = self.lock().waiters.get_mut(&entry).map(WaitState::arm).unwrap_or_default();
        for hint in hints {
            self.notifier.send(entry, hint);
        }
    }

    /// The condition under which a waiter is admitted for which the entries ahead leave room. `None` if its own entry is gone.
    pub(super) fn grant_condition(&self, entry: EntryId) -> Option<GrantCondition> {
        self.lock().waiters.get(&entry)?.grant_condition()
    }

    /// One more stream of hints for a waiter, and the keys that are watched for it. `None` if the waiter has to look instead: an entry has
    /// left, or not everything is watched although it could be.
    pub(super) fn listen_again(&self, entry: EntryId) -> Option<(Hints, Vec<Vec<u8>>)> {
        let hints = self.notifier.listen(entry);
        let mut state = self.lock();
        let none_is_watched = state.commands.is_none();
        let wait_state = state.waiters.get_mut(&entry).filter(|wait_state| wait_state.is_unchanged())?;
        if !(wait_state.is_watched() || wait_state.is_catching_up() || none_is_watched) {
            return None;
        }
        wait_state.listeners += 1;
        let keys = wait_state.snapshot.watched();
        drop(state);
        Some((hints, keys))
    }

    /// Watches the key of a session: if the key is deleted, the lease was revoked, and the session is over.
    fn watch_session(&self, session: &Arc<Session>) {
        let Some(key) = session.key() else { return };
        let mut state = self.lock();
        state.sessions.insert(key.to_vec(), Arc::downgrade(session));
        state.watch(key);
    }

    /// A session is over, and with it these entries, which it kept alive.
    fn session_ended(&self, session: &Session, entries: &[EntryId]) {
        if let Some(key) = session.key() {
            let mut state = self.lock();
            state.sessions.remove(key);
            state.drop_if_unused(key);
        }
        for entry in entries {
            self.notifier.send(*entry, Hint::Changed);
            self.notifier.alarm(*entry);
        }
    }

    pub(super) fn alarms(&self) -> Alarms {
        self.notifier.alarms()
    }

    /// Begins to use a new stream. It gets the watches of the stream before; their keys are returned for the [catch-up](Self::caught_up). A
    /// waiter for which an entry has left already looks again (PR14).
    pub(super) fn on_stream_opened(&self) -> (UnboundedReceiver<Command>, Vec<Vec<u8>>) {
        let (sender, commands) = unbounded();
        let mut state = self.lock();
        state.commands = Some(sender);
        state.last_id = EVICTIONS;
        state.sessions.retain(|_, session| session.strong_count() > 0);
        let sessions: Vec<_> = state.sessions.iter().map(|(key, one)| (key.clone(), one.upgrade())).collect();
        for (key, _) in &sessions {
            state.watch(key);
        }
        let (keys, others) = state.rewatch_all();
        drop(state);
        // The stream does not report what happened to the sessions before.
        sessions.into_iter().filter_map(|(_, session)| session).for_each(|session| session.mark_doubtful());
        for entry in others {
            self.notifier.send(entry, Hint::Changed);
        }
        (commands, keys)
    }

    /// Waits until each of these keys is watched, or cannot be.
    pub(super) async fn until_watched(&self, keys: &[Vec<u8>]) {
        // The last key first: watches are created in the order in which they were requested.
        for key in keys.iter().rev() {
            loop {
                let created = self.created.notified();
                if self.lock().watches.get(key).is_none_or(|watch| watch.since.is_some()) {
                    break;
                }
                created.await;
            }
        }
    }

    /// Notifies waiters of what happened to their watched entries before this stream.
    pub(super) fn caught_up(&self, presence: &Presence) {
        let mut told = Vec::new();
        let mut state = self.lock();
        let HubState { waiters, watches, .. } = &mut *state;
        // A key that was not watched before the look may have changed in between.
        let known = |key: &Vec<u8>| {
            let since = watches.get(key).and_then(|watch| watch.since);
            presence.get(key).zip(since).is_some_and(|((revision, _), since)| since <= *revision)
        };
        for (entry, wait_state) in waiters.iter_mut().filter(|(_, wait_state)| wait_state.is_catching_up()) {
            if wait_state.keys().iter().all(known) {
                told.extend(wait_state.finish_catch_up(presence).into_iter().map(|hint| (*entry, hint)));
            } else {
                wait_state.require_look();
                told.push((*entry, Hint::Changed));
            }
        }
        drop(state);
        for (entry, hint) in told {
            self.notifier.send(entry, hint);
        }
    }

    /// Handles the end of the stream.
    pub(super) fn on_stream_closed(&self) {
        let wakeups = self.lock().on_stream_closed();
        wakeups.wake();
    }

    pub(super) fn ask_for_progress(&self) {
        self.lock().send(Command::Progress);
    }

    /// Handles a message of the stream. Returns the waiters that have to [look](Self::tell_to_look) a moment later.
    pub(super) fn on_response(&self, response: &WatchResponse) -> Vec<EntryId> {
        let id = response.watch_id();
        if id == EVICTIONS {
            self.on_evictions(response);
            return Vec::new();
        }
        let revision = response.header().map_or(0, ResponseHeader::revision);
        let mut look_later = Vec::new();
        if response.canceled() {
            look_later = self.on_event(id, WatchEvent::Canceled);
        } else if response.created() {
            look_later = self.on_event(id, WatchEvent::Created(revision));
        }
        // Puts are filtered out by the server.
        for kv in response.events().iter().filter_map(Event::kv) {
            look_later.extend(self.on_event(id, WatchEvent::Deleted(kv.mod_revision())));
        }
        look_later
    }

    /// Tells a waiter to look whose look was delayed, unless it has looked in the meantime.
    pub(super) fn tell_to_look(&self, entry: EntryId) {
        let has_looked = self.lock().waiters.get(&entry).is_none_or(WaitState::is_unchanged);
        if !has_looked {
            self.notifier.send(entry, Hint::Changed);
        }
    }

    fn on_event(&self, id: i64, event: WatchEvent) -> Vec<EntryId> {
        let (mut departure, mut wakeups) = (Departure::default(), Wakeups::default());
        let mut of_session = None;
        let mut state = self.lock();
        match event {
            WatchEvent::Canceled => (departure.told, wakeups) = state.on_canceled(id),
            WatchEvent::Created(revision) => wakeups = state.on_created(id, revision),
            WatchEvent::Deleted(revision) => {
                if let Some(key) = state.keys.get(&id).cloned() {
                    of_session = state.sessions.get(&key).and_then(Weak::upgrade).map(|one| (one, revision));
                    departure = state.on_deleted(&key, revision);
                }
            }
        }
        drop(state);
        // Outside the lock: a woken task may call this hub again.
        wakeups.wake();
        if matches!(event, WatchEvent::Canceled | WatchEvent::Created(_)) {
            self.created.notify_waiters();
        }
        // The waiter that may be admitted comes first: the hand-off waits for the read that it sends.
        let Departure { mut told, look_later } = departure;
        told.sort_by_key(|(_, hint)| *hint == Hint::Changed);
        for (entry, hint) in told {
            self.notifier.send(entry, hint);
        }
        if let Some((session, revision)) = of_session {
            // At once: asking for the lease takes a round trip, in which the next entry may already be admitted.
            if session.ends_with_its_key(revision) {
                session.end();
            } else {
                session.mark_doubtful();
            }
        }
        look_later
    }

    fn on_evictions(&self, response: &WatchResponse) {
        let puts = response.events().iter().filter(|event| event.event_type() == EventType::Put);
        let evicted = puts.filter_map(|event| event.kv()?.value_str().ok()?.parse().ok());
        evicted.for_each(|entry| self.notifier.alarm(entry));
    }

    /// A subscription of a waiter has ended.
    pub(super) fn release(&self, entry: EntryId) {
        let mut state = self.lock();
        let Some(wait_state) = state.waiters.get_mut(&entry) else { return };
        wait_state.listeners -= 1;
        if wait_state.listeners == 0 {
            let keys = wait_state.keys();
            state.waiters.remove(&entry);
            for key in keys {
                state.unwatch_for(entry, &key);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HubState> {
        self.state.lock()
    }
}

impl SessionObserver for WatchHub {
    fn opened(&self, session: &Arc<Session>) {
        self.watch_session(session);
    }

    fn ended(&self, session: &Session, entries: &[EntryId]) {
        self.session_ended(session, entries);
    }
}

impl fmt::Debug for WatchHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("WatchHub")
            .field("live", &state.commands.is_some())
            .field("watches", &state.watches.len())
            .field("waiters", &state.waiters.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
