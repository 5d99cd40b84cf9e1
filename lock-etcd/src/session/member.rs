//! [`Member`]: an entry of ours under its lease.

use std::{fmt, sync::Arc};

use lock_core::{
    BootTime, Entry, EntryId,
    session_pool::PooledMember,
    sync::{Mutex, MutexGuard},
};

use super::{session::Session, tombstones::Tombstone};
use crate::keys::{self, Keys};

/// An entry of ours, from before its first request until it is known to be gone.
pub(crate) struct Member {
    pub(crate) entry: Arc<Entry>,
    /// Its key, which names its lease. Nobody else has it until this one is known to be gone.
    pub(crate) key: Vec<u8>,
    /// The number at the end of it, and where that begins.
    number: (usize, u32),
    /// Once it is set, nothing creates the entry any more. `None` where its lease is its own.
    pub(super) tombstone: Option<Tombstone>,
    pub(crate) keys: Keys,
    pub(crate) session: Arc<Session>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When its lease would have ended, if it had one of its own (PR09).
    expires: BootTime,
    /// A leave has begun for it, or is done. It does not come back.
    ended: bool,
    /// Creates that were sent and not answered: each may still arrive.
    unanswered_creates: u32,
    /// Requests that delete its key and were not answered: each may still arrive, and does not ask whose the key is.
    unanswered_deletes: u32,
    /// Its key may be another member's.
    key_released: bool,
    /// How many stood ahead when it came. They only become fewer.
    ahead: Option<u64>,
    /// Its create revision, once known.
    token: i64,
    /// How many were ahead when it looked last, as far as it saw, and the label of the first.
    seen: (u64, Option<String>),
}

impl State {
    fn set_position(&mut self, token: i64, ahead: Option<u64>) {
        self.token = token;
        self.ahead = ahead.or(self.ahead);
    }
}

impl Member {
    /// Takes a key and a tombstone, which no other member of the session has.
    pub(crate) fn new(entry: &Entry, keys: Keys, session: &Arc<Session>, now: BootTime) -> Self {
        let mut key = keys.entry_prefix(entry.claim, session.lease()).into_bytes();
        let (number, tombstone) = session.take_key(&key);
        let begins = key.len();
        key.extend_from_slice(number.to_string().as_bytes());
        let number = (begins, number);
        let state = State {
            expires: now + session.granted(),
            ended: false,
            unanswered_creates: 0,
            unanswered_deletes: 0,
            key_released: false,
            ahead: None,
            token: 0,
            seen: (0, None),
        };
        Self {
            entry: Arc::new(entry.clone()),
            key,
            number,
            tombstone,
            keys,
            session: Arc::clone(session),
            state: Mutex::new(state),
        }
    }

    /// The prefix of its key, and the number behind it.
    fn key_number(&self) -> (&[u8], u32) {
        let (begins, number) = self.number;
        (&self.key[..begins], number)
    }

    /// The key of its tombstone, and the mod revision that this had when the member came: all its creates compare it, however
    /// often they are sent, and whenever they arrive (PR08).
    pub(crate) fn tombstone_key(&self) -> Option<(Vec<u8>, i64)> {
        let (tombstone, session) = (self.tombstone?, self.session.key()?);
        Some((keys::tombstone(session, tombstone.number), tombstone.set_at))
    }

    /// Its tombstone was set, in this revision.
    pub(super) fn mark_tombstone_set(&self, revision: i64) {
        if let Some(tombstone) = self.tombstone {
            self.session.mark_tombstone_set(tombstone, revision);
        }
    }

    /// Whether it may still be in the store, as far as the clock tells.
    pub(crate) fn is_alive(&self, now: BootTime) -> bool {
        // Asked first: a session that lets a member go is locked before the member.
        let kept = self.session.is_alive(now);
        let state = self.lock();
        kept && !state.ended && now < state.expires
    }

    /// Takes note of an answer to a request that was sent at `sent`, and refreshed it: false if a leave has begun meanwhile,
    /// which the answer knows nothing of.
    pub(crate) fn refresh(&self, sent: BootTime) -> bool {
        let until = sent.max(self.session.proved()) + self.session.granted();
        let mut state = self.lock();
        state.expires = state.expires.max(until);
        !state.ended
    }

    /// A create is being sent. It stays in doubt until its answer is taken note of. False if a leave has begun: then nothing may be
    /// created any more. A later leave knows of this create.
    pub(crate) fn begin_create(&self) -> bool {
        let mut state = self.lock();
        state.unanswered_creates += u32::from(!state.ended);
        !state.ended
    }

    /// A create was answered: with this create revision, behind so many, or with no place.
    pub(crate) fn create_answered(&self, place: Option<(i64, Option<u64>)>) {
        let mut state = self.lock();
        state.unanswered_creates -= 1;
        if let Some((token, ahead)) = place {
            state.set_position(token, ahead);
        }
    }

    /// Its key is going to be deleted, and its tombstone set perhaps. If that is not taken note of as answered, whether it was or not, it
    /// stays in doubt.
    /// False if it is known to be gone and has released its key: then nothing must be deleted any more.
    pub(super) fn begin_delete(&self) -> bool {
        let mut state = self.lock();
        state.unanswered_deletes += u32::from(!state.key_released);
        !state.key_released
    }

    /// A delete of its key was answered. True if another one may still arrive.
    pub(super) fn delete_answered(&self) -> bool {
        let mut state = self.lock();
        state.unanswered_deletes -= 1;
        state.unanswered_deletes > 0
    }

    /// Lets another member have its key and its tombstone, if no delete of it can arrive any more. From then on none is sent.
    fn release_key(&self) -> bool {
        let mut state = self.lock();
        state.key_released = state.unanswered_deletes == 0;
        state.key_released
    }

    /// Takes note that it stands in the queue: with this create revision, behind so many.
    pub(crate) fn set_position(&self, token: i64, ahead: Option<u64>) -> Option<u64> {
        let mut state = self.lock();
        state.set_position(token, ahead);
        state.ahead
    }

    /// Takes note of how many are ahead, as far as it sees, and of the label of the first.
    pub(crate) fn set_seen(&self, ahead: u64, holder: Option<String>) {
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
    pub(super) fn certain_revision(&self) -> Option<i64> {
        let state = self.lock();
        (state.unanswered_creates == 0).then_some(state.token)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl PooledMember for Member {
    type Session = Session;

    fn id(&self) -> EntryId {
        self.entry.id
    }

    fn session(&self) -> &Arc<Session> {
        &self.session
    }

    fn is_overdue(&self, now: BootTime) -> bool {
        now >= self.lock().expires
    }

    fn give_back(&self) -> bool {
        let released = self.release_key();
        if released {
            let (prefix, number) = self.key_number();
            self.session.give_back_key(prefix, number, self.tombstone);
        }
        released
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

    use lock_core::{Claim, LockName};

    use super::*;

    const START: BootTime = BootTime::new(Duration::from_secs(1_000));

    const fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    /// Under a lease of 12 s.
    fn member() -> (Arc<Session>, Member) {
        let session = Arc::new(Session::new(1, s(12), START, Some((b"s".to_vec(), 7))));
        let name = LockName::new("job").unwrap();
        let entry = Entry::new(name, EntryId::new(1), Claim::mutex(), s(10));
        let member = Member::new(&entry, Keys::new("", &entry.name), &session, START);
        (session, member)
    }

    /// PR08, PR09: the keeper left for one whose runtime had stalled, and it goes on as if nothing had happened.
    #[test]
    fn a_member_that_was_left_for_creates_nothing_and_does_not_come_back() {
        let (_session, member) = member();
        assert!(member.begin_create());
        member.create_answered(Some((5, Some(0))));
        assert!(!member.end(START + s(1)), "it was alive up to now");
        assert!(!member.begin_create());
        assert!(!member.refresh(START + s(1)), "an answer that came late");
        assert!(!member.is_alive(START + s(1)));
        assert_eq!((member.token(), member.certain_revision()), (None, Some(5)));
    }

    /// PR08.
    #[test]
    fn its_place_is_certain_only_when_every_create_was_answered() {
        let (_session, member) = member();
        assert_eq!(member.certain_revision(), Some(0));
        assert!(member.begin_create() && member.begin_create());
        member.create_answered(None);
        assert_eq!(member.certain_revision(), None);
        member.create_answered(Some((5, None)));
        assert_eq!(member.certain_revision(), Some(5));
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
        assert_eq!(member.set_position(5, Some(3)), Some(3));
        assert_eq!(member.set_position(5, None), Some(3));
        assert_eq!(member.set_position(5, Some(1)), Some(1));
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
