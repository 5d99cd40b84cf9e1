//! [`connect`]: a client with the settings that the client of our locks has.

use std::time::Duration;

use etcd_client::{Client, ConnectOptions};

use crate::error::Result;

/// A connection of its own. Each request has a header with which a member without a leader refuses it.
pub(super) async fn connect(address: &str) -> Result<Client> {
    const PING_EVERY: Duration = Duration::from_secs(10);
    let options = ConnectOptions::new()
        .with_require_leader(true)
        .with_auto_token_refresh(true)
        .with_connect_timeout(Duration::from_secs(2))
        .with_keep_alive(PING_EVERY, PING_EVERY)
        .with_keep_alive_while_idle(false)
        .with_tcp_keepalive(PING_EVERY);
    Ok(Client::connect([address], Some(options)).await?)
}
