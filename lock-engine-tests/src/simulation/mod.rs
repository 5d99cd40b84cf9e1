//! Seeded runs of the real engine and the real keeper, on simulated time and wires, with every history checked.
//!
//! A seed decides everything: the number of clients and the speed of their clocks, which locks they take, for how long, and how they
//! give them back, which messages are lost, late, repeated and refused, which clients are blocked or crash, which entries an operator
//! evicts, and whether entries expire by their ttl or with the session of their client. Two of three seeds also draw a combination of a verb,
//! a fault and a state that they try to reach. [`run`] executes the seed over [`Memory`], lets everything end, and checks
//! what the clients saw ([`history`](crate::history)) and what is left in the store and in the clients (M7). The [`Coverage`] of the
//! [report](Report) says which combinations came up.
//!
//! [`run_with_bug`] does the same with a bug, to check that it is found.

mod aim;
mod aim_weights;
mod bug_queues;
mod bugs;
mod client_clocks;
mod coverage;
mod entry_states;
mod leak_check;
mod observer;
mod plan;
mod probe;
mod recorder;
mod report;
mod sessions;
mod shape;
mod worker;

use std::{sync::Arc, time::Duration};

use lock_conformance::Layered;
use lock_core::{
    Backend, Clock, Memory,
    testing::{Faults, Sim, SimClient, Simulation, VirtualClock},
};
use tokio::task::JoinHandle;

use self::{
    aim::aim_of,
    bug_queues::BugQueues,
    bugs::{BugLayer, Place},
    client_clocks::ClientClocks,
    observer::Observer,
    plan::{CALM, Disturbance, Plan},
    probe::Probe,
    recorder::Recorder,
    shape::shape,
    worker::Worker,
};
pub use self::{
    bugs::Bug,
    coverage::{Cell, Coverage, Fault, State, Verb},
    report::Report,
};
use crate::history::{EventKind, check};

/// Far more time than any wait can need.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// Runs a seed.
#[must_use]
pub fn run(seed: u64) -> Report {
    simulate(seed, Workload::Sound)
}

/// Runs a seed over the queues that some of the bugs are put into, without a bug, to check that those bugs are found, and not the queues.
#[must_use]
pub fn run_on_bug_queues(seed: u64) -> Report {
    simulate(seed, Workload::OnBugQueues)
}

/// Runs a seed with a bug.
#[must_use]
pub fn run_with_bug(seed: u64, bug: Bug) -> Report {
    simulate(seed, Workload::With(bug))
}

/// What a seed is run over.
#[derive(Clone, Copy)]
enum Workload {
    Sound,
    OnBugQueues,
    With(Bug),
}

/// Makes the store.
type MakeStore = dyn FnOnce(Arc<dyn Clock>) -> Arc<dyn Backend>;

/// Puts layers between a client and its wire.
type InClient = dyn Fn(Arc<dyn Backend>, &VirtualClock) -> Arc<dyn Backend> + Send + Sync;

fn simulate(seed: u64, workload: Workload) -> Report {
    let aim = aim_of(seed);
    let mut plan = Plan::new(seed);
    if let Some(aim) = aim {
        shape(&mut plan, aim);
    }
    let probe = Probe::new(seed, &plan, aim, workload.leases_end(&plan));
    let (make_store, in_client) = stack(workload, &plan);
    let at_store = probe.at_store();
    let simulation =
        Simulation::new(seed).over(move |clock| Arc::new(Layered::new(make_store(clock), at_store)));
    let (recorder, mut violations) = simulation.run(async |sim| {
        let recorder = Arc::new(Recorder::new(sim.clone()));
        let left = act(&sim, &plan, &recorder, &probe, &*in_client).await;
        recorder.put(EventKind::End);
        (recorder, left)
    });
    let history = plan.history(recorder.events());
    violations.extend(check(&history));
    Report { seed, history, violations, aim, coverage: probe.coverage() }
}

impl Workload {
    /// Whether the leases of entries end at their ttl. [`BugLayer`] has a store without sessions.
    fn leases_end(self, plan: &Plan) -> bool {
        let without_sessions =
            matches!(self, Self::With(bug) if matches!(bug.place(), Place::Store | Place::Clocks));
        !plan.sessions || without_sessions
    }
}

/// The store, and the layers in the clients.
fn stack(workload: Workload, plan: &Plan) -> (Box<MakeStore>, Box<InClient>) {
    let sessions = plan.sessions;
    let sound: Box<MakeStore> = if sessions {
        Box::new(sessions::store)
    } else {
        Box::new(|clock| Arc::new(Memory::with_clock(clock)))
    };
    let nothing: Box<InClient> = Box::new(|backend, _| backend);
    let on_queues = |sound: Box<MakeStore>, bug| -> Box<MakeStore> {
        Box::new(move |clock| {
            let queues = BugQueues::new(bug, sessions, Arc::clone(&clock));
            Arc::new(Layered::new(sound(clock), Arc::new(queues)))
        })
    };
    let bug = match workload {
        Workload::Sound => return (sound, nothing),
        Workload::OnBugQueues => return (on_queues(sound, None), nothing),
        Workload::With(bug) => bug,
    };
    match bug.place() {
        Place::Queues => (on_queues(sound, Some(bug)), nothing),
        Place::Store => {
            let store = move |clock: Arc<dyn Clock>| -> Arc<dyn Backend> {
                let memory = Arc::new(Memory::with_clock(Arc::clone(&clock)));
                Arc::new(Layered::new(memory, Arc::new(BugLayer::new(bug, clock))))
            };
            (Box::new(store), nothing)
        }
        Place::Client => {
            let in_client = move |backend, clock: &VirtualClock| -> Arc<dyn Backend> {
                Arc::new(Layered::new(backend, Arc::new(BugLayer::new(bug, Arc::new(clock.clone())))))
            };
            (sound, Box::new(in_client))
        }
        Place::Clocks => {
            let clocks = Arc::new(ClientClocks::default());
            let store = Arc::clone(&clocks);
            let in_client = move |backend, clock: &VirtualClock| clocks.client(backend, clock);
            (Box::new(move |clock| store.store(clock)), Box::new(in_client))
        }
    }
}

/// Carries out the plan, lets everything end, and returns what is left behind.
async fn act(
    sim: &Sim,
    plan: &Plan,
    recorder: &Arc<Recorder>,
    probe: &Arc<Probe>,
    in_client: &InClient,
) -> Vec<crate::history::Violation> {
    let clients: Vec<_> = plan
        .clients
        .iter()
        .map(|client| Arc::new(connect(sim, client.fast_by, recorder, in_client)))
        .collect();
    let mut workers = Vec::new();
    for (number, (client, planned)) in clients.iter().zip(&plan.clients).enumerate() {
        client.set_faults(plan.faults);
        client.wire().set_probe(probe.on_wire_of(number));
        for attempts in &planned.workers {
            let worker = Worker::new(number, client, recorder, &plan.locks);
            workers.push((number, client.spawn(worker.run(attempts.clone()))));
        }
    }
    disturb(sim, plan, recorder, probe, &clients).await;
    probe.calm();
    for client in &clients {
        client.set_faults(Faults { per_mille: 0, ..plan.faults });
    }
    recorder.put(EventKind::Calm);
    // The clients that have not crashed take every lock once more.
    let crashed = plan.crashed();
    for (number, client) in clients.iter().enumerate().filter(|(number, _)| !crashed.contains(number)) {
        let worker = Worker::new(number, client, recorder, &plan.locks);
        workers.push((number, client.spawn(worker.run(plan.last_round()))));
    }
    let waiting = join(workers.into_iter().filter(|(number, _)| !crashed.contains(number)));
    if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
        // A task that waits forever shows in its history.
        return Vec::new();
    }
    leak_check::left_behind(sim, plan, recorder, clients).await
}

fn connect(sim: &Sim, fast_by: i32, recorder: &Arc<Recorder>, in_client: &InClient) -> SimClient {
    sim.client_through(fast_by, |backend, clock| {
        let observer = Observer::new(Arc::clone(recorder));
        Arc::new(Layered::new(in_client(backend, clock), Arc::new(observer)))
    })
}

async fn join(workers: impl Iterator<Item = (usize, JoinHandle<()>)>) {
    for (number, worker) in workers {
        if let Err(error) = worker.await {
            panic!("client {number}: {error}");
        }
    }
}

/// Blocks, crashes and evicts as planned, until there are no more faults.
async fn disturb(sim: &Sim, plan: &Plan, recorder: &Recorder, probe: &Probe, clients: &[Arc<SimClient>]) {
    let start = sim.now();
    for (after, disturbance) in &plan.disturbances {
        sim.sleep((start + *after).since(sim.now())).await;
        match *disturbance {
            Disturbance::Block(client) => {
                probe.until_under_way(client, Fault::Stopped).await;
                clients[client].block();
                probe.stopped(client, true);
                recorder.put(EventKind::Blocked { client });
            }
            Disturbance::Unblock(client) => {
                recorder.put(EventKind::Unblocked { client });
                clients[client].unblock();
                probe.stopped(client, false);
            }
            Disturbance::Crash(client) => {
                probe.until_under_way(client, Fault::Crashed).await;
                clients[client].crash();
                probe.crashed(client);
                recorder.crashed(client, &clients[client]);
                if plan.sessions {
                    let (sim, plan_names, late) = (sim.clone(), plan.names(), plan.faults.late);
                    tokio::spawn(async move {
                        // By then its last requests have arrived, and nothing more is accepted from it.
                        sim.sleep(late + Duration::from_millis(100)).await;
                        sessions::end(&sim, &plan_names, client).await;
                    });
                }
            }
            Disturbance::Evict(lock) => recorder.evict_holder(&plan.locks[lock].name).await,
        }
    }
    sim.sleep((start + CALM).since(sim.now())).await;
}
