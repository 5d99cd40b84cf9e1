//! [`open`] and [`connect`]: connections with the settings that those of our locks have.

use redis::{
    AsyncConnectionConfig, Client, IntoConnectionInfo, aio::MultiplexedConnection, io::tcp::TcpSettings,
};

use crate::error::Result;

/// Without delay, and with RESP2.
pub(super) fn open(address: &str) -> Result<Client> {
    let settings = TcpSettings::default().set_nodelay(true);
    Ok(Client::open(url(address).into_connection_info()?.set_tcp_settings(settings))?)
}

/// The url of `host:port`.
pub(super) fn url(address: &str) -> String {
    format!("redis://{address}/")
}

/// A pipelined connection. The driver has no timer for each command.
pub(super) async fn connect(client: &Client) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
}
