//! [`store`]: memory as a store whose entries live as long as the session of their client.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_conformance::{Layer, Layered};
use lock_core::{
    Backend, BackendError, Clock, Entry, Guarantees, LockName, Memory, Standing, Step, WaitMode, testing::Sim,
};

/// Longer than a run: an entry that its client does not remove stays until the session ends.
pub(super) const SESSION: Duration = Duration::from_secs(60 * 60);

static GUARANTEES: Guarantees = Guarantees {
    store: "memory with sessions",
    exclusive_while: "always",
    overlap_when: "never",
    tokens: "grow forever",
    freed_after_death: "when the session ends",
    fairness: "first come, first served",
    foreign_clients: "none",
    shared_leases: true,
    polls: None,
};

/// A store in which no entry ends at its ttl: the clients have to remove every entry that they do not keep (PR09).
pub(super) fn store(clock: Arc<dyn Clock>) -> Arc<dyn Backend> {
    Arc::new(Layered::new(Arc::new(Memory::with_clock(clock)), Arc::new(Sessions)))
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

/// Gives every entry the lease of a session.
#[derive(Debug)]
struct Sessions;

#[async_trait]
impl Layer for Sessions {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let mut kept = entry.clone();
        kept.ttl = SESSION;
        let mut standing = store.enter(&kept, step, wait).await?;
        if let Standing::Admitted { ttl, .. } | Standing::Waiting { ttl, .. } = &mut standing {
            *ttl = entry.ttl;
        }
        Ok(standing)
    }

    fn guarantees<'a>(&'a self, _store: &'a Arc<dyn Backend>) -> &'a Guarantees {
        &GUARANTEES
    }
}
