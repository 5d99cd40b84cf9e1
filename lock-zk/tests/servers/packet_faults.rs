//! Relays that lose, hold or change one packet of a connection.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use lock_conformance::{Framing, Gate, Relay, Traffic, resolve};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
};

use crate::server::{TICK, TestServer};

/// The names in a queue.
pub(crate) const LIST: i32 = 8;
/// The data of a node, with a watch or without.
pub(crate) const DATA: i32 = 4;
/// The rights of a node.
pub(crate) const RIGHTS: i32 = 6;
/// A new node, whose status is answered.
pub(crate) const CREATE: i32 = 15;

/// Asks a server for its status. It answers in text, and closes the connection.
const STATUS: &[u8] = b"srvr";

/// The number of the server's notifications.
const NOTIFICATION: i32 = -1;

/// A relay in front of a server, and the URL by which clients connect through it.
pub(crate) fn relay(server: &TestServer, framing: Arc<dyn Framing>) -> (Relay, String) {
    let relay = Relay::start(resolve(server.address()), framing);
    let url = format!("zk://{}{}?tick={}ms", relay.address(), server.admin().chroot(), TICK.as_millis());
    (relay, url)
}

/// Breaks a connection at the next request of some kind that contains a name. The request does not arrive.
#[derive(Debug, Default)]
pub(crate) struct ConnectionBreaker(Mutex<Option<(i32, String)>>);

impl ConnectionBreaker {
    pub(crate) fn at(&self, operation: i32, name: &str) {
        *self.0.lock().unwrap() = Some((operation, name.to_owned()));
    }

    /// Whether it has broken a connection.
    pub(crate) fn is_over(&self) -> bool {
        self.0.lock().unwrap().is_none()
    }

    fn fate_of(&self, packet: &[u8]) -> PacketFate {
        // The first packet of a connection opens the session, and contains no name.
        let here = self
            .0
            .lock()
            .unwrap()
            .take_if(|(operation, name)| number(packet, 8) == *operation && names(packet, name));
        if here.is_some() { PacketFate::Breaks } else { PacketFate::Passes }
    }
}

#[async_trait]
impl Framing for ConnectionBreaker {
    async fn serve(&self, client: TcpStream, address: SocketAddr, _: Arc<Traffic>) -> io::Result<()> {
        pass(client, address, |packet| self.fate_of(packet), |_| PacketFate::Passes).await
    }
}

/// Counts the requests that contain a name and forwards them, or loses those of one kind, which then are not answered.
#[derive(Debug)]
pub(crate) struct RequestCounter {
    name: String,
    asked: Mutex<BTreeMap<i32, u64>>,
    lost: Mutex<Option<i32>>,
}

impl RequestCounter {
    pub(crate) fn about(name: &str) -> Self {
        Self { name: name.to_owned(), asked: Mutex::default(), lost: Mutex::default() }
    }

    /// The number of requests of some kind.
    pub(crate) fn of(&self, operation: i32) -> u64 {
        self.asked.lock().unwrap().get(&operation).copied().unwrap_or_default()
    }

    /// Loses requests of this kind from now on. With `None`, no more are lost.
    pub(crate) fn lose(&self, operation: Option<i32>) {
        *self.lost.lock().unwrap() = operation;
    }

    fn fate_of(&self, packet: &[u8]) -> PacketFate {
        let operation = number(packet, 8);
        if !names(packet, &self.name) {
            return PacketFate::Passes;
        }
        *self.asked.lock().unwrap().entry(operation).or_default() += 1;
        if *self.lost.lock().unwrap() == Some(operation) { PacketFate::IsLost } else { PacketFate::Passes }
    }
}

#[async_trait]
impl Framing for RequestCounter {
    async fn serve(&self, client: TcpStream, address: SocketAddr, _: Arc<Traffic>) -> io::Result<()> {
        pass(client, address, |packet| self.fate_of(packet), |_| PacketFate::Passes).await
    }
}

/// Makes the server seem to grant shorter sessions, by changing its answer to a client that connects.
#[derive(Debug, Default)]
pub(crate) struct SessionShortener(Mutex<Option<Duration>>);

impl SessionShortener {
    /// Changes the timeout from the next connection on.
    pub(crate) fn to(&self, timeout: Duration) {
        *self.0.lock().unwrap() = Some(timeout);
    }
}

#[async_trait]
impl Framing for SessionShortener {
    async fn serve(&self, client: TcpStream, address: SocketAddr, _: Arc<Traffic>) -> io::Result<()> {
        let (shorter, welcomed) = (*self.0.lock().unwrap(), AtomicBool::new(false));
        let answer = |packet: &[u8]| match shorter {
            Some(timeout) if !welcomed.swap(true, Ordering::Relaxed) => {
                // After the length come the version of the protocol and the timeout.
                let millis = i32::try_from(timeout.as_millis()).expect("tests use short timeouts");
                let mut welcome = packet.to_vec();
                welcome[8..12].copy_from_slice(&millis.to_be_bytes());
                PacketFate::Becomes(welcome)
            }
            _ => PacketFate::Passes,
        };
        pass(client, address, |_| PacketFate::Passes, answer).await
    }
}

/// Holds the server's notification about some node, and everything after it; or loses all notifications.
#[derive(Debug, Default)]
pub(crate) struct NotificationFault(Mutex<Fate>);

#[derive(Debug, Default)]
enum Fate {
    #[default]
    Pass,
    Held(String, Gate),
    Lost,
}

impl NotificationFault {
    /// Holds the next notification about this node, and everything after it, until the gate opens.
    pub(crate) fn hold(&self, node: &str) -> Gate {
        let gate = Gate::new();
        *self.0.lock().unwrap() = Fate::Held(node.to_owned(), gate.clone());
        gate
    }

    pub(crate) fn lose(&self) {
        *self.0.lock().unwrap() = Fate::Lost;
    }

    fn fate_of(&self, packet: &[u8]) -> PacketFate {
        match &*self.0.lock().unwrap() {
            Fate::Held(node, gate) if number(packet, 4) == NOTIFICATION && names(packet, node) => {
                PacketFate::Waits(gate.clone())
            }
            Fate::Lost if number(packet, 4) == NOTIFICATION => PacketFate::IsLost,
            _ => PacketFate::Passes,
        }
    }
}

#[async_trait]
impl Framing for NotificationFault {
    async fn serve(&self, client: TcpStream, address: SocketAddr, _: Arc<Traffic>) -> io::Result<()> {
        pass(client, address, |_| PacketFate::Passes, |packet| self.fate_of(packet)).await
    }
}

/// What happens to a packet.
enum PacketFate {
    Passes,
    /// This packet of the same length arrives instead.
    Becomes(Vec<u8>),
    Waits(Gate),
    IsLost,
    /// The connection breaks at this packet.
    Breaks,
}

/// Forwards packets according to their fates.
async fn pass(
    mut client: TcpStream,
    address: SocketAddr,
    request: impl Fn(&[u8]) -> PacketFate + Send + Sync,
    answer: impl Fn(&[u8]) -> PacketFate + Send + Sync,
) -> io::Result<()> {
    let mut server = TcpStream::connect(address).await?;
    let mut first = [0; STATUS.len()];
    let len = client.peek(&mut first).await?;
    if &first[..len] == STATUS {
        copy_bidirectional(&mut client, &mut server).await?;
        return Ok(());
    }
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    tokio::try_join!(one_way(from_client, to_server, request), one_way(from_server, to_client, answer))?;
    Ok(())
}

async fn one_way(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    fate_of: impl Fn(&[u8]) -> PacketFate + Send + Sync,
) -> io::Result<()> {
    let mut read = Vec::new();
    while from.read_buf(&mut read).await? > 0 {
        while let Some(len) = packet(&read) {
            let mut passes = true;
            match fate_of(&read[..len]) {
                PacketFate::Passes => {}
                PacketFate::Becomes(other) => read[..len].copy_from_slice(&other),
                PacketFate::Waits(gate) => gate.pass().await,
                PacketFate::IsLost => passes = false,
                PacketFate::Breaks => return Err(io::ErrorKind::ConnectionReset.into()),
            }
            if passes {
                to.write_all(&read[..len]).await?;
            }
            read.drain(..len);
        }
    }
    to.shutdown().await
}

/// The length of the first packet, if it is complete.
fn packet(read: &[u8]) -> Option<usize> {
    let len = usize::try_from(i32::from_be_bytes(*read.first_chunk()?)).ok()? + 4;
    (len >= 12 && read.len() >= len).then_some(len)
}

fn number(packet: &[u8], at: usize) -> i32 {
    packet[at..].first_chunk().map_or(0, |word| i32::from_be_bytes(*word))
}

fn names(packet: &[u8], name: &str) -> bool {
    packet.windows(name.len()).any(|part| part == name.as_bytes())
}
