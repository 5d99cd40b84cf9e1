//! [`ClientClocks`]: a store that judges the leases of semaphores by the clock of the client that sends the request.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use lock_conformance::{Layer, Layered};
use lock_core::{
    Backend, BackendError, BootTime, Clock, Creates, Departure, Entry, EntryId, Kind, Lease, Memory, Renewal,
    Standing, Step, WaitMode,
    sync::{Mutex, MutexGuard},
    testing::VirtualClock,
};

/// The recipe in which every client writes its own time into a sorted set, and removes entries that are older than a ttl.
#[derive(Debug, Default)]
pub(super) struct ClientClocks {
    /// The clock of the store itself.
    own: OnceLock<Arc<dyn Clock>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The clock of the client whose verb is being carried out.
    served: Option<VirtualClock>,
    of: BTreeMap<EntryId, VirtualClock>,
}

impl ClientClocks {
    /// The store.
    pub(super) fn store(self: &Arc<Self>, clock: Arc<dyn Clock>) -> Arc<dyn Backend> {
        // There is only one store, so this is called once.
        let _ = self.own.set(clock);
        let memory = Memory::with_clock(Arc::clone(self) as Arc<dyn Clock>);
        Arc::new(Layered::new(Arc::new(memory), Arc::new(Judge(Arc::clone(self)))))
    }

    /// A client of the store, whose requests carry the client's time.
    pub(super) fn client(
        self: &Arc<Self>,
        backend: Arc<dyn Backend>,
        clock: &VirtualClock,
    ) -> Arc<dyn Backend> {
        let bug = Tells { clocks: Arc::clone(self), clock: clock.clone() };
        Arc::new(Layered::new(backend, Arc::new(bug)))
    }

    fn serve(&self, entry: &Entry) {
        let mut state = self.lock();
        let clock = state.of.get(&entry.id).filter(|_| entry.claim.kind() == Kind::Semaphore);
        state.served = clock.cloned();
    }

    fn served(&self) {
        self.lock().served = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Clock for ClientClocks {
    fn now(&self) -> BootTime {
        let served = self.lock().served.clone();
        let own = || self.own.get().map_or(BootTime::FAR_FUTURE, |clock| clock.now());
        served.map_or_else(own, |clock| clock.now())
    }
}

/// The layer in the store. A verb of memory is carried out at its first poll, so no other verb runs in between.
#[derive(Debug)]
struct Judge(Arc<ClientClocks>);

#[async_trait]
impl Layer for Judge {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        self.0.serve(entry);
        let standing = store.enter(entry, step, wait).await;
        self.0.served();
        standing
    }

    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let mut answers = Vec::with_capacity(leases.len());
        for lease in leases {
            self.0.serve(&lease.entry);
            answers.extend(store.renew(std::slice::from_ref(lease)).await);
        }
        self.0.served();
        answers
    }

    async fn leave(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        creates: Creates,
    ) -> Result<Departure, BackendError> {
        self.0.serve(entry);
        let departure = store.leave(entry, creates).await;
        self.0.served();
        departure
    }
}

/// The layer in the client.
#[derive(Debug)]
struct Tells {
    clocks: Arc<ClientClocks>,
    clock: VirtualClock,
}

#[async_trait]
impl Layer for Tells {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        self.clocks.lock().of.insert(entry.id, self.clock.clone());
        store.enter(entry, step, wait).await
    }
}
