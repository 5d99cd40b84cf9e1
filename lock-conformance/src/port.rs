//! [`Port`]: a port for a server of our own, which stays ours while the server is down.

use std::fmt;

use lock_core::{Entropy, SystemEntropy};
use tokio::net::TcpSocket;

/// A port of the loopback interface that is ours, whether or not a server listens on it: while this lives, no test and no outgoing
/// connection on this machine is given it. So a server that was killed finds its port again.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Bound, and never listening. A server may bind it as well, because both allow for that (`SO_REUSEADDR`), as servers do that
    /// want to be started again at once.
    _reservation: TcpSocket,
}

impl Port {
    /// One that nobody has. Below the range from which the system takes ports for outgoing connections.
    ///
    /// # Panics
    /// If the system gives no socket.
    #[must_use]
    pub fn reserve() -> Self {
        loop {
            let number = 20_000 + (SystemEntropy.bits() % 12_000) as u16;
            let reservation = TcpSocket::new_v4().expect("the system has a socket for us");
            // Alone at first: what somebody else has, listening or not, is not for us.
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
