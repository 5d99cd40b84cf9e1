//! [`Probe`]: counts what the requests of a run meet, and gives the fault of the aim to some that it fits.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_conformance::Layer;
use lock_core::{
    Backend, BackendError, Creates, Departure, Entry, EntryId, FencingToken, Lease, LockName, Renewal,
    Standing, Step, WaitMode,
    sync::{Mutex, MutexGuard},
    testing::{Delivery, Request, RequestFault, SeededEntropy, WireProbe},
};
use tokio::{sync::Notify, time::Instant};

use super::{
    aim::on_the_wire,
    coverage::{Cell, Coverage, Fault, State, Verb},
    entry_states::EntryStates,
    plan::Plan,
};

/// How many of 1000 requests of the verb that is aimed at get the fault, if the entry is in the state that is aimed at.
const ODDS: u32 = 250;

/// The same, if the entry is in another state.
const ODDS_ELSEWHERE: u32 = 80;

/// How long a stop or a crash is put off, until a request that is aimed at is under way.
const PUT_OFF: Duration = Duration::from_secs(3);

/// Sees all requests of a run, on the wires of the clients and at the store.
#[derive(Debug)]
pub(super) struct Probe {
    counter: Mutex<Counter>,
    /// A request is under way for which a stop or a crash was put off.
    under_way: Notify,
}

impl Probe {
    /// `expire`: whether leases end by themselves.
    pub(super) fn new(seed: u64, plan: &Plan, aim: Option<Cell>, expire: bool) -> Arc<Self> {
        let condition = |fast_by| Condition { fast_by, stopped: false, crashed: false };
        let counter = Counter {
            coverage: Coverage::default(),
            entries: EntryStates::new(expire),
            clients: plan.clients.iter().map(|client| condition(client.fast_by)).collect(),
            arriving: None,
            aim,
            entropy: SeededEntropy::new(!seed),
            put_off: None,
        };
        Arc::new(Self { counter: Mutex::new(counter), under_way: Notify::new() })
    }

    /// The probe for the wire of a client.
    pub(super) fn on_wire_of(self: &Arc<Self>, client: usize) -> Arc<dyn WireProbe> {
        Arc::new(OnWire { client, probe: Arc::clone(self) })
    }

    /// The probe in front of the store.
    pub(super) fn at_store(self: &Arc<Self>) -> Arc<dyn Layer> {
        Arc::new(AtStore(Arc::clone(self)))
    }

    pub(super) fn stopped(&self, client: usize, stopped: bool) {
        self.lock().clients[client].stopped = stopped;
    }

    pub(super) fn crashed(&self, client: usize) {
        self.lock().clients[client].crashed = true;
    }

    /// From here on nothing goes wrong.
    pub(super) fn calm(&self) {
        self.lock().aim = None;
    }

    /// If the aim is that a client stops or crashes while a request is under way: waits for a while until that is so.
    pub(super) async fn until_under_way(&self, client: usize, fault: Fault) {
        {
            let mut counter = self.lock();
            if counter.aim.is_none_or(|aim| aim.fault != fault || aim.verb == Verb::Evict) {
                return;
            }
            counter.put_off = Some(client);
        }
        if tokio::time::timeout(PUT_OFF, self.under_way.notified()).await.is_err() {
            // The client stops all the same, and no other stop is put off.
            let mut counter = self.lock();
            counter.put_off = None;
            counter.aim = None;
        }
    }

    pub(super) fn coverage(&self) -> Coverage {
        self.lock().coverage.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Counter> {
        self.counter.lock()
    }
}

/// What happens to a client as a whole.
#[derive(Clone, Copy, Debug, Default)]
struct Condition {
    fast_by: i32,
    stopped: bool,
    crashed: bool,
}

#[derive(Debug)]
struct Counter {
    coverage: Coverage,
    entries: EntryStates,
    clients: Vec<Condition>,
    /// The request that the store is called with next, and its client.
    arriving: Option<(usize, Delivery)>,
    aim: Option<Cell>,
    entropy: SeededEntropy,
    /// The client whose stop or crash is put off.
    put_off: Option<usize>,
}

impl Counter {
    /// What becomes of a request, and whether a stop or a crash was put off for it.
    fn choose(&mut self, client: usize, request: Request<'_>, drawn: RequestFault) -> (RequestFault, bool) {
        let Some(aim) = self.aim.filter(|aim| aim.verb == Verb::of(&request)) else { return (drawn, false) };
        let Some(fault) = on_the_wire(aim.fault) else { return (drawn, false) };
        let now = Instant::now();
        let mut fits = false;
        for_each_entry(request, |id, token| fits |= self.entries.state(id, token, now) == aim.state);
        // What arrives late finds a state that is not known yet.
        let late =
            matches!(aim.fault, Fault::RepeatedLate | Fault::RequestLate | Fault::Broken | Fault::GivenUp);
        let odds = if fits || late { ODDS } else { ODDS_ELSEWHERE };
        if matches!(aim.fault, Fault::Stopped | Fault::Crashed) {
            let put_off = self.put_off == Some(client) && (fits || self.entropy.chance(ODDS));
            if put_off {
                self.put_off = None;
            }
            return (if put_off { fault } else { drawn }, put_off);
        }
        (if self.entropy.chance(odds) { fault } else { drawn }, false)
    }

    /// Counts each entry of a request.
    fn count(&mut self, client: usize, request: Request<'_>, how: Delivery) {
        let verb = Verb::of(&request);
        let now = Instant::now();
        let condition = self.clients[client];
        for_each_entry(request, |id, token| {
            let state = self.entries.state(id, token, now);
            count(&mut self.coverage, verb, state, how, condition);
        });
    }

    /// Counts a request that has reached the store, and returns its client.
    fn arrived(&mut self, request: Request<'_>) -> usize {
        let (client, how) = self.arriving.take().expect("clients reach the store by their wires only");
        self.count(client, request, how);
        client
    }

    fn evicted(&mut self, id: EntryId) {
        let condition = self.entries.client(id).map(|client| self.clients[client]).unwrap_or_default();
        let state = self.entries.state(id, None, Instant::now());
        let how = Delivery { fault: RequestFault::InTime, given_up: false };
        count(&mut self.coverage, Verb::Evict, state, how, condition);
        self.entries.evicted(id);
    }
}

/// Counts every fault that a request meets.
fn count(coverage: &mut Coverage, verb: Verb, state: State, how: Delivery, client: Condition) {
    let wire = Fault::of(how.fault);
    let faults = [
        (wire != Fault::Nothing, wire),
        (how.given_up, Fault::GivenUp),
        (client.stopped, Fault::Stopped),
        (client.crashed, Fault::Crashed),
        (client.fast_by > 0, Fault::FastClock),
        (client.fast_by < 0, Fault::SlowClock),
    ];
    let mut met = faults.iter().filter(|(met, _)| *met).peekable();
    if met.peek().is_none() {
        coverage.count(Cell { verb, fault: Fault::Nothing, state });
    }
    met.for_each(|(_, fault)| coverage.count(Cell { verb, fault: *fault, state }));
}

/// The entries of a request, and the lives that it is for.
fn for_each_entry(request: Request<'_>, mut visit: impl FnMut(EntryId, Option<FencingToken>)) {
    match request {
        Request::Enter { entry, step: Step::Again(token), .. } => visit(entry.id, Some(token)),
        Request::Enter { entry, .. } | Request::Leave { entry, .. } => visit(entry.id, None),
        Request::Renew { leases } => leases.iter().for_each(|lease| visit(lease.entry.id, Some(lease.token))),
    }
}

/// The probe on the wire of a client.
#[derive(Debug)]
struct OnWire {
    client: usize,
    probe: Arc<Probe>,
}

impl WireProbe for OnWire {
    fn sent(&self, request: Request<'_>, drawn: RequestFault) -> RequestFault {
        let mut counter = self.probe.lock();
        let (fault, under_way) = counter.choose(self.client, request, drawn);
        if matches!(fault, RequestFault::RequestLost | RequestFault::Refused | RequestFault::NotReady) {
            counter.count(self.client, request, Delivery { fault, given_up: false });
        }
        drop(counter);
        if under_way {
            self.probe.under_way.notify_one();
        }
        fault
    }

    fn arrives(&self, delivery: Delivery) {
        self.probe.lock().arriving = Some((self.client, delivery));
    }
}

/// The probe in front of the store, which carries a verb out when it is first polled.
#[derive(Debug)]
struct AtStore(Arc<Probe>);

#[async_trait]
impl Layer for AtStore {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let client = self.0.lock().arrived(Request::Enter { entry, step, wait });
        let standing = store.enter(entry, step, wait).await;
        if let Ok(Standing::Admitted { token, .. } | Standing::Waiting { token, .. }) = &standing {
            self.0.lock().entries.entered(client, entry, *token, Instant::now());
        }
        standing
    }

    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        self.0.lock().arrived(Request::Renew { leases });
        let answers = store.renew(leases).await;
        let mut counter = self.0.lock();
        for (lease, answer) in leases.iter().zip(&answers) {
            if matches!(answer, Ok(Renewal::Renewed { .. })) {
                counter.entries.renewed(&lease.entry, Instant::now());
            }
        }
        drop(counter);
        answers
    }

    async fn leave(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        creates: Creates,
    ) -> Result<Departure, BackendError> {
        let client = self.0.lock().arrived(Request::Leave { entry, creates });
        let end = if creates == Creates::InDoubt { State::Tombstone } else { State::Left };
        self.0.lock().entries.left(client, entry, end);
        store.leave(entry, creates).await
    }

    async fn evict(
        &self,
        store: &Arc<dyn Backend>,
        name: &LockName,
        entry: EntryId,
    ) -> Result<Departure, BackendError> {
        self.0.lock().evicted(entry);
        store.operator().evict(name, entry).await
    }
}
