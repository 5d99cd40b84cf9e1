//! [`Wire`]: the connection between clients and a server, for a [`Proxy`](crate::Proxy) or a [`Relay`](crate::Relay) to stand in.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Backend, Keeper};

use crate::{Framing, Verb};

/// A store whose clients speak to a server over TCP.
#[async_trait]
pub trait Wire: Send + Sync {
    /// Where the server listens.
    fn server(&self) -> SocketAddr;

    /// A new client, as [`Harness::connect`](crate::Harness::connect) makes it, that connects to this address instead.
    async fn connect_by(&self, keeper: &Keeper, address: SocketAddr) -> Arc<dyn Backend>;

    /// Tells, by what a client has sent on a connection so far, whether hints come on it. Where commands and hints share
    /// one connection, all do.
    fn carries_hints(&self) -> fn(&[u8]) -> bool;

    /// How soon the store promises to notice that a connection for hints has died in silence.
    fn noticed_within(&self) -> Duration;

    /// How requests, answers and hints are told apart on a connection.
    fn framing(&self) -> Arc<dyn Framing>;

    /// The names, as the [framing](Self::framing) gives them, of the requests that a verb can be. A look again is an
    /// [`Enter`](Verb::Enter), too.
    fn requests(&self, verb: Verb) -> &'static [&'static str];
}
