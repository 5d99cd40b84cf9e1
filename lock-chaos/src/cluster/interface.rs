//! [`Cluster`]: what the rig does to a cluster.

use std::{error::Error, fmt, net::SocketAddr};

use async_trait::async_trait;
use lock_conformance::ServerProgram;

use crate::{error::Result, fault::ServerFault};

/// A store that runs. Dropping it ends its servers, and removes their data.
#[async_trait]
pub(crate) trait Cluster: fmt::Debug + Send + Sync {
    /// Where each member listens for clients. None where there is no server.
    fn addresses(&self) -> Vec<SocketAddr>;

    /// The URL for a client that finds the members at these addresses, in the same order.
    fn url(&self, addresses: &[SocketAddr]) -> String;

    /// The program of a client, as this cluster needs it to be started.
    fn client(&self, program: ServerProgram) -> ServerProgram {
        program
    }

    /// Which member leads, as soon as one does.
    async fn leader(&self) -> Result<usize>;

    /// Returns when all members serve. It is an error if one has ended by itself, or if a fault did nothing.
    async fn all_serve(&self) -> Result<()>;

    /// Makes this happen to some members.
    async fn inflict(&self, fault: ServerFault, members: &[usize]) -> Result<()>;

    /// Makes it end, and returns when members that were down serve again.
    async fn undo(&self, fault: ServerFault, members: &[usize]) -> Result<()>;
}

/// The plan has faults that this cluster cannot have.
pub(super) fn not_here(fault: ServerFault) -> Box<dyn Error + Send + Sync> {
    format!("this cluster cannot have the fault {fault:?}").into()
}

/// Addresses as URLs have them: `host:port,…`.
pub(super) fn joined(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// An address on the loopback interface.
pub(super) fn local(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}
