//! [`Recorder`]: writes the history of a run.

use std::collections::BTreeMap;

use lock_core::{
    Guard, Hold, LockName, LostReason, QueueRow, Released,
    sync::{Mutex, MutexGuard},
    testing::{Sim, SimClient},
};

use crate::history::{Event, EventKind, GiveBack, Op};

/// Where all clients of a run record what they see.
#[derive(Debug)]
pub(super) struct Recorder {
    sim: Sim,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    events: Vec<Event>,
    ops: usize,
    /// The guards that were neither given back nor lost, by acquisition, with their clients.
    open: BTreeMap<Op, (usize, Hold)>,
    /// The guards that were leaked, kept so that the memory of the process does not grow with every run.
    leaked: Vec<Guard>,
}

impl Recorder {
    pub(super) fn new(sim: Sim) -> Self {
        Self { sim, state: Mutex::default() }
    }

    pub(super) fn put(&self, what: EventKind) {
        let event = Event { at: self.sim.now(), what };
        self.lock().events.push(event);
    }

    pub(super) fn events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    pub(super) fn sim(&self) -> &Sim {
        &self.sim
    }

    /// Assigns the next number to an acquisition.
    pub(super) fn next_op(&self) -> Op {
        let mut state = self.lock();
        state.ops += 1;
        Op(state.ops - 1)
    }

    pub(super) fn granted(&self, op: Op, client: usize, guard: &Guard) {
        self.put(EventKind::Granted { op, token: guard.token(), entry: guard.entry_id() });
        self.lock().open.insert(op, (client, guard.hold()));
    }

    pub(super) fn lost(&self, op: Op, client: &SimClient, hold: &Hold, reason: LostReason) {
        self.lock().open.remove(&op);
        self.put(EventKind::Lost { op, reason, deadline: client.deadline(hold) });
    }

    pub(super) fn returned(&self, op: Op, client: &SimClient, guard: &Guard, way: GiveBack) {
        self.lock().open.remove(&op);
        self.put(EventKind::Returned { op, way, deadline: client.deadline(&guard.hold()) });
    }

    pub(super) fn released(&self, op: Op, release: &Result<Released, lock_core::Error>) {
        self.put(EventKind::Released { op, confirmed: matches!(release, Ok(Released::Confirmed)) });
    }

    /// Keeps a leaked guard.
    pub(super) fn leak(&self, op: Op, guard: Guard) {
        self.put(EventKind::Forgotten { op });
        self.lock().leaked.push(guard);
    }

    /// Drops the leaked guards, whose locks must have been lost by now.
    pub(super) fn drop_leaked(&self) {
        let leaked = std::mem::take(&mut self.lock().leaked);
        drop(leaked);
    }

    pub(super) fn crashed(&self, client: usize, sim: &SimClient) {
        let mut state = self.lock();
        let (theirs, others) =
            std::mem::take(&mut state.open).into_iter().partition(|(_, hold)| hold.0 == client);
        state.open = others;
        drop(state);
        let theirs: BTreeMap<Op, (usize, Hold)> = theirs;
        let held = theirs.iter().map(|(op, (_, hold))| (*op, sim.deadline(hold))).collect();
        self.put(EventKind::Crashed { client, held });
    }

    /// Evicts the first holder of a lock, directly in the store.
    pub(super) async fn evict_holder(&self, name: &str) {
        let name = LockName::new(name).expect("names of a plan are names");
        let store = self.sim.store();
        let rows = store.operator().queue(&name).await.expect("memory answers");
        let Some(QueueRow { entry: Some(entry), token: Some(token), admitted: true, .. }) =
            rows.into_iter().next()
        else {
            return;
        };
        self.put(EventKind::Evicted { entry, token });
        store.operator().evict(&name, entry).await.expect("memory answers");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}
