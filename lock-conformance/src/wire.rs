//! [`Wire`]: the connection between clients and a server, into which a [`Proxy`](crate::Proxy) or a [`Relay`](crate::Relay) can be put.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Backend, Keeper};

use crate::{Framing, Verb};

/// The connection of a store whose clients reach a server over TCP.
#[async_trait]
pub trait Wire: Send + Sync {
    /// Where the server listens.
    fn server(&self) -> SocketAddr;

    /// A new client, as [`Harness::connect`](crate::Harness::connect) makes it, that connects to this address instead.
    async fn connect_by(&self, keeper: &Keeper, address: SocketAddr) -> Arc<dyn Backend>;

    /// Decides whether a connection carries hints, by the bytes that the client has sent on it so far. Where commands and hints share
    /// one connection, every connection does.
    fn carries_hints(&self) -> fn(&[u8]) -> bool;

    /// How soon the store promises to notice that a connection for hints has died silently.
    fn noticed_within(&self) -> Duration;

    /// Separates requests, answers and hints on a connection.
    fn framing(&self) -> Arc<dyn Framing>;

    /// The names of the requests that a verb can send, as the [framing](Self::framing) names them. Looking again is an
    /// [`Enter`](Verb::Enter), too.
    fn requests(&self, verb: Verb) -> &'static [&'static str];
}
