//! Wires on which one packet meets its fate.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use lock_conformance::{Framing, Gate, Relay, Traffic};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
};

use crate::server::{TICK, TestServer};

/// The names in a queue.
pub(crate) const LIST: i32 = 8;
/// What stands in a node. With a watch, or without.
pub(crate) const DATA: i32 = 4;

/// The number of what the server says unasked.
const WORD: i32 = -1;

/// A relay before a server, and the URL by which clients go through it.
pub(crate) fn relay(server: &TestServer, framing: Arc<dyn Framing>) -> (Relay, String) {
    let mut found = server.address().to_socket_addrs().expect("the server has an address");
    let relay = Relay::start(found.next().expect("the server has an address"), framing);
    let url = format!("zk://{}{}?tick={}ms", relay.address(), server.admin().chroot(), TICK.as_millis());
    (relay, url)
}

/// Breaks a connection when the next request of some kind comes on it that names something: that one does not arrive.
#[derive(Debug, Default)]
pub(crate) struct Breaks(Mutex<Option<(i32, String)>>);

impl Breaks {
    pub(crate) fn at(&self, operation: i32, name: &str) {
        *self.0.lock().unwrap() = Some((operation, name.to_owned()));
    }

    /// Whether it broke.
    pub(crate) fn is_over(&self) -> bool {
        self.0.lock().unwrap().is_none()
    }

    fn judge(&self, packet: &[u8]) -> io::Result<Option<Gate>> {
        // The first packet of a connection opens the session, and names nothing.
        let here = self
            .0
            .lock()
            .unwrap()
            .take_if(|(operation, name)| number(packet, 8) == *operation && names(packet, name));
        if here.is_some() { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(None) }
    }
}

#[async_trait]
impl Framing for Breaks {
    async fn serve(&self, client: TcpStream, address: SocketAddr, _: Arc<Traffic>) -> io::Result<()> {
        pass(client, address, |packet| self.judge(packet), |_| Ok(None)).await
    }
}

/// Holds up what the server says unasked of some node, and all that comes behind that.
#[derive(Debug, Default)]
pub(crate) struct HoldsWords(Mutex<Option<(String, Gate)>>);

impl HoldsWords {
    /// From the next word about this node on, until the gate opens.
    pub(crate) fn of(&self, node: &str) -> Gate {
        let gate = Gate::new();
        *self.0.lock().unwrap() = Some((node.to_owned(), gate.clone()));
        gate
    }

    fn judge(&self, packet: &[u8]) -> Option<Gate> {
        let held = self.0.lock().unwrap();
        let here = held.as_ref().filter(|(node, _)| number(packet, 4) == WORD && names(packet, node));
        here.map(|(_, gate)| gate.clone())
    }
}

#[async_trait]
impl Framing for HoldsWords {
    async fn serve(&self, client: TcpStream, address: SocketAddr, _: Arc<Traffic>) -> io::Result<()> {
        pass(client, address, |_| Ok(None), |packet| Ok(self.judge(packet))).await
    }
}

/// Passes packets on, each when it may: the first error breaks the connection.
async fn pass(
    mut client: TcpStream,
    address: SocketAddr,
    request: impl Fn(&[u8]) -> io::Result<Option<Gate>> + Send + Sync,
    answer: impl Fn(&[u8]) -> io::Result<Option<Gate>> + Send + Sync,
) -> io::Result<()> {
    let mut server = TcpStream::connect(address).await?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    tokio::try_join!(one_way(from_client, to_server, request), one_way(from_server, to_client, answer))?;
    Ok(())
}

async fn one_way(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    judge: impl Fn(&[u8]) -> io::Result<Option<Gate>> + Send + Sync,
) -> io::Result<()> {
    let mut read = Vec::new();
    while from.read_buf(&mut read).await? > 0 {
        while let Some(len) = packet(&read) {
            if let Some(gate) = judge(&read[..len])? {
                gate.pass().await;
            }
            to.write_all(&read[..len]).await?;
            read.drain(..len);
        }
    }
    to.shutdown().await
}

/// How long the first packet is, if it is whole.
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
