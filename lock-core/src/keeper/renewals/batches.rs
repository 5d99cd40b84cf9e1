//! Many renewals in few requests.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::Semaphore;

use super::Renewals;
use crate::keeper::held_lease::HeldLease;

/// How many leases go into one request: few enough that its answer is not late for all of them.
const BATCH: usize = 256;

/// How many requests for leases of one ttl are under way at the same time: a request takes more memory than all else that is kept for
/// its leases.
const MAX_IN_FLIGHT: usize = 4;

impl Renewals {
    /// Renews leases, in one task for each batch: a slow store, or a class of long leases, never delays the others.
    pub(super) fn renew_all(self: &Arc<Self>, leases: Vec<HeldLease>) {
        let mut classes: BTreeMap<Duration, Vec<HeldLease>> = BTreeMap::new();
        for lease in leases {
            classes.entry(lease.hold.lease()).or_default().push(lease);
        }
        for class in classes.into_values() {
            let turns = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
            for batch in class.chunks(BATCH) {
                let (renewals, batch, turns) = (Arc::clone(self), batch.to_vec(), Arc::clone(&turns));
                self.keeper.spawn(async move {
                    // The semaphore is never closed.
                    let turn = turns.acquire_owned().await.ok();
                    renewals.renew_batch(batch, turn).await;
                });
            }
        }
    }
}
