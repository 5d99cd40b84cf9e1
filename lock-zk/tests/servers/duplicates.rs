//! The behaviour of a server when a request arrives twice, which is why T04 is declared.
//!
//! For ZooKeeper, a request belongs to its connection, and a session has one connection at a time. So a second copy of a request arrives
//! either on the same connection, where TCP delivers nothing twice, or on another one, which ends the first.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
};

use crate::server::TestServer;
use lock_conformance::SLACK;

/// A connection as the server sees it: packets, each after its length.
struct Packets(TcpStream);

/// What a client needs to attach to a session again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ticket {
    session: i64,
    password: Vec<u8>,
}

/// The answer to a request: its number, its error code or 0, and its content.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    number: i32,
    error: i32,
    said: Vec<u8>,
}

impl Packets {
    /// Opens a session, or attaches to one.
    fn open(address: &str, ticket: &Ticket) -> (Self, Ticket) {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(SLACK)).unwrap();
        let mut packets = Self(stream);
        let password = if ticket.password.is_empty() { vec![0; 16] } else { ticket.password.clone() };
        let (version, seen, timeout) = (0_i32, 0_i64, 10_000_i32);
        packets.send(
            &[
                &version.to_be_bytes()[..],
                &seen.to_be_bytes(),
                &timeout.to_be_bytes(),
                &ticket.session.to_be_bytes(),
                &buffer(&password),
                &[0],
            ]
            .concat(),
        );
        let welcome = packets.next().unwrap();
        let session = i64::from_be_bytes(*welcome[8..].first_chunk().unwrap());
        let password = welcome[20..36].to_vec();
        (packets, Ticket { session, password })
    }

    fn send(&mut self, packet: &[u8]) {
        self.0.write_all(&buffer(packet)).unwrap();
    }

    /// The next packet. `None` if the server has closed the connection.
    fn next(&mut self) -> Option<Vec<u8>> {
        let mut len = [0; 4];
        if let Err(error) = self.0.read_exact(&mut len) {
            assert!(matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{error}");
            return None;
        }
        let mut packet = vec![0; u32::from_be_bytes(len) as usize];
        self.0.read_exact(&mut packet).unwrap();
        Some(packet)
    }

    fn answer(&mut self) -> Answer {
        let packet = self.next().expect("an answer");
        let number = |at: usize| i32::from_be_bytes(*packet[at..].first_chunk().unwrap());
        Answer { number: number(0), error: number(12), said: packet[16..].to_vec() }
    }

    fn hangs_up(&mut self) -> bool {
        self.next().is_none()
    }
}

/// Bytes after their length.
fn buffer(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

/// A request to create a node like that of an entry: ephemeral, and numbered by the server.
fn create(number: i32, path: &str) -> Vec<u8> {
    let (operation, all, ephemeral_sequential) = (1_i32, 31_i32, 3_i32);
    [
        &number.to_be_bytes()[..],
        &operation.to_be_bytes(),
        &buffer(path.as_bytes()),
        &buffer(b""),
        &1_i32.to_be_bytes(),
        &all.to_be_bytes(),
        &buffer(b"world"),
        &buffer(b"anyone"),
        &ephemeral_sequential.to_be_bytes(),
    ]
    .concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_packet_that_comes_twice_on_its_connection_is_carried_out_twice() {
    let server = TestServer::own().await;
    let (mut packets, _) = Packets::open(&server.address(), &Ticket::default());
    for _ in 0..2 {
        packets.send(&create(7, "/entry-"));
    }
    let answers = [packets.answer(), packets.answer()];
    let made = ["/entry-0000000000", "/entry-0000000001"].map(|path| Answer {
        number: 7,
        error: 0,
        said: buffer(path.as_bytes()),
    });
    assert_eq!(answers, made, "the number is that of an answer, and does not tell requests apart");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_comes_on_another_connection_is_gone_from_the_one_before() {
    let server = TestServer::own().await;
    let (mut first, ticket) = Packets::open(&server.address(), &Ticket::default());
    first.send(&create(1, "/entry-"));
    assert_eq!(first.answer().error, 0);
    let (mut second, again) = Packets::open(&server.address(), &ticket);
    assert_eq!(again, ticket, "it is the same session");
    assert!(first.hangs_up(), "a session has two connections");
    // A client that sends the request there has opened that connection itself, and knows that this is a second request.
    second.send(&create(1, "/entry-"));
    assert_eq!(second.answer().said, buffer(b"/entry-0000000001"));
}
