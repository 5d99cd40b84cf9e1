//! [`reap`]: revokes leases that have ended until that is confirmed.

use std::{sync::Weak, time::Duration};

use lock_core::{BackOff, BootTime, Entropy, SystemEntropy, isolate};
use tokio::sync::watch;

use super::revoke::revoke;
use crate::client::Client;

const BACK_OFF: BackOff = BackOff { least: Duration::from_millis(50), most: Duration::from_secs(5) };

/// How long attempts to revoke a lease continue after its owner is gone. Most outages are shorter; after that, the lease expires by itself.
/// Also how long a grant that was not answered may still be carried out.
pub(super) const REVOKE_FOR: Duration = Duration::from_secs(60);

/// Revokes a lease on the keeper until that is confirmed, and then calls `then` with its owner. `late`: until when a grant of the lease may
/// be carried out.
///
/// The task does not keep the owner alive: a process may end once it has dropped the owner and these tasks are done.
pub(super) fn reap<O: Send + Sync + 'static>(
    client: &Client,
    revoking: &watch::Sender<usize>,
    owner: Weak<O>,
    (lease, late): (i64, Option<BootTime>),
    then: impl FnOnce(&O) + Send + 'static,
) {
    let (client, revoking) = (client.clone(), Revoking::begin(revoking));
    client.keeper().clone().spawn(async move {
        let keeper = client.keeper().clone();
        let (mut failures, mut give_up) = (0, None);
        while let Err(failure) = revoke(&client, lease).await {
            isolate(|| {
                tracing::debug!(lease = format_args!("{lease:x}"), "a lease is not revoked yet: {failure}");
            });
            let now = keeper.now();
            if owner.strong_count() == 0 && now >= *give_up.get_or_insert(now + REVOKE_FOR) {
                return;
            }
            failures += 1;
            keeper.sleep_until(now + BACK_OFF.pause(failures, SystemEntropy.bits() as u64)).await;
        }
        if let Some(owner) = owner.upgrade() {
            then(&owner);
        }
        drop(revoking);
        // A grant that arrives after the revoke creates the lease again. Callers do not wait for this, because such a grant is rare.
        let mut rounds = 0;
        while late.is_some_and(|late| keeper.now() < late) {
            rounds += 1;
            keeper.sleep_until(keeper.now() + BACK_OFF.pause(rounds, SystemEntropy.bits() as u64)).await;
            drop(revoke(&client, lease).await);
        }
    });
}

/// Counts a lease that is being revoked, until it is dropped.
struct Revoking(watch::Sender<usize>);

impl Revoking {
    fn begin(all: &watch::Sender<usize>) -> Self {
        all.send_modify(|leases| *leases += 1);
        Self(all.clone())
    }
}

impl Drop for Revoking {
    fn drop(&mut self) {
        self.0.send_modify(|leases| *leases -= 1);
    }
}
