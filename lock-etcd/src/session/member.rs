//! [`Member`]: an entry of ours under its lease.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lock_core::{BootTime, Entry};

use super::{Session, doors::Door};
use crate::keys::{self, Keys};

/// An entry of ours, from before its first request to after it is known to be gone.
pub(crate) struct Member {
    pub(crate) entry: Arc<Entry>,
    /// Its key, which names its lease. Nobody else has it until this one is known to be gone.
    pub(crate) key: Vec<u8>,
    /// The number at the end of it, and where that begins.
    slot: (usize, u32),
    /// By which nothing of it comes any more once it is shut. `None` where its lease is its own.
    pub(super) door: Option<Door>,
    pub(crate) keys: Keys,
    pub(crate) session: Arc<Session>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When its lease would have ended, if it had one of its own (PR09).
    expires: BootTime,
    /// Somebody is leaving for it, or did. It does not come back.
    ended: bool,
    /// Creates that were sent and not answered: each may still arrive.
    unanswered: u32,
    /// Requests that delete its key and were not answered: each may still arrive, and does not ask whose the key is.
    undeleted: u32,
    /// Its key may be somebody else's.
    yielded: bool,
    /// How many stood ahead when it came. They only become fewer.
    ahead: Option<u64>,
    /// Its create revision, once known.
    token: i64,
    /// How many were ahead when it looked last, as far as it saw, and the label of the first.
    seen: (u64, Option<String>),
}

impl State {
    fn stands(&mut self, token: i64, ahead: Option<u64>) {
        self.token = token;
        self.ahead = ahead.or(self.ahead);
    }
}

impl Member {
    /// Under a key that is one of the slots at `place`.
    pub(super) fn new(
        entry: &Entry,
        (place, slot): (Vec<u8>, u32),
        door: Option<Door>,
        keys: Keys,
        session: Arc<Session>,
        now: BootTime,
    ) -> Self {
        let begins = place.len();
        let mut key = place;
        key.extend_from_slice(slot.to_string().as_bytes());
        let slot = (begins, slot);
        let state = State {
            expires: now + session.granted(),
            ended: false,
            unanswered: 0,
            undeleted: 0,
            yielded: false,
            ahead: None,
            token: 0,
            seen: (0, None),
        };
        Self { entry: Arc::new(entry.clone()), key, slot, door, keys, session, state: Mutex::new(state) }
    }

    /// Where its slot is, and which one.
    pub(super) fn slot(&self) -> (&[u8], u32) {
        let (begins, slot) = self.slot;
        (&self.key[..begins], slot)
    }

    /// The key of its door, and the mod revision that this had when the member came: all its creates compare it, however often they are
    /// sent, and whenever they arrive (PR08).
    pub(crate) fn door_key(&self) -> Option<(Vec<u8>, i64)> {
        let (door, session) = (self.door?, self.session.key()?);
        Some((keys::door(session, door.number), door.shut))
    }

    /// Its door was shut, in this revision.
    pub(super) fn was_shut(&self, revision: i64) {
        if let Some(door) = self.door {
            self.session.was_shut(door, revision);
        }
    }

    /// Whether it may still be in the store, as far as the clock tells.
    pub(crate) fn is_alive(&self, now: BootTime) -> bool {
        // Asked first: a session that lets a member go is locked before the member.
        let kept = self.session.is_alive(now);
        let state = self.lock();
        kept && !state.ended && now < state.expires
    }

    /// Takes note of an answer to a request that was sent at `sent`, and refreshed it: false if somebody has left for it
    /// meanwhile, which the answer knows nothing of.
    pub(crate) fn refresh(&self, sent: BootTime) -> bool {
        let until = sent.max(self.session.proved()) + self.session.granted();
        let mut state = self.lock();
        state.expires = state.expires.max(until);
        !state.ended
    }

    /// A create is being sent. If its answer is not taken note of, whether it came or not, it stays in doubt. False if
    /// somebody has left for it: then nothing may be created any more. Whoever leaves later knows of this one.
    pub(crate) fn creates(&self) -> bool {
        let mut state = self.lock();
        state.unanswered += u32::from(!state.ended);
        !state.ended
    }

    /// A create was answered: with this create revision, behind so many, or with no place.
    pub(crate) fn created(&self, place: Option<(i64, Option<u64>)>) {
        let mut state = self.lock();
        state.unanswered -= 1;
        if let Some((token, ahead)) = place {
            state.stands(token, ahead);
        }
    }

    /// Its key is going to be deleted, and its door shut perhaps. If that is not taken note of as answered, whether it was or not, it
    /// stays in doubt.
    /// False if it is known to be gone and has yielded its key: then nothing must be deleted any more.
    pub(super) fn deletes(&self) -> bool {
        let mut state = self.lock();
        state.undeleted += u32::from(!state.yielded);
        !state.yielded
    }

    /// What was going to delete its key can do so no more. Whether something else can, or could before.
    pub(super) fn deleted(&self) -> bool {
        let mut state = self.lock();
        state.undeleted -= 1;
        state.undeleted > 0
    }

    /// Lets somebody else have its key and its door, if no delete of it can arrive any more. From then on none is sent.
    pub(super) fn yields_its_key(&self) -> bool {
        let mut state = self.lock();
        state.yielded = state.undeleted == 0;
        state.yielded
    }

    /// Takes note that it stands in the queue: with this create revision, behind so many.
    pub(crate) fn stands(&self, token: i64, ahead: Option<u64>) -> Option<u64> {
        let mut state = self.lock();
        state.stands(token, ahead);
        state.ahead
    }

    /// Takes note of how many are ahead, as far as it sees, and of the label of the first.
    pub(crate) fn sees(&self, ahead: u64, holder: Option<String>) {
        self.lock().seen = (ahead, holder);
    }

    /// What it saw last.
    pub(crate) fn seen(&self) -> (u64, Option<String>) {
        self.lock().seen.clone()
    }

    /// Its create revision, if it is known to stand in the queue.
    pub(crate) fn token(&self) -> Option<i64> {
        let state = self.lock();
        (state.token != 0 && !state.ended).then_some(state.token)
    }

    /// Ends it. True if it was over before.
    pub(super) fn end(&self, now: BootTime) -> bool {
        let alive = self.session.is_alive(now);
        let mut state = self.lock();
        state.ended = true;
        now >= state.expires || !alive
    }

    /// Its place, or 0 if it was given none, where every create was answered. `None` if one may still arrive.
    pub(super) fn certain_place(&self) -> Option<i64> {
        let state = self.lock();
        (state.unanswered == 0).then_some(state.token)
    }

    /// Whether its time is over and somebody has to leave for it.
    pub(super) fn is_overdue(&self, now: BootTime) -> bool {
        now >= self.lock().expires
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the state is held, and each change to it is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("entry", &self.entry.id)
            .field("lease", &self.session.lease())
            .field("state", &*self.lock())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::{Claim, EntryId, LockName};

    use super::*;

    const START: BootTime = BootTime::new(Duration::from_secs(1_000));

    const fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    /// Under a lease of 12 s.
    fn member() -> (Arc<Session>, Arc<Member>) {
        let session = Arc::new(Session::new(1, s(12), START, Some((b"s".to_vec(), 7))));
        let name = LockName::new("job").unwrap();
        let entry = Entry::new(name, EntryId::new(1), Claim::mutex(), s(10));
        let keys = Keys::new("", &entry.name);
        let member = session.admit(&entry, keys, START);
        (session, member)
    }

    /// PR08, PR09: the keeper left for one whose runtime had stalled, and it goes on as if nothing had happened.
    #[test]
    fn who_was_left_for_creates_nothing_any_more_and_does_not_come_back() {
        let (_session, member) = member();
        assert!(member.creates());
        member.created(Some((5, Some(0))));
        assert!(!member.end(START + s(1)), "it was alive up to now");
        assert!(!member.creates());
        assert!(!member.refresh(START + s(1)), "an answer that came late");
        assert!(!member.is_alive(START + s(1)));
        assert_eq!((member.token(), member.certain_place()), (None, Some(5)));
    }

    /// PR08.
    #[test]
    fn its_place_is_certain_only_when_every_create_was_answered() {
        let (_session, member) = member();
        assert_eq!(member.certain_place(), Some(0));
        assert!(member.creates() && member.creates());
        member.created(None);
        assert_eq!(member.certain_place(), None);
        member.created(Some((5, None)));
        assert_eq!(member.certain_place(), Some(5));
    }

    /// PR09.
    #[test]
    fn its_time_is_over_a_lease_after_it_was_refreshed_last() {
        let (_session, member) = member();
        assert!(!member.is_overdue(START + s(11)) && member.is_overdue(START + s(12)));
        assert!(member.refresh(START + s(3)));
        assert!(!member.is_overdue(START + s(14)) && member.is_overdue(START + s(15)));
        assert!(member.refresh(START + s(1)), "an older answer takes nothing away");
        assert!(!member.is_overdue(START + s(14)));
        assert!(member.end(START + s(15)), "it was over before");
    }

    #[test]
    fn those_ahead_are_remembered_where_a_look_does_not_count_them() {
        let (_session, member) = member();
        assert_eq!(member.stands(5, Some(3)), Some(3));
        assert_eq!(member.stands(5, None), Some(3));
        assert_eq!(member.stands(5, Some(1)), Some(1));
    }

    #[test]
    fn with_its_session_a_member_is_over() {
        let (session, member) = member();
        assert!(member.is_alive(START));
        session.end();
        assert!(!member.is_alive(START));
        assert!(member.end(START));
    }
}
