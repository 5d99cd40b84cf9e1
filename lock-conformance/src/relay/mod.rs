//! [`Relay`]: a proxy that understands the protocol between a client and its server.

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

/// A proxy that tells requests and answers apart, which a [`Proxy`](crate::Proxy) cannot. It runs on its own thread.
/// Dropping it breaks all its connections.
///
/// Nothing that it does depends on a timer. If it cannot do what it was told, the harness is at fault, and
/// [`watch`](Self::watch) reports it.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    traffic: Arc<Traffic>,
    /// The thread ends when this is dropped.
    _running: oneshot::Sender<()>,
}

impl Relay {
    /// A relay on a free port of the loopback interface that forwards everything.
    ///
    /// # Panics
    /// If there is no free port, or no thread can be started.
    #[must_use]
    pub fn start(server: SocketAddr, framing: Arc<dyn Framing>) -> Self {
        Self::of(server, framing, Traffic::new(false))
    }

    /// The same, but every request reaches the server twice. When the first one is answered, the request is sent again on another
    /// connection. The client gets its answer only after the second one was answered in full as well.
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
                    // The relay was dropped.
                    _ = over => {}
                    () = serving => {}
                }
            });
        });
        thread.expect("a thread can be started");
        Self { address, traffic, _running: running }
    }

    /// The address for clients to connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds every answer until the gate opens. Requests arrive, and so do hints that the server sends beside its answers. Where both
    /// share one stream of bytes, what follows an answer stays behind it.
    pub fn hold(&self, gate: &Gate) {
        self.traffic.hold(None, gate);
    }

    /// The same for answers to requests of this name only, as [`asked`](Self::asked) has it. All others pass, where they do not share one
    /// stream of bytes with an answer that is held.
    pub fn hold_only(&self, name: &str, gate: &Gate) {
        self.traffic.hold(Some(name), gate);
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

    /// Runs work that relies on this relay, unless the relay fails.
    ///
    /// # Panics
    /// If the relay fails, with the reason.
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
        // A client may be gone before it is accepted.
        let Ok((client, _)) = listener.accept().await else { continue };
        // Only about speed.
        let _ = client.set_nodelay(true);
        let (framing, traffic) = (Arc::clone(&framing), Arc::clone(&traffic));
        tokio::spawn(async move {
            // An error ends the connection, as it would without a relay.
            let _ = framing.serve(client, server, traffic).await;
        });
    }
}

#[cfg(test)]
mod tests;
