//! [`Proxy`]: a TCP proxy that injects network faults.

mod connection_table;
mod link;
mod orders;
mod pump;

use std::{
    net::{self, SocketAddr},
    sync::Arc,
    thread,
};

use tokio::{net::TcpListener, runtime, sync::oneshot};

pub use self::orders::{Flow, Links, Newcomers, Way};
use self::{connection_table::ConnectionTable, link::Link};

/// A TCP proxy in front of a server. It runs on its own thread, and forwards everything until it is given
/// [orders](Self::order). Dropping it breaks all its connections.
///
/// It knows no protocol, so it cannot lose one request and forward the next: once a byte is lost on a connection, all that
/// follow in that direction are lost too, as in a network. A [`Relay`](crate::Relay) knows the protocol.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    table: Arc<ConnectionTable>,
    /// The thread ends when this is dropped.
    _running: oneshot::Sender<()>,
}

impl Proxy {
    /// A proxy on a free port of the loopback interface. `carries_hints` gets what a client has sent on a connection so far, and tells
    /// whether the connection carries hints.
    ///
    /// # Panics
    /// If there is no free port, or no thread can be started.
    #[must_use]
    pub fn start(server: SocketAddr, carries_hints: fn(&[u8]) -> bool) -> Self {
        let listener = net::TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
        listener.set_nonblocking(true).expect("a listener need not block");
        let address = listener.local_addr().expect("a listener has an address");
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be started");
        let table = Arc::new(ConnectionTable::new(carries_hints));
        let (running, over) = oneshot::channel::<()>();
        let serving = serve(listener, server, Arc::clone(&table));
        let thread = thread::Builder::new().name("proxy".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    // The proxy was dropped.
                    _ = over => {}
                    () = serving => {}
                }
            });
        });
        thread.expect("a thread can be started");
        Self { address, table, _running: running }
    }

    /// Whether hints and commands share connections, so that neither can be disturbed alone.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.table.is_shared()
    }

    /// The address for clients to connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Decides what happens to bytes that the proxy has not read yet. Bytes that it has read follow the order at that time. On a
    /// connection that has lost bytes, only [`reset`](Self::reset) has an effect.
    ///
    /// # Panics
    /// With [`Links::OpenCommands`] if [hints and commands share](Self::is_shared) connections.
    pub fn order(&self, links: Links, way: Way, flow: &Flow) {
        self.table.order(links, way, flow);
    }

    /// Makes connections half-open: nothing arrives in either direction, and neither side gets an error.
    ///
    /// # Panics
    /// As [`order`](Self::order).
    pub fn silence(&self, links: Links) {
        self.order(links, Way::Requests, &Flow::Lose);
        self.order(links, Way::Replies, &Flow::Lose);
    }

    /// Resets connections on both sides.
    ///
    /// # Panics
    /// As [`order`](Self::order).
    pub fn reset(&self, links: Links) {
        self.table.reset(links);
    }

    /// Decides what happens to new connections.
    pub fn newcomers(&self, newcomers: Newcomers) {
        self.table.lock().newcomers = newcomers;
    }

    /// Removes all orders. Connections that have lost bytes stay as they are.
    pub fn heal(&self) {
        self.order(Links::All, Way::Requests, &Flow::Pass);
        self.order(Links::All, Way::Replies, &Flow::Pass);
        self.newcomers(Newcomers::Serve);
    }

    /// How many connections were opened so far, [refused](Self::refused) ones not counted.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.table.lock().opened
    }

    /// How many connections were refused so far, as [`Newcomers::Refuse`] says.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.table.lock().refused
    }

    /// How many bytes were received so far, from clients and from the server.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.table.lock().read
    }

    /// How many connections are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.table.lock().links.len()
    }

    /// How many of the open connections carry hints.
    #[must_use]
    pub fn hinting(&self) -> usize {
        self.table.lock().links.values().filter(|link| link.hints).count()
    }

    /// Whether the server has carried out all requests that reached it from clients that are gone: it has closed those connections.
    /// Connections that have lost bytes are not counted, since they do not end.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.table.lock().links.values().all(|link| !link.is_draining())
    }
}

async fn serve(listener: net::TcpListener, server: SocketAddr, table: Arc<ConnectionTable>) {
    let listener = TcpListener::from_std(listener).expect("a listener that does not block can be used here");
    loop {
        // A client may be gone before it is accepted.
        let Ok((client, _)) = listener.accept().await else { continue };
        let newcomers = table.arrival();
        if newcomers == Newcomers::Refuse {
            link::abort(&client);
            continue;
        }
        let link = Link::new(Arc::clone(&table), newcomers);
        tokio::spawn(link.run(client, server));
    }
}

#[cfg(test)]
mod tests;
