//! [`connect`]: a session, and the settings that all sessions of a benchmark share.

use std::time::Duration;

use zookeeper_client::{Acls, Client};

use crate::error::Result;

/// The tick of the server: short, so that a session can be about as short as the shortest ttl that is measured.
pub(super) const TICK: Duration = Duration::from_millis(200);

/// So long that no ping of a session is measured.
pub(super) const SESSION: Duration = Duration::from_secs(36);

/// Every client may read and write every node.
pub(super) const ALL: Acls<'static> = Acls::anyone_all();

/// A session of its own.
pub(super) async fn connect(address: &str) -> Result<Client> {
    Ok(Client::connector().with_session_timeout(SESSION).connect(address).await?)
}
