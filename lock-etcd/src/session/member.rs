//! [`Member`]: an entry of ours under its lease.

use std::{fmt, sync::Arc};

use lock_core::{
    BootTime, Entry, EntryId,
    session_pool::PooledMember,
    sync::{Mutex, MutexGuard},
};

use super::{session::Session, tombstones::Tombstone};
use crate::keys::{self, Keys};

/// An entry of this process, from before its first request until it is known to be gone.
pub(crate) struct Member {
    pub(crate) entry: Arc<Entry>,
    /// The key of the entry, which contains its lease. No other member has this key until the entry is known to be gone.
    pub(crate) key: Vec<u8>,
    /// Where the number at the end of the key begins, and the number.
    number: (usize, u32),
    /// Once the tombstone is set, no create of the entry has an effect. `None` for an entry with its own lease.
    pub(super) tombstone: Option<Tombstone>,
    pub(crate) keys: Keys,
    pub(crate) session: Arc<Session>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When the entry's lease would end if it had one of its own (PR09).
    expires: BootTime,
    /// Whether a leave of the entry has begun or is done. The entry does not come back.
    ended: bool,
    /// The number of creates that were sent and not answered. Each may still arrive.
    unanswered_creates: u32,
    /// The number of requests that delete the key and were not answered. Each may still arrive, and does not check whose key it is.
    unanswered_deletes: u32,
    /// Whether another member may have the key.
    key_released: bool,
    /// The number of entries ahead when the entry was created, which can only decrease.
    ahead: Option<u64>,
    /// The create revision; 0 until it is known.
    token: i64,
    /// The number of entries ahead at the last look, as far as it showed them, and the label of the first.
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

    /// The key without its number, and the number.
    fn key_number(&self) -> (&[u8], u32) {
        let (begins, number) = self.number;
        (&self.key[..begins], number)
    }

    /// The key of the tombstone, and the mod revision that it had when the member took it. All creates of the entry compare that revision,
    /// however often they are sent, and whenever they arrive (PR08).
    pub(crate) fn tombstone_key(&self) -> Option<(Vec<u8>, i64)> {
        let (tombstone, session) = (self.tombstone?, self.session.key()?);
        Some((keys::tombstone(session, tombstone.number), tombstone.set_at))
    }

    /// Records that the tombstone was set in this revision.
    pub(super) fn mark_tombstone_set(&self, revision: i64) {
        if let Some(tombstone) = self.tombstone {
            self.session.mark_tombstone_set(tombstone, revision);
        }
    }

    /// Whether the entry may still be in the store, by the clock.
    pub(crate) fn is_alive(&self, now: BootTime) -> bool {
        // Before the member is locked: locks are taken in the order session, member.
        let kept = self.session.is_alive(now);
        let state = self.lock();
        kept && !state.ended && now < state.expires
    }

    /// Records the answer to a request that was sent at `sent` and refreshed the entry. Returns false if a leave has begun in the
    /// meantime, which the answer does not take into account.
    pub(crate) fn refresh(&self, sent: BootTime) -> bool {
        let until = sent.max(self.session.proved()) + self.session.granted();
        let mut state = self.lock();
        state.expires = state.expires.max(until);
        !state.ended
    }

    /// Records that a create is about to be sent. It stays in doubt until its answer is recorded, and a later leave takes it into
    /// account. Returns false if a leave has begun: then the create must not be sent.
    pub(crate) fn begin_create(&self) -> bool {
        let mut state = self.lock();
        state.unanswered_creates += u32::from(!state.ended);
        !state.ended
    }

    /// Records that a create was answered: with a place, which is a create revision and the number of entries ahead, or without one.
    pub(crate) fn create_answered(&self, place: Option<(i64, Option<u64>)>) {
        let mut state = self.lock();
        state.unanswered_creates -= 1;
        if let Some((token, ahead)) = place {
            state.set_position(token, ahead);
        }
    }

    /// Records that a delete of the key is about to be sent, possibly with the tombstone. It stays in doubt until
    /// [`delete_answered`](Self::delete_answered). Returns false if the entry is known to be gone and its key is released: then the
    /// delete must not be sent.
    pub(super) fn begin_delete(&self) -> bool {
        let mut state = self.lock();
        state.unanswered_deletes += u32::from(!state.key_released);
        !state.key_released
    }

    /// Records that a delete of the key was answered. Returns whether another one may still arrive.
    pub(super) fn delete_answered(&self) -> bool {
        let mut state = self.lock();
        state.unanswered_deletes -= 1;
        state.unanswered_deletes > 0
    }

    /// Releases the key and the tombstone for other members, if no delete of the key can arrive any more. From then on none is sent.
    fn release_key(&self) -> bool {
        let mut state = self.lock();
        state.key_released = state.unanswered_deletes == 0;
        state.key_released
    }

    /// Records that the entry is in the queue, with this create revision and this number of entries ahead.
    pub(crate) fn set_position(&self, token: i64, ahead: Option<u64>) -> Option<u64> {
        let mut state = self.lock();
        state.set_position(token, ahead);
        state.ahead
    }

    /// Records the number of entries ahead, as far as the look showed them, and the label of the first.
    pub(crate) fn set_seen(&self, ahead: u64, holder: Option<String>) {
        self.lock().seen = (ahead, holder);
    }

    /// What the last look showed.
    pub(crate) fn seen(&self) -> (u64, Option<String>) {
        self.lock().seen.clone()
    }

    /// The create revision, if the entry is known to be in the queue.
    pub(crate) fn token(&self) -> Option<i64> {
        let state = self.lock();
        (state.token != 0 && !state.ended).then_some(state.token)
    }

    /// Ends the member. Returns whether its time was over before.
    pub(super) fn end(&self, now: BootTime) -> bool {
        let alive = self.session.is_alive(now);
        let mut state = self.lock();
        state.ended = true;
        now >= state.expires || !alive
    }

    /// The place of the entry, or 0 if it got none, once every create was answered. `None` if a create may still arrive.
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

    /// A member under a lease of 12 s.
    fn member() -> (Arc<Session>, Member) {
        let session = Arc::new(Session::new(1, s(12), START, Some((b"s".to_vec(), 7))));
        let name = LockName::new("job").unwrap();
        let entry = Entry::new(name, EntryId::new(1), Claim::mutex(), s(10));
        let member = Member::new(&entry, Keys::new("", &entry.name), &session, START);
        (session, member)
    }

    /// PR08, PR09: the keeper left for a member whose runtime had stalled, and then the runtime goes on as if nothing had happened.
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
