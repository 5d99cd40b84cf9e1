//! [`resolve`]: where a server listens that is known by its name.

use std::net::{SocketAddr, ToSocketAddrs};

/// The first address of a server, such as `db.example:5432`: what a [`Wire`](crate::Wire) and a [`Proxy`](crate::Proxy) take, where a URL
/// has a name.
///
/// # Panics
/// If it has no address.
#[must_use]
pub fn resolve(server: impl ToSocketAddrs) -> SocketAddr {
    let mut found = server.to_socket_addrs().expect("the server has an address");
    found.next().expect("the server has an address")
}
