//! [`Board`]: who waits for which event.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use etcd_client::{Event, EventType, ResponseHeader, WatchResponse};
use futures_channel::mpsc::{UnboundedReceiver, unbounded};
use lock_core::{Alarms, BootTime, EntryId, Hint, Keeper, Switchboard};
use tokio::sync::Notify;

use super::{
    Attending,
    catch_up::{CatchUp, Stood},
    state::{Command, State, Woken},
    vigil::{Room, Sight, Vigil},
};
use crate::{connection::by, session::Session};

/// The watch on evictions. The others have larger numbers.
pub(super) const EVICTIONS: i64 = 1;

/// What is told of a watch.
#[derive(Clone, Copy, Debug)]
enum News {
    /// It is there, and tells what comes after this revision.
    Created(i64),
    /// Its key was deleted, in this revision.
    Deleted(i64),
    /// The server has ended it.
    Canceled,
}

/// The watches of this process, and whom their events concern.
#[derive(Default)]
pub(crate) struct Board {
    state: Mutex<State>,
    hints: Switchboard,
    /// Told of each watch that is there, or that the server has ended.
    created: Notify,
}

impl Board {
    /// Attends to those whom a waiter has seen ahead, and to its own entry. The hints begin at once; they say only what is
    /// certain once the sight is [good](Self::arm).
    pub(crate) fn attend(self: &Arc<Self>, entry: EntryId, sight: Sight) -> Attending {
        let hints = self.hints.listen(entry);
        self.see(entry, sight);
        if let Some(vigil) = self.lock().vigils.get_mut(&entry) {
            vigil.listeners += 1;
        }
        Attending::new(hints, entry, self)
    }

    /// Attends to those whom another look showed.
    pub(crate) fn see(&self, entry: EntryId, sight: Sight) {
        let mut state = self.lock();
        let mut before = BTreeSet::new();
        if let Some(vigil) = state.vigils.get_mut(&entry) {
            before = vigil.keys();
            vigil.look(sight);
        } else {
            state.vigils.insert(entry, Vigil::new(sight));
        }
        let after = state.vigils.get(&entry).map(Vigil::keys).unwrap_or_default();
        for key in before.difference(&after) {
            state.unsubscribe(entry, key);
        }
        for key in after {
            state.subscribe(entry, &key);
        }
    }

    /// Waits until everything that the waiter saw is watched. Up to which revision its look has to reach so that nothing
    /// was missed, or `None` if there is no watching now.
    pub(crate) async fn watched(&self, entry: EntryId, keeper: &Keeper, until: BootTime) -> Option<i64> {
        // A watch that is not there. The last one, for they come in their order: then all are, mostly.
        let mut missing: Option<Vec<u8>> = None;
        loop {
            let notify = {
                let state = self.lock();
                let vigil = state.vigils.get(&entry)?;
                if vigil.broken || state.commands.is_none() {
                    return None;
                }
                let awaits =
                    |key: &Vec<u8>| state.watches.get(key).is_some_and(|watch| watch.since.is_none());
                if missing.as_ref().is_none_or(|key| !awaits(key)) {
                    let since = |key| state.watches.get(key).and_then(|watch| watch.since);
                    let keys = vigil.keys();
                    match keys.iter().rev().find(|key| since(*key).is_none()) {
                        Some(key) => missing = Some(key.clone()),
                        None => return keys.iter().filter_map(since).max(),
                    }
                }
                Arc::clone(&vigil.notify)
            };
            // A permit that was given in between is kept.
            by(keeper, until, notify.notified()).await?;
        }
    }

    /// The sight is good: all its watches were there before.
    pub(crate) fn arm(&self, entry: EntryId) {
        let hints = self.lock().vigils.get_mut(&entry).map(Vigil::arm).unwrap_or_default();
        for hint in hints {
            self.hints.send(entry, hint);
        }
    }

    /// What has to be true for a waiter to be admitted that was told that those ahead leave room. `None` if it is not: its own entry
    /// has gone.
    pub(super) fn room(&self, entry: EntryId) -> Option<Room> {
        self.lock().vigils.get(&entry)?.room()
    }

    /// Attends on to those whom a waiter attends to, and who are named here. `None` if that would not do: somebody has left, or not
    /// everything is watched though it could be.
    pub(crate) fn attend_on(self: &Arc<Self>, entry: EntryId) -> Option<(Attending, Vec<Vec<u8>>)> {
        let hints = self.hints.listen(entry);
        let mut state = self.lock();
        let none_is_watched = state.commands.is_none();
        let vigil = state.vigils.get_mut(&entry).filter(|vigil| vigil.is_as_seen())?;
        if !(vigil.is_watched() || vigil.is_resuming() || none_is_watched) {
            return None;
        }
        vigil.listeners += 1;
        let keys = vigil.sight.watched();
        drop(state);
        Some((Attending::new(hints, entry, self), keys))
    }

    /// Attends to a session: if its key is deleted, its lease was revoked, and it is over.
    pub(crate) fn watch_session(&self, session: &Arc<Session>) {
        let Some(key) = session.key() else { return };
        let mut state = self.lock();
        state.sessions.insert(key.to_vec(), Arc::downgrade(session));
        state.watch(key);
    }

    /// A session is over, and with it all that it kept alive.
    pub(crate) fn session_ended(&self, session: &Session) {
        if let Some(key) = session.key() {
            let mut state = self.lock();
            state.sessions.remove(key);
            state.drop_if_unused(key);
        }
        for entry in session.end() {
            self.hints.send(entry, Hint::Changed);
            self.hints.alarm(entry);
        }
    }

    pub(super) fn alarms(&self) -> Alarms {
        self.hints.alarms()
    }

    /// There is a stream: what was watched before is watched on it. What happened in between is to be caught up with; whoever did not
    /// know what to watch for looks again (PR14).
    pub(super) fn opened(&self) -> (UnboundedReceiver<Command>, CatchUp) {
        let (sender, commands) = unbounded();
        let mut state = self.lock();
        state.commands = Some(sender);
        state.last_id = EVICTIONS;
        state.sessions.retain(|_, session| session.strong_count() > 0);
        let sessions: Vec<_> = state.sessions.iter().map(|(key, one)| (key.clone(), one.upgrade())).collect();
        for (key, _) in &sessions {
            state.watch(key);
        }
        let (keys, others) = state.resume();
        drop(state);
        // What happened to them before is not told.
        sessions.into_iter().filter_map(|(_, session)| session).for_each(|session| session.doubt());
        for entry in others {
            self.hints.send(entry, Hint::Changed);
        }
        (commands, CatchUp::new(keys))
    }

    /// Waits until all of these are watched, or cannot be.
    pub(super) async fn all_watched(&self, keys: &[Vec<u8>]) {
        // The last ones first: watches come in the order in which they were asked for.
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

    /// Tells waiters what became of those whom they attended to before there was this stream.
    pub(super) fn caught_up(&self, stood: &Stood) {
        let mut told = Vec::new();
        let mut state = self.lock();
        let State { vigils, watches, .. } = &mut *state;
        // Watched before the look, or what happened in between is not known.
        let known = |key: &Vec<u8>| {
            let since = watches.get(key).and_then(|watch| watch.since);
            stood.get(key).zip(since).is_some_and(|((revision, _), since)| since <= *revision)
        };
        for (entry, vigil) in vigils.iter_mut().filter(|(_, vigil)| vigil.is_resuming()) {
            if vigil.keys().iter().all(known) {
                told.extend(vigil.resumed(stood).into_iter().map(|hint| (*entry, hint)));
            } else {
                vigil.give_up();
                told.push((*entry, Hint::Changed));
            }
        }
        drop(state);
        for (entry, hint) in told {
            self.hints.send(entry, hint);
        }
    }

    /// There is no stream any more.
    pub(super) fn closed(&self) {
        let woken = self.lock().closed();
        woken.wake();
    }

    pub(super) fn ask_for_progress(&self) {
        self.lock().send(Command::Progress);
    }

    /// Takes in what came.
    pub(super) fn hear(&self, response: &WatchResponse) {
        let id = response.watch_id();
        if id == EVICTIONS {
            return self.hear_of_evictions(response);
        }
        let revision = response.header().map_or(0, ResponseHeader::revision);
        if response.canceled() {
            self.take_in(id, News::Canceled);
        } else if response.created() {
            self.take_in(id, News::Created(revision));
        }
        // Puts are filtered out by the server.
        for kv in response.events().iter().filter_map(Event::kv) {
            self.take_in(id, News::Deleted(kv.mod_revision()));
        }
    }

    fn take_in(&self, id: i64, news: News) {
        let (mut told, mut woken) = (Vec::new(), Woken::default());
        let mut of_session = None;
        let mut state = self.lock();
        match news {
            News::Canceled => (told, woken) = state.canceled(id),
            News::Created(revision) => woken = state.created(id, revision),
            News::Deleted(revision) => {
                if let Some(key) = state.keys.get(&id).cloned() {
                    of_session = state.sessions.get(&key).and_then(Weak::upgrade).map(|one| (one, revision));
                    told = state.deleted(&key, revision);
                }
            }
        }
        drop(state);
        // Nothing is locked: what is woken may come back.
        woken.wake();
        if matches!(news, News::Canceled | News::Created(_)) {
            self.created.notify_waiters();
        }
        for (entry, hint) in told {
            self.hints.send(entry, hint);
        }
        if let Some((session, revision)) = of_session {
            // At once: whoever asks for the lease has to wait for an answer, and the next one is admitted meanwhile.
            if session.ends_with_its_key(revision) {
                self.session_ended(&session);
            }
            // Then whoever keeps it finds it over.
            session.doubt();
        }
    }

    fn hear_of_evictions(&self, response: &WatchResponse) {
        let puts = response.events().iter().filter(|event| event.event_type() == EventType::Put);
        let evicted = puts.filter_map(|event| event.kv()?.value_str().ok()?.parse().ok());
        evicted.for_each(|entry| self.hints.alarm(entry));
    }

    /// Somebody who attended for a waiter does not any more.
    pub(super) fn release(&self, entry: EntryId) {
        let mut state = self.lock();
        let Some(vigil) = state.vigils.get_mut(&entry) else { return };
        vigil.listeners -= 1;
        if vigil.listeners == 0 {
            let keys = vigil.keys();
            state.vigils.remove(&entry);
            for key in keys {
                state.unsubscribe(entry, &key);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the state is held, and each change to it is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Board")
            .field("live", &state.commands.is_some())
            .field("watches", &state.watches.len())
            .field("vigils", &state.vigils.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
