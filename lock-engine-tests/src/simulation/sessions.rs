//! [`Sessions`]: memory as a store whose entries live as long as the session of their client.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Alarms, Backend, BackendError, Clock, Creates, Departure, Entry, Guarantees, Lease, LockName, Memory,
    Operator, Renewal, Standing, Step, WaitMode, testing::Sim,
};

/// Longer than a run: an entry that its client does not remove stays until the session ends.
pub(super) const SESSION: Duration = Duration::from_secs(60 * 60);

static GUARANTEES: Guarantees = Guarantees {
    store: "memory with sessions",
    exclusive_while: "always",
    overlap_when: "never",
    tokens: "grow for ever",
    freed_after_death: "when the session ends",
    fairness: "first come, first served",
    foreign_clients: "none",
    shared_leases: true,
    polls: None,
};

/// A store in which no entry ends at its ttl: the clients have to remove every entry that they do not keep (PR09).
#[derive(Debug)]
pub(super) struct Sessions(Memory);

impl Sessions {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Memory::with_clock(clock))
    }
}

/// The label that marks the entries of a client.
pub(super) fn label(client: usize) -> String {
    format!("client {client}")
}

/// Ends the session of a client that has crashed.
pub(super) async fn end(sim: &Sim, names: &[LockName], client: usize) {
    for name in names {
        let rows = sim.store().operator().queue(name).await.expect("memory answers");
        let theirs = rows.iter().filter(|row| row.label.as_deref() == Some(&label(client)));
        for entry in theirs.filter_map(|row| row.entry) {
            sim.store().operator().evict(name, entry).await.expect("memory answers");
        }
    }
}

#[async_trait]
impl Backend for Sessions {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        let mut kept = entry.clone();
        kept.ttl = SESSION;
        let mut standing = self.0.enter(&kept, step, wait).await?;
        if let Standing::Admitted { ttl, .. } | Standing::Waiting { ttl, .. } = &mut standing {
            *ttl = entry.ttl;
        }
        Ok(standing)
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        self.0.renew(leases).await
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        self.0.leave(entry, creates).await
    }

    async fn give_back(&self) {
        self.0.give_back().await;
    }

    fn alarms(&self) -> Alarms {
        self.0.alarms()
    }

    fn guarantees(&self) -> &Guarantees {
        &GUARANTEES
    }

    fn operator(&self) -> &dyn Operator {
        self.0.operator()
    }
}
