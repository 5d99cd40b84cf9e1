//! [`proxy`]: a network that a test can disturb, where all connections carry the same.

use std::net::ToSocketAddrs;

use lock_conformance::{Proxy, resolve};

/// A proxy in front of a server, whose connections carry commands and hints alike, as those of etcd and ZooKeeper do.
///
/// # Panics
/// If the server has no address, or no proxy can be started.
#[must_use]
pub fn proxy(server: impl ToSocketAddrs) -> Proxy {
    Proxy::start(resolve(server), |_| true)
}
