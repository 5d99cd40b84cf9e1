//! [`CommandConnector`]: how connections for commands are opened.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, LazyLock},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::future::{Either, select};
use lock_core::{
    BackendErrorKind as Kind, ConnectionTask, Connector, Keeper, PooledConnection, excerpt, isolate,
};
use redis::{
    AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisError, RedisResult, Value,
    aio::MultiplexedConnection,
};

use super::{connection::Connection, endpoint::Endpoint, role_check::RoleCheck};
use crate::error::{self, Failure, connection_ended};

/// A connection for commands, with its place in the pool.
pub(super) type PooledCommands = PooledConnection<CommandConnector>;

/// Opens connections for commands to one server.
#[derive(Debug)]
pub(super) struct CommandConnector {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) role_check: Arc<RoleCheck>,
}

impl CommandConnector {
    pub(super) fn new(endpoint: Arc<Endpoint>) -> Self {
        Self { endpoint, role_check: Arc::default() }
    }
}

#[async_trait]
impl Connector for CommandConnector {
    type Target = ();
    type Connection = Arc<Connection>;
    type Failure = Failure;

    async fn open(
        &self,
        _target: &(),
        keeper: &Keeper,
    ) -> Result<(Arc<Connection>, ConnectionTask), Failure> {
        let (endpoint, role_check) = (Arc::clone(&self.endpoint), Arc::clone(&self.role_check));
        let (multiplexed, driver) = open(&endpoint, keeper, &role_check).await?;
        let connection = Arc::new(Connection::new(multiplexed));
        isolate(|| tracing::debug!(server = %endpoint.address, "redis connection opened"));
        let connected = Arc::clone(&connection);
        let task: ConnectionTask = Box::pin(async move {
            connected.drive(driver).await;
            // Before the pool closes this connection and opens the next one, which has to see the doubt.
            role_check.mark_doubtful();
            isolate(|| tracing::debug!(server = %endpoint.address, "redis connection ended"));
        });
        Ok((connection, task))
    }

    fn connect_timeout(&self) -> Duration {
        self.endpoint.config.server.connect_timeout
    }

    fn timed_out(&self, _target: &()) -> Failure {
        Failure::timed_out(&self.endpoint.address, "opening a connection", self.connect_timeout())
    }

    fn failure(&self, kind: Kind, message: &'static str) -> Failure {
        Failure::new(kind, message)
    }

    fn not_opened(&self, _target: &(), failure: &Failure) {
        let server = &self.endpoint.address;
        isolate(|| tracing::debug!(%server, "redis connection not opened: {}", failure.message()));
    }

    fn closed(&self, connection: &Arc<Connection>) {
        connection.batcher.close();
    }
}

/// The driver's own handshake, which sends nothing: ours has been sent before ([`handshake`](super::handshake)).
pub(crate) static DRIVER_SETUP: LazyLock<RedisConnectionInfo> =
    LazyLock::new(|| RedisConnectionInfo::default().set_skip_set_lib_name());

async fn open(
    endpoint: &Endpoint,
    keeper: &Keeper,
    role_check: &RoleCheck,
) -> Result<(MultiplexedConnection, impl Future<Output = ()> + Send + Unpin + 'static + use<>), Failure> {
    let socket = endpoint.open_in_turn(keeper).await?;
    // The driver's timers would need a runtime with timers.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let ready = MultiplexedConnection::new_with_config(&DRIVER_SETUP, socket, config).await;
    let (multiplexed, driver) = ready.map_err(|error| broken(endpoint, Kind::Protocol, &error))?;
    let driver = Box::pin(driver);
    if !role_check.is_doubtful() {
        return Ok((multiplexed, driver));
    }
    let asked = ask_for_role(multiplexed.clone(), driver).await;
    let (answer, driver) = asked.map_err(|error| broken(endpoint, error::kind_of_failure(&error), &error))?;
    role_check.check(&answer, &endpoint.address, keeper.now())?;
    Ok((multiplexed, driver))
}

/// Asks the server for its role on a connection that is not driven yet. Gives the driver back.
async fn ask_for_role<D: Future<Output = ()> + Send + Unpin>(
    mut multiplexed: MultiplexedConnection,
    driver: D,
) -> RedisResult<(Value, D)> {
    let mut hello = Cmd::new();
    hello.arg("HELLO");
    let answer = pin!(multiplexed.send_packed_command(&hello));
    match select(answer, driver).await {
        Either::Left((answer, driver)) => Ok((answer?, driver)),
        // The driver has ended, so the answer is the reason.
        Either::Right(((), answer)) => Err(answer.await.err().unwrap_or_else(connection_ended)),
    }
}

fn broken(endpoint: &Endpoint, kind: Kind, error: &RedisError) -> Failure {
    let said = excerpt(format_args!("{error}"));
    Failure::new(kind, format!("the connection to {} failed: {said}", endpoint.address))
}
