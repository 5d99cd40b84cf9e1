//! Bugs in renewals.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{
    Backend, BackendError, BootTime, Clock, Entry, Lease, Renewal, Standing, Step, SystemClock, WaitMode,
    valid_until,
};

use crate::Layer;

/// A renewal creates the entry if it is not there, as `SET` does (H44).
#[derive(Debug)]
pub(super) struct RenewsByCreating;

#[async_trait]
impl Layer for RenewsByCreating {
    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let mut answers = store.renew(leases).await;
        for (lease, answer) in leases.iter().zip(&mut answers) {
            if matches!(answer, Ok(Renewal::Lost)) {
                *answer = created(store, &lease.entry).await;
            }
        }
        answers
    }
}

async fn created(store: &Arc<dyn Backend>, entry: &Entry) -> Result<Renewal, BackendError> {
    Ok(match store.enter(entry, Step::Create, WaitMode::Queue).await? {
        Standing::Admitted { valid_until, .. } | Standing::Waiting { valid_until, .. } => {
            Renewal::Renewed { valid_until }
        }
        Standing::Busy | Standing::Gone => Renewal::Lost,
    })
}

/// A renewal succeeds if anybody holds the lock, as `PEXPIRE` does (H45).
#[derive(Debug)]
pub(super) struct RenewsAnyHolder;

#[async_trait]
impl Layer for RenewsAnyHolder {
    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let sent = SystemClock.now();
        let mut answers = store.renew(leases).await;
        for (lease, answer) in leases.iter().zip(&mut answers) {
            if matches!(answer, Ok(Renewal::Lost)) {
                let rows = store.operator().queue(&lease.entry.name).await;
                let held = rows.map(|rows| rows.iter().any(|row| row.admitted));
                *answer = held.map(|held| if held { renewed(sent, lease) } else { Renewal::Lost });
            }
        }
        answers
    }
}

/// A renewal is confirmed, and the lease is as long as before.
#[derive(Debug)]
pub(super) struct RenewsNothing;

#[async_trait]
impl Layer for RenewsNothing {
    async fn renew(&self, _: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let now = SystemClock.now();
        leases.iter().map(|lease| Ok(renewed(now, lease))).collect()
    }
}

fn renewed(sent: BootTime, lease: &Lease) -> Renewal {
    let ttl = lease.entry.ttl;
    Renewal::Renewed { valid_until: valid_until(sent, ttl, ttl) }
}
