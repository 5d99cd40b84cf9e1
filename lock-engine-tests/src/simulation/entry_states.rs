//! [`EntryStates`]: where every entry of a run stands, as it follows from what the store has answered.

use std::time::Duration;

use lock_core::{Claim, Entry, EntryId, FencingToken, LockName, admission};
use tokio::time::Instant;

use super::coverage::State;

/// The entries that a run has had. Looking them up in the store instead would change the run, because the store admits waiters whenever it
/// is asked for a queue.
#[derive(Debug)]
pub(super) struct EntryStates {
    /// Whether leases end.
    expire: bool,
    /// In the order in which they were created, a row for each life.
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: LockName,
    id: EntryId,
    claim: Claim,
    client: usize,
    /// `None` if it left before it was created.
    token: Option<FencingToken>,
    /// `None` if its lease does not end.
    expires: Option<Instant>,
    /// How it ended, other than by the end of its lease.
    end: Option<State>,
}

impl Row {
    fn is_live(&self, now: Instant) -> bool {
        self.end.is_none() && self.expires.is_none_or(|expires| expires > now)
    }
}

impl EntryStates {
    /// No entries, whose leases end or last as long as the session.
    pub(super) fn new(expire: bool) -> Self {
        Self { expire, rows: Vec::new() }
    }

    /// Where an entry stands, as the life with this token sees it.
    pub(super) fn state(&self, id: EntryId, token: Option<FencingToken>, now: Instant) -> State {
        let Some(at) = self.rows.iter().rposition(|row| row.id == id) else { return State::Absent };
        let row = &self.rows[at];
        if let Some(end) = row.end {
            return end;
        }
        if !row.is_live(now) {
            return State::Expired;
        }
        if token.is_some() && token != row.token {
            return State::OtherLife;
        }
        let (mut ahead, mut waiters) = (0, 0);
        for other in self.rows[..at].iter().filter(|other| other.is_live(now) && other.name == row.name) {
            if !admission::fits(ahead, other.claim) {
                waiters += 1;
            }
            ahead += u64::from(other.claim.permits());
        }
        match waiters {
            _ if admission::fits(ahead, row.claim) => State::Held,
            0 => State::WaitingFirst,
            _ => State::WaitingBehind,
        }
    }

    /// Whose entry it is.
    pub(super) fn client(&self, id: EntryId) -> Option<usize> {
        self.last(id).map(|row| row.client)
    }

    /// The store answered that the entry is there.
    pub(super) fn entered(&mut self, client: usize, entry: &Entry, token: FencingToken, now: Instant) {
        let expires = self.lease_end(entry.ttl, now);
        match self.last_mut(entry.id) {
            Some(row) if row.token == Some(token) && row.is_live(now) => {
                row.expires = row.expires.max(expires);
            }
            _ => self.rows.push(Row {
                name: entry.name.clone(),
                id: entry.id,
                claim: entry.claim,
                client,
                token: Some(token),
                expires,
                end: None,
            }),
        }
    }

    /// The store answered that the lease was extended.
    pub(super) fn renewed(&mut self, entry: &Entry, now: Instant) {
        let expires = self.lease_end(entry.ttl, now);
        if let Some(row) = self.last_mut(entry.id) {
            row.expires = row.expires.max(expires);
        }
    }

    /// The store answered that the entry is gone, and is left like this.
    pub(super) fn left(&mut self, client: usize, entry: &Entry, end: State) {
        match self.last_mut(entry.id) {
            // A tombstone stays.
            Some(row) if row.end == Some(State::Tombstone) => {}
            Some(row) => row.end = Some(end),
            None => self.rows.push(Row {
                name: entry.name.clone(),
                id: entry.id,
                claim: entry.claim,
                client,
                token: None,
                expires: None,
                end: Some(end),
            }),
        }
    }

    /// The entry was taken away.
    pub(super) fn evicted(&mut self, id: EntryId) {
        if let Some(row) = self.last_mut(id) {
            row.end = row.end.or(Some(State::Evicted));
        }
    }

    fn lease_end(&self, ttl: Duration, now: Instant) -> Option<Instant> {
        self.expire.then(|| now + ttl)
    }

    fn last(&self, id: EntryId) -> Option<&Row> {
        self.rows.iter().rfind(|row| row.id == id)
    }

    fn last_mut(&mut self, id: EntryId) -> Option<&mut Row> {
        self.rows.iter_mut().rfind(|row| row.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(1);

    fn entry(id: u128) -> Entry {
        Entry::new(LockName::new("a").unwrap(), EntryId::new(id), Claim::mutex(), TTL)
    }

    fn token(number: u64) -> FencingToken {
        FencingToken::new(number)
    }

    #[test]
    fn an_entry_waits_then_holds_then_expires_and_lives_again() {
        let now = Instant::now();
        let mut entries = EntryStates::new(true);
        assert_eq!(entries.state(EntryId::new(1), None, now), State::Absent);
        for id in 1..=3 {
            entries.entered(0, &entry(id.into()), token(id), now);
        }
        let states =
            |entries: &EntryStates, now| [1, 2, 3].map(|id| entries.state(EntryId::new(id), None, now));
        assert_eq!(states(&entries, now), [State::Held, State::WaitingFirst, State::WaitingBehind]);
        entries.left(0, &entry(1), State::Left);
        assert_eq!(states(&entries, now), [State::Left, State::Held, State::WaitingFirst]);
        entries.renewed(&entry(3), now + TTL / 2);
        assert_eq!(states(&entries, now + TTL), [State::Left, State::Expired, State::Held]);
        entries.entered(0, &entry(2), token(4), now + TTL);
        assert_eq!(entries.state(EntryId::new(2), Some(token(2)), now + TTL), State::OtherLife);
        assert_eq!(entries.state(EntryId::new(2), Some(token(4)), now + TTL), State::WaitingFirst);
    }

    #[test]
    fn a_leave_before_the_create_leaves_a_tombstone() {
        let now = Instant::now();
        let mut entries = EntryStates::new(false);
        entries.left(5, &entry(1), State::Tombstone);
        assert_eq!(entries.state(EntryId::new(1), None, now), State::Tombstone);
        assert_eq!(entries.client(EntryId::new(1)), Some(5));
        entries.entered(5, &entry(2), token(1), now);
        entries.evicted(EntryId::new(2));
        assert_eq!(entries.state(EntryId::new(2), None, now + 100 * TTL), State::Evicted);
    }
}
