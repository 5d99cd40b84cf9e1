//! Seeded runs of the real engine and the real keeper, on simulated time and wires, with every history checked.
//!
//! A seed decides everything: the number of clients and the speed of their clocks, which locks they take, for how long, and how they
//! give them back, which messages are lost, late, repeated and refused, which clients are blocked or crash, which entries an operator
//! evicts, and whether entries expire by their ttl or with the session of their client. [`run`] executes the seed over
//! [`Memory`](lock_core::Memory), lets everything end, and checks what the clients saw ([`history`](crate::history)) and what is left
//! in the store and in the clients (M7).
//!
//! [`run_with_bug`] does the same with a bug, to check that it is found.

mod bugs;
mod client_clocks;
mod leak_check;
mod observer;
mod plan;
mod recorder;
mod report;
mod sessions;
mod worker;

use std::{sync::Arc, time::Duration};

use lock_conformance::Layered;
use lock_core::{
    Backend,
    testing::{Faults, Sim, SimClient, Simulation, VirtualClock},
};
use tokio::task::JoinHandle;

pub use self::{bugs::Bug, report::Report};
use self::{
    bugs::BugLayer,
    client_clocks::ClientClocks,
    observer::Observer,
    plan::{CALM, Disturbance, Plan},
    recorder::Recorder,
    worker::Worker,
};
use crate::history::{EventKind, check};

/// Far more time than any wait can need.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// Runs a seed.
#[must_use]
pub fn run(seed: u64) -> Report {
    simulate(seed, None)
}

/// Runs a seed with a bug.
#[must_use]
pub fn run_with_bug(seed: u64, bug: Bug) -> Report {
    simulate(seed, Some(bug))
}

/// Puts layers between a client and its wire.
type InClient = dyn Fn(Arc<dyn Backend>, &VirtualClock) -> Arc<dyn Backend> + Send + Sync;

fn simulate(seed: u64, bug: Option<Bug>) -> Report {
    let plan = Plan::new(seed);
    let mut simulation = Simulation::new(seed);
    let mut in_client: Box<InClient> = Box::new(|backend, _| backend);
    match bug {
        Some(Bug::SemaphoreOnClientClocks) => {
            let clocks = Arc::new(ClientClocks::default());
            let store = Arc::clone(&clocks);
            simulation = simulation.over(move |clock| store.store(clock));
            in_client = Box::new(move |backend, clock| clocks.client(backend, clock));
        }
        Some(bug) if bug.is_in_the_store() => {
            simulation = simulation.over(move |clock| {
                let store = Arc::new(lock_core::Memory::with_clock(Arc::clone(&clock)));
                Arc::new(Layered::new(store, Arc::new(BugLayer::new(bug, clock))))
            });
        }
        _ if plan.sessions => simulation = simulation.over(sessions::store),
        _ => {}
    }
    if let Some(bug) = bug.filter(|bug| !bug.is_in_the_store()) {
        in_client = Box::new(move |backend, clock| {
            Arc::new(Layered::new(backend, Arc::new(BugLayer::new(bug, Arc::new(clock.clone())))))
        });
    }
    let (recorder, mut violations) = simulation.run(async |sim| {
        let recorder = Arc::new(Recorder::new(sim.clone()));
        let left = act(&sim, &plan, &recorder, &*in_client).await;
        recorder.put(EventKind::End);
        (recorder, left)
    });
    let history = plan.history(recorder.events());
    violations.extend(check(&history));
    Report { seed, history, violations }
}

/// Carries out the plan, lets everything end, and returns what is left behind.
async fn act(
    sim: &Sim,
    plan: &Plan,
    recorder: &Arc<Recorder>,
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
        for attempts in &planned.workers {
            let worker = Worker::new(number, client, recorder, &plan.locks);
            workers.push((number, client.spawn(worker.run(attempts.clone()))));
        }
    }
    disturb(sim, plan, recorder, &clients).await;
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
async fn disturb(sim: &Sim, plan: &Plan, recorder: &Recorder, clients: &[Arc<SimClient>]) {
    let start = sim.now();
    for (after, disturbance) in &plan.disturbances {
        sim.sleep((start + *after).since(sim.now())).await;
        match *disturbance {
            Disturbance::Block(client) => {
                clients[client].block();
                recorder.put(EventKind::Blocked { client });
            }
            Disturbance::Unblock(client) => {
                recorder.put(EventKind::Unblocked { client });
                clients[client].unblock();
            }
            Disturbance::Crash(client) => {
                clients[client].crash();
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
