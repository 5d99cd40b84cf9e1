//! [`Memory`]: locks within one process, and the reference for other backends.

mod queue;

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;

use self::queue::{Outcome, Queue};
use crate::{
    Alarms, Backend, BackendError, BackendErrorKind, BootTime, Clock, Creates, Departure, Diagnosis, Entry,
    EntryId, FencingToken, Guarantees, Hint, Holder, Lease, LockName, Notifier, Operator, QueueRow, Renewal,
    Standing, Step, SystemClock, WaitMode, sync::Mutex, tombstone::tombstone_ttl, valid_until,
};

/// A store in the memory of this process. Clones share it.
///
/// It needs no server and loses everything with the process. Use it for tests, and where one process is all there is.
#[derive(Clone)]
pub struct Memory(Arc<Store>);

struct Store {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    notifier: Notifier,
}

#[derive(Default)]
struct State {
    queues: BTreeMap<LockName, Queue>,
    /// The last token that was minted, for any name: so none is minted twice, even if a queue is removed.
    last_token: u64,
    /// Entries that left while a create was in doubt, and until when they may not be created.
    tombstones: BTreeMap<EntryId, BootTime>,
}

impl Memory {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// An empty store that counts its leases on `clock`.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Store { clock, state: Mutex::default(), notifier: Notifier::default() }))
    }

    /// Continues as if `last` were the token minted last: for tests of large tokens. Never goes back.
    pub fn raise_tokens(&self, last: FencingToken) {
        let mut state = self.0.state.lock();
        state.last_token = state.last_token.max(last.get());
    }

    /// Runs one verb on one queue. Dead entries are dropped before it; all that now fit are admitted and notified after it.
    fn on_queue<T>(&self, name: &LockName, verb: impl FnOnce(&mut State, &mut Queue, BootTime) -> T) -> T {
        let mut state = self.0.state.lock();
        let now = self.0.clock.now();
        let mut queue = state.queues.remove(name).unwrap_or_default();
        queue.drop_dead(now);
        let result = verb(&mut state, &mut queue, now);
        let admitted = queue.admit();
        if !queue.is_empty() {
            state.queues.insert(name.clone(), queue);
        }
        drop(state);
        for (entry, token) in admitted {
            self.0.notifier.send(entry, Hint::Admitted { token });
        }
        result
    }
}

impl State {
    fn mint(&mut self) -> Result<FencingToken, BackendError> {
        let exhausted =
            || BackendError::new("memory", BackendErrorKind::TokensExhausted, "the last token was minted");
        self.last_token = self.last_token.checked_add(1).ok_or_else(exhausted)?;
        Ok(FencingToken::new(self.last_token))
    }

    fn drop_old_tombstones(&mut self, now: BootTime) {
        self.tombstones.retain(|_, until| *until > now);
    }

    /// Whether the entry left for good while a create of it was in doubt.
    fn has_tombstone(&self, id: EntryId) -> bool {
        self.tombstones.contains_key(&id)
    }
}

#[async_trait]
impl Backend for Memory {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        let sent = self.0.clock.now();
        let hints = self.0.notifier.listen(entry.id);
        let look = self.on_queue(&entry.name, |state, queue, now| {
            let known = queue.token(entry.id);
            match step {
                Step::Again(token) if known != Some(token) => return Ok(Outcome::Gone),
                Step::Create if known.is_none() => {
                    state.drop_old_tombstones(now);
                    if state.has_tombstone(entry.id) {
                        return Ok(Outcome::Gone);
                    }
                    queue.check(entry.claim)?;
                    if wait == WaitMode::Try && !queue.has_room(entry.claim) {
                        return Ok(Outcome::Busy);
                    }
                    queue.push(entry.clone(), state.mint()?, now);
                }
                _ => {}
            }
            queue.refresh(entry.id, now + entry.ttl);
            queue.admit_quietly(entry.id);
            Ok(queue.look(entry.id))
        });
        let valid_until = valid_until(sent, entry.ttl, entry.ttl);
        look.map(|look| match look {
            Outcome::Admitted { token } => Standing::Admitted { token, ttl: entry.ttl, valid_until },
            Outcome::Waiting { token, ahead, holder, look_again } => {
                let holder = Some(Holder::Ours { label: holder });
                Standing::Waiting { token, ttl: entry.ttl, valid_until, ahead, holder, look_again, hints }
            }
            Outcome::Busy => Standing::Busy,
            Outcome::Gone => Standing::Gone,
        })
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let sent = self.0.clock.now();
        let renew = |lease: &Lease| {
            let renewed = self.on_queue(&lease.entry.name, |_, queue, now| {
                let holds = queue.holds(lease.entry.id, lease.token);
                if holds {
                    queue.refresh(lease.entry.id, now + lease.entry.ttl);
                }
                holds
            });
            let valid_until = valid_until(sent, lease.entry.ttl, lease.entry.ttl);
            Ok(if renewed { Renewal::Renewed { valid_until } } else { Renewal::Lost })
        };
        leases.iter().map(renew).collect()
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        Ok(self.on_queue(&entry.name, |state, queue, now| {
            if creates == Creates::InDoubt {
                state.tombstones.insert(entry.id, now + tombstone_ttl(entry.ttl));
            }
            queue.remove(entry.id)
        }))
    }

    /// There is nothing to give back but entries.
    async fn give_back(&self) {}

    fn alarms(&self) -> Alarms {
        self.0.notifier.alarms()
    }

    fn guarantees(&self) -> &Guarantees {
        &GUARANTEES
    }

    fn operator(&self) -> &dyn Operator {
        self
    }
}

#[async_trait]
impl Operator for Memory {
    async fn queue(&self, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        Ok(self.on_queue(name, |_, queue, now| queue.rows(now)))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockName>, BackendError> {
        let now = self.0.clock.now();
        let mut state = self.0.state.lock();
        state.queues.retain(|_, queue| {
            queue.drop_dead(now);
            !queue.is_empty()
        });
        Ok(state.queues.keys().filter(|name| name.as_str().starts_with(prefix)).cloned().collect())
    }

    async fn evict(&self, name: &LockName, entry: EntryId) -> Result<Departure, BackendError> {
        let departure = self.on_queue(name, |_, queue, _| queue.remove(entry));
        self.0.notifier.alarm(entry);
        Ok(departure)
    }

    async fn diagnose(&self) -> Result<Diagnosis, BackendError> {
        let mut diagnosis = Diagnosis::default();
        diagnosis.facts.push(("store", "memory of this process".to_owned()));
        diagnosis.facts.push(("queues", self.0.state.lock().queues.len().to_string()));
        diagnosis.facts.push(("listeners", self.0.notifier.listeners().to_string()));
        Ok(diagnosis)
    }
}

static GUARANTEES: Guarantees = Guarantees {
    store: "memory",
    exclusive_while: "always, within the process: client and store read one clock",
    overlap_when: "the holder acts after `is_held` and beyond its deadline",
    tokens: "grow for ever within the process; start over with it",
    freed_after_death: "a dropped guard: at once; a leaked one: never while the keeper renews it, unless `max_hold` is set",
    fairness: "first come, first served",
    foreign_clients: "none",
    shared_leases: false,
    polls: None,
};

impl Queue {
    fn check(&self, claim: crate::Claim) -> Result<(), BackendError> {
        match self.claim() {
            Some(found) if !found.agrees_with(&claim) => {
                let (found_kind, found_limit) = (found.kind(), found.limit());
                let kind = BackendErrorKind::ClaimMismatch { found_kind, found_limit };
                Err(BackendError::new("memory", kind, format!("the queue is that of {found}")))
            }
            _ => Ok(()),
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("clock", &self.0.clock).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_executor::block_on;

    use super::*;
    use crate::Claim;

    #[test]
    fn another_kind_of_lock_is_refused_with_the_kind_there_is() {
        let memory = Memory::new();
        let enter = |id, claim| {
            let name = LockName::new("a").expect("it is a name");
            let entry = Entry::new(name, EntryId::new(id), claim, Duration::from_secs(30));
            block_on(memory.enter(&entry, Step::Create, WaitMode::Try))
        };
        assert!(enter(1, Claim::reader()).is_ok());
        let said = enter(2, Claim::mutex()).unwrap_err().to_string();
        assert_eq!(said, "memory: the queue is that of a reader of a read-write lock");
    }
}
