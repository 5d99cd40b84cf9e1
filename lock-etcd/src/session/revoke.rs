//! [`revoke`]: ends a lease.

use crate::{
    client::Client,
    error::{Cause, Failure},
};

/// Revokes a lease. Succeeds also if the lease is gone already.
pub(super) async fn revoke(client: &Client, lease: i64) -> Result<(), Failure> {
    let revoked = client.call(|channel| {
        let mut leases = channel.lease.clone();
        async move { leases.revoke(lease).await }
    });
    match revoked.await {
        Err(failure) if failure.cause() != Cause::LeaseGone => Err(failure),
        _ => Ok(()),
    }
}
