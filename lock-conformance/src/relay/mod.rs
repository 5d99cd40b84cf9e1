//! [`Relay`]: stands between a client and its server, and knows what they say to each other.

mod framed;
mod framing;
mod traffic;

use std::{
    collections::BTreeMap,
    net::{self, SocketAddr},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tokio::{net::TcpListener, runtime, sync::oneshot};

pub use self::{
    framed::{Answer, Frame, Framed, Frames, Request},
    framing::Framing,
    traffic::Traffic,
};
use crate::Gate;

/// A proxy that tells requests and answers apart, which a [`Proxy`](crate::Proxy) cannot. It runs on a thread of its own.
/// Dropping it breaks all connections that it has.
///
/// No timer decides what it does. If what it was told to do cannot be done, that is a fault of the harness, and
/// [`watch`](Self::watch) says so.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    traffic: Arc<Traffic>,
    /// The thread ends when this is dropped.
    _running: oneshot::Sender<()>,
}

impl Relay {
    /// A relay on a free port of the loopback interface that passes everything on.
    ///
    /// # Panics
    /// If there is no free port, or no thread can be started.
    #[must_use]
    pub fn start(server: SocketAddr, framing: Arc<dyn Framing>) -> Self {
        Self::of(server, framing, Traffic::new(false))
    }

    /// The same, and each request reaches the server twice: again, on a connection beside the client's, when the first was
    /// answered, and the client has its answer only when the second was answered, too, and in full.
    ///
    /// # Panics
    /// As [`start`](Self::start) does.
    #[must_use]
    pub fn doubling(server: SocketAddr, framing: Arc<dyn Framing>) -> Self {
        Self::of(server, framing, Traffic::new(true))
    }

    fn of(server: SocketAddr, framing: Arc<dyn Framing>, traffic: Traffic) -> Self {
        let listener = net::TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
        listener.set_nonblocking(true).expect("a listener need not block");
        let address = listener.local_addr().expect("a listener has an address");
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be started");
        let traffic = Arc::new(traffic);
        let (running, over) = oneshot::channel::<()>();
        let serving = serve(listener, server, framing, Arc::clone(&traffic));
        let thread = thread::Builder::new().name("relay".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    // The relay is dropped: there is nobody to tell.
                    _ = over => {}
                    () = serving => {}
                }
            });
        });
        thread.expect("a thread can be started");
        Self { address, traffic, _running: running }
    }

    /// Where clients connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Keeps every answer from its client until the gate opens. Requests arrive, and so do hints that the server sends
    /// beside its answers; where both come in one stream of bytes, what was said behind an answer stays behind it.
    pub fn hold(&self, gate: &Gate) {
        self.traffic.hold(gate);
    }

    /// How many requests of each name were sent so far.
    #[must_use]
    pub fn asked(&self) -> BTreeMap<String, u64> {
        self.traffic.counts().asked.clone()
    }

    /// How many requests of each name have reached the server twice, and were answered twice.
    #[must_use]
    pub fn doubled(&self) -> BTreeMap<String, u64> {
        self.traffic.counts().doubled.clone()
    }

    /// Waits until every request that was sent so far has reached the server twice, and was answered twice.
    ///
    /// # Panics
    /// If that is not so within this time, with both numbers of each name.
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub async fn all_doubled(&self, within: Duration) {
        let end = Instant::now() + within;
        loop {
            let (asked, doubled) = {
                let counts = self.traffic.counts();
                (counts.asked.clone(), counts.doubled.clone())
            };
            if asked == doubled {
                return;
            }
            let late = Instant::now() >= end;
            assert!(
                !late,
                "not every request came twice within {within:?}: sent {asked:?}, twice {doubled:?}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// How many answers to requests of each name were kept at a gate.
    #[must_use]
    pub fn held(&self) -> BTreeMap<String, u64> {
        self.traffic.counts().held.clone()
    }

    /// How many hints the server has sent.
    #[must_use]
    pub fn hints(&self) -> u64 {
        self.traffic.counts().hints
    }

    /// Goes on with what relies on this relay for as long as it does what it was told.
    ///
    /// # Panics
    /// With what the relay could not do.
    ///
    /// # Cancel safety
    /// That of `work`.
    pub async fn watch<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            failure = self.traffic.failure() => panic!("the relay failed, and not the store: {failure}"),
            done = work => done,
        }
    }
}

async fn serve(
    listener: net::TcpListener,
    server: SocketAddr,
    framing: Arc<dyn Framing>,
    traffic: Arc<Traffic>,
) {
    let listener = TcpListener::from_std(listener).expect("a listener that does not block can be used here");
    loop {
        // A client may be gone before it is taken in.
        let Ok((client, _)) = listener.accept().await else { continue };
        // Only about speed.
        let _ = client.set_nodelay(true);
        let (framing, traffic) = (Arc::clone(&framing), Arc::clone(&traffic));
        tokio::spawn(async move {
            // What ends with an error ends the connection, as it would end without a relay.
            let _ = framing.serve(client, server, traffic).await;
        });
    }
}

#[cfg(test)]
mod tests;
