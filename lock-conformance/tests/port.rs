//! A test of its own program: if another test of this process started a process at the same moment, that process would inherit the
//! listening socket for an instant.

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
        // If the server closes a connection first, the connection keeps the port for a while.
        drop((server.accept().unwrap(), server, client));
    }
    assert!(is_refused_to_others(&port), "after the server");
}
