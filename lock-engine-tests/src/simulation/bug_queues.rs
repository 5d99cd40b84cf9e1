//! [`BugQueues`]: queues in memory for the bugs that no layer can add to a sound store.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_conformance::Layer;
use lock_core::{
    Backend, BackendError, BootTime, Claim, Clock, Creates, Departure, Entry, EntryId, FencingToken, Hint,
    Lease, LockName, Notifier, QueueRow, Renewal, Standing, Step, WaitMode, admission, sync::Mutex,
    valid_until,
};

use super::{bugs::Bug, sessions::SESSION};

/// What [`Bug::TtlIsClamped`] makes of longer ttls.
const CLAMPED: Duration = Duration::from_secs(1);

/// A layer that keeps all queues itself, and takes nothing from the store behind it but its guarantees. Without a bug it is a second store
/// that keeps every promise.
#[derive(Debug)]
pub(super) struct BugQueues {
    bug: Option<Bug>,
    /// Whether entries live as long as the session of their client.
    sessions: bool,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    notifier: Notifier,
}

#[derive(Debug, Default)]
struct State {
    /// The live entries of all names, in the order in which they came.
    rows: Vec<Row>,
    last_token: u64,
    tombstones: BTreeSet<EntryId>,
    /// Those that were admitted and are not yet told.
    admitted: Vec<(EntryId, FencingToken)>,
}

#[derive(Debug)]
struct Row {
    entry: Entry,
    token: FencingToken,
    expires: BootTime,
    admitted: bool,
}

/// What a look at a queue finds.
enum Found {
    Admitted { token: FencingToken },
    Waiting { token: FencingToken, ahead: u64, look_again: BootTime },
    Busy,
    Gone,
}

impl BugQueues {
    pub(super) fn new(bug: Option<Bug>, sessions: bool, clock: Arc<dyn Clock>) -> Self {
        Self { bug, sessions, clock, state: Mutex::default(), notifier: Notifier::default() }
    }

    fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Runs one verb on the queue of a name: the dead are dropped before it, and all that fit are admitted after it.
    fn on_queue<T>(&self, name: &LockName, verb: impl FnOnce(&mut State, BootTime) -> T) -> T {
        let mut state = self.state.lock();
        let now = self.clock.now();
        state.rows.retain(|row| row.expires > now);
        let result = verb(&mut state, now);
        state.admit(name, self.is(Bug::NewcomersPass));
        let admitted = std::mem::take(&mut state.admitted);
        drop(state);
        for (entry, token) in admitted {
            self.notifier.send(entry, Hint::Admitted { token });
        }
        result
    }

    /// When a lease that is given or extended now ends.
    fn lease_end(&self, now: BootTime, ttl: Duration) -> BootTime {
        match self.bug {
            Some(Bug::LeasesEndEarly) => now + ttl * 3 / 4,
            Some(Bug::TtlIsClamped) => now + ttl.min(CLAMPED),
            _ if self.sessions => now + SESSION,
            _ => now + ttl,
        }
    }

    fn look(&self, state: &mut State, now: BootTime, entry: &Entry, step: Step, wait: WaitMode) -> Found {
        let known = match step {
            Step::Create => state.last(entry.id),
            Step::Again(token) => state.position(entry.id, token),
        };
        let adds = known.is_none() || self.is(Bug::CreateAddsTwice);
        let at = match (step, known) {
            (Step::Again(_), None) => return Found::Gone,
            (Step::Create, _) if adds => {
                if state.tombstones.contains(&entry.id) {
                    return Found::Gone;
                }
                if wait == WaitMode::Try && !state.has_room(entry, self.is(Bug::NewcomersPass)) {
                    return Found::Busy;
                }
                let token = state.mint(&entry.name, self.is(Bug::TokensStartOver));
                state.rows.push(Row { entry: entry.clone(), token, expires: now, admitted: false });
                state.rows.len() - 1
            }
            (_, known) => known.expect("an entry that is not known was added"),
        };
        let end = self.lease_end(now, entry.ttl);
        let row = &mut state.rows[at];
        row.expires = row.expires.max(end);
        state.admit(&entry.name, self.is(Bug::NewcomersPass));
        state.found(at)
    }
}

impl State {
    fn last(&self, id: EntryId) -> Option<usize> {
        self.rows.iter().rposition(|row| row.entry.id == id)
    }

    fn position(&self, id: EntryId, token: FencingToken) -> Option<usize> {
        self.rows.iter().position(|row| row.entry.id == id && row.token == token)
    }

    fn of_name<'a>(&'a self, name: &'a LockName) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.entry.name == *name)
    }

    fn has_room(&self, entry: &Entry, passes: bool) -> bool {
        let ahead = self.of_name(&entry.name).filter(|row| row.admitted || !passes);
        admission::fits(ahead.map(|row| permits(row.entry.claim)).sum(), entry.claim)
    }

    fn mint(&mut self, name: &LockName, starts_over: bool) -> FencingToken {
        let last = if starts_over {
            self.of_name(name).map(|row| row.token.get()).max().unwrap_or(0)
        } else {
            self.last_token
        };
        self.last_token = last + 1;
        FencingToken::new(last + 1)
    }

    /// Admits all that fit. If newcomers pass, only holders count as ahead.
    fn admit(&mut self, name: &LockName, passes: bool) {
        let holders = self.of_name(name).filter(|row| row.admitted);
        let mut ahead: u64 = holders.map(|row| permits(row.entry.claim)).sum();
        for row in self.rows.iter_mut().filter(|row| row.entry.name == *name && !row.admitted) {
            let fits = admission::fits(ahead, row.entry.claim);
            if fits {
                row.admitted = true;
                self.admitted.push((row.entry.id, row.token));
            }
            if fits || !passes {
                ahead += permits(row.entry.claim);
            }
        }
    }

    fn found(&self, at: usize) -> Found {
        let row = &self.rows[at];
        let token = row.token;
        if row.admitted {
            return Found::Admitted { token };
        }
        let ahead: Vec<_> =
            self.rows[..at].iter().filter(|other| other.entry.name == row.entry.name).collect();
        let look_again = ahead.iter().map(|other| other.expires).min().unwrap_or(row.expires);
        Found::Waiting { token, ahead: ahead.len() as u64, look_again }
    }

    /// Puts an entry that is gone back to its place.
    fn revive(&mut self, lease: &Lease, expires: BootTime) {
        let at = self.rows.partition_point(|row| row.token < lease.token);
        let entry = Entry::clone(&lease.entry);
        self.rows.insert(at, Row { entry, token: lease.token, expires, admitted: true });
    }
}

fn permits(claim: Claim) -> u64 {
    claim.permits().into()
}

#[async_trait]
impl Layer for BugQueues {
    async fn enter(
        &self,
        _store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let (sent, ttl) = (self.clock.now(), entry.ttl);
        let hints = self.notifier.listen(entry.id);
        let found = self.on_queue(&entry.name, |state, now| self.look(state, now, entry, step, wait));
        let valid_until = valid_until(sent, ttl, ttl);
        Ok(match found {
            Found::Admitted { token } => Standing::Admitted { token, ttl, valid_until },
            Found::Waiting { token, ahead, look_again } => {
                Standing::Waiting { token, ttl, valid_until, ahead, holder: None, look_again, hints }
            }
            Found::Busy => Standing::Busy,
            Found::Gone => Standing::Gone,
        })
    }

    async fn renew(&self, _store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let sent = self.clock.now();
        let renew = |lease: &Lease| {
            let (entry, ttl) = (&lease.entry, lease.entry.ttl);
            let renewed = self.on_queue(&entry.name, |state, now| {
                let end = self.lease_end(now, ttl);
                let held = state.position(entry.id, lease.token).filter(|at| state.rows[*at].admitted);
                if let Some(at) = held {
                    state.rows[at].expires = state.rows[at].expires.max(end);
                } else if self.is(Bug::RenewalCreates) && state.last(entry.id).is_none() {
                    state.revive(lease, end);
                    return true;
                }
                held.is_some()
            });
            let valid_until = valid_until(sent, ttl, ttl);
            Ok(if renewed { Renewal::Renewed { valid_until } } else { Renewal::Lost })
        };
        leases.iter().map(renew).collect()
    }

    async fn leave(
        &self,
        _store: &Arc<dyn Backend>,
        entry: &Entry,
        creates: Creates,
    ) -> Result<Departure, BackendError> {
        Ok(self.on_queue(&entry.name, |state, _| {
            if creates == Creates::InDoubt && !self.is(Bug::NoTombstone) {
                state.tombstones.insert(entry.id);
            }
            if let Some(at) = state.last(entry.id) {
                state.rows.remove(at);
                return Departure::Left;
            }
            let first = state.rows.iter().position(|row| row.entry.name == entry.name);
            if let Some(first) = first.filter(|_| self.is(Bug::LeaveFreesAnyone)) {
                state.rows.remove(first);
            }
            Departure::Absent
        }))
    }

    async fn queue(&self, _store: &Arc<dyn Backend>, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        Ok(self.on_queue(name, |state, now| {
            let row = |row: &Row| QueueRow {
                entry: Some(row.entry.id),
                claim: row.entry.claim,
                admitted: row.admitted,
                token: Some(row.token),
                lease_left: Some(row.expires.since(now)),
                label: row.entry.label.clone(),
            };
            state.of_name(name).map(row).collect()
        }))
    }

    async fn evict(
        &self,
        _store: &Arc<dyn Backend>,
        name: &LockName,
        entry: EntryId,
    ) -> Result<Departure, BackendError> {
        Ok(self.on_queue(name, |state, _| {
            let before = state.rows.len();
            state.rows.retain(|row| row.entry.id != entry);
            if state.rows.len() < before { Departure::Left } else { Departure::Absent }
        }))
    }
}
