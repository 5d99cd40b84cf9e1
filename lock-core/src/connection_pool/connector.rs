//! [`Connector`]: how a backend opens its connections.

use std::{fmt, future::Future, pin::Pin, time::Duration};

use async_trait::async_trait;

use crate::{BackendErrorKind, Keeper};

/// Drives a connection: it is spawned on the runtime that opened the connection. The connection has ended when it is ready, and is closed
/// when it is dropped. It must not keep the [`Keeper`], whose thread would never end then.
pub type ConnectionTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How a backend opens its connections. A [`ConnectionPool`](crate::ConnectionPool) decides when, and on which runtime.
///
/// ### To ensure correctness
/// Apart from [`open`](Self::open), the methods return immediately, and do not call the pool.
#[async_trait]
pub trait Connector: fmt::Debug + Send + Sync + 'static {
    /// What a connection is for: each runtime has at most one for each target. It names the server if the store has several that cannot
    /// stand in for each other, and the purpose if requests must not share a connection with others. `()` if there is only one.
    type Target: Clone + Eq + fmt::Debug + Send + Sync + 'static;

    /// An open connection, as requests use it: all of one runtime at the same time. Each request gets a clone, which should be cheap.
    type Connection: Clone + Send + Sync + 'static;

    /// Why a connection could not be opened. Each caller that waited for it gets a clone.
    type Failure: Clone + Send + Sync + 'static;

    /// Opens a connection on the current runtime, ready for requests. The pool bounds the time.
    ///
    /// Where the runtime cannot drive a connection, because it was built without its I/O driver (or its timers, if the connection needs
    /// those), this panics, as tokio does. Then the keeper serves the callers of that runtime.
    ///
    /// # Errors
    /// The failure of this attempt. All callers that wait for it get it, and the next caller makes another attempt. To space the attempts
    /// while a server is away, use one [`CircuitBreaker`](crate::CircuitBreaker) for each server.
    ///
    /// # Cancel safety
    /// It is dropped at the time limit, with its runtime, and when no caller has the connection any more.
    async fn open(
        &self,
        target: &Self::Target,
        keeper: &Keeper,
    ) -> Result<(Self::Connection, ConnectionTask), Self::Failure>;

    /// How long [`open`](Self::open) may take.
    fn connect_timeout(&self) -> Duration;

    /// The failure of an attempt that took longer than that.
    fn timed_out(&self, target: &Self::Target) -> Self::Failure;

    /// The failure of an attempt that ended because of its runtime: a panic, or a shutdown.
    fn failure(&self, kind: BackendErrorKind, message: &'static str) -> Self::Failure;

    /// An attempt has failed, or took too long: the place for a line in the log. Called once for each attempt, before its callers are told.
    fn not_opened(&self, target: &Self::Target, failure: &Self::Failure);

    /// An open connection has ended, and no caller gets it any more: requests that wait to be sent on it can be refused. Called
    /// however it ended: by itself, with its runtime, in a panic. Does nothing by default.
    fn closed(&self, connection: &Self::Connection) {
        let _ = connection;
    }
}
