//! [`Port`]: a port for a test server, which stays reserved while the server is down.

use std::fmt;

use lock_core::{Entropy, SystemEntropy};
use tokio::net::TcpSocket;

/// A reserved port of the loopback interface, whether or not a server listens on it: until this is dropped, no test and no outgoing
/// connection on this machine gets the port. So a server that was killed can be started again on its port.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Bound, but never listening. A server can bind the port as well, because both set `SO_REUSEADDR`, as servers do so that they can be
    /// started again immediately.
    _reservation: TcpSocket,
}

impl Port {
    /// Reserves a free port, below the range from which the system takes ports for outgoing connections.
    ///
    /// # Panics
    /// If the system gives no socket.
    #[must_use]
    pub fn reserve() -> Self {
        loop {
            let number = 20_000 + (SystemEntropy.bits() % 12_000) as u16;
            let reservation = TcpSocket::new_v4().expect("the system has a socket for us");
            // Without the option at first: that fails if any other socket has the port, listening or not.
            if reservation.bind(([127, 0, 0, 1], number).into()).is_ok() {
                reservation.set_reuseaddr(true).expect("a socket of our own takes the option");
                return Self { number, _reservation: reservation };
            }
        }
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// Its number, as in an address.
impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}
