//! M7: nothing is left behind, in the store or in the clients.

use std::{sync::Arc, time::Duration};

use lock_core::testing::{Sim, SimClient};

use super::{plan::Plan, recorder::Recorder};
use crate::history::Violation;

/// Longer than every ttl of a plan.
const LONGEST_TTL: Duration = Duration::from_secs(3);

/// Waits until everything must be gone, and returns what is left.
pub(super) async fn left_behind(
    sim: &Sim,
    plan: &Plan,
    recorder: &Recorder,
    clients: Vec<Arc<SimClient>>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    let crashed = plan.crashed();
    // Leaked guards are lost, requests in flight arrive, and leases that no client renews end.
    sim.sleep(LONGEST_TTL + plan.faults.late).await;
    recorder.drop_leaked();
    for (number, client) in clients.iter().enumerate().filter(|(number, _)| !crashed.contains(number)) {
        if let Err(error) = client.locks().close(Duration::from_secs(30)).await {
            found.push(violation(format!("client {number} could not be closed: {error}")));
        }
    }
    let wires: Vec<_> = clients.iter().map(|client| Arc::clone(client.wire())).collect();
    drop(clients);
    sim.sleep(LONGEST_TTL + plan.faults.late).await;
    for name in plan.names() {
        let rows = sim.store().operator().queue(&name).await.expect("memory answers");
        if !rows.is_empty() {
            found.push(violation(format!("the queue of `{name}` still has {rows:?}")));
        }
    }
    let listeners: usize = wires.iter().map(|wire| wire.listeners()).sum();
    if listeners > 0 {
        found.push(violation(format!("{listeners} streams of hints are still open")));
    }
    drop(wires);
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    if tasks > 0 {
        found.push(violation(format!("{tasks} tasks still run")));
    }
    found
}

fn violation(what: String) -> Violation {
    Violation { id: "M7", what }
}
