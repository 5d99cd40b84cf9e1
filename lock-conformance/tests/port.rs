//! Alone in its process: a test that starts a process at the same moment would lend it what listens here, until it runs.

use std::net::{TcpListener, TcpStream};

use lock_conformance::Port;
use tokio::net::TcpSocket;

fn is_refused_to_others(port: &Port) -> bool {
    TcpSocket::new_v4().unwrap().bind(([127, 0, 0, 1], port.number()).into()).is_err()
}

#[test]
fn a_port_is_for_the_server_that_it_was_reserved_for_and_for_nobody_else() {
    let port = Port::reserve();
    for _ in 0..3 {
        assert!(is_refused_to_others(&port), "while the server is down");
        assert!(TcpStream::connect(("127.0.0.1", port.number())).is_err(), "nobody listens");
        let server = TcpListener::bind(("127.0.0.1", port.number())).unwrap();
        let client = TcpStream::connect(("127.0.0.1", port.number())).unwrap();
        // What the server ends first stays with its port for a while.
        drop((server.accept().unwrap(), server, client));
    }
    assert!(is_refused_to_others(&port), "after the server");
}
