//! [`Network`]: a proxy between each client and each server.

use std::net::SocketAddr;

use lock_conformance::{Flow, Links, Newcomers, Proxy, Way};

use crate::fault::{Cut, Side};

/// The proxies of each client, by its seat: one for each server.
#[derive(Debug)]
pub(crate) struct Network(Vec<Vec<Proxy>>);

impl Network {
    pub(crate) fn new(seats: usize, servers: &[SocketAddr]) -> Self {
        let proxies = || servers.iter().map(|server| Proxy::start(*server, |_| false)).collect::<Vec<_>>();
        Self((0..seats).map(|_| proxies()).collect())
    }

    /// Where a client finds the servers.
    pub(crate) fn addresses(&self, seat: usize) -> Vec<SocketAddr> {
        self.0[seat].iter().map(Proxy::address).collect()
    }

    pub(crate) fn cut(&self, side: Side, cut: Cut) {
        for proxy in self.of(side) {
            match cut {
                Cut::Both => proxy.silence(Links::All),
                Cut::Requests => proxy.order(Links::All, Way::Requests, &Flow::Lose),
                Cut::Replies => proxy.order(Links::All, Way::Replies, &Flow::Lose),
                Cut::Refuse => {
                    proxy.newcomers(Newcomers::Refuse);
                    proxy.reset(Links::All);
                }
            }
        }
    }

    /// Lets everything pass again. Connections that have lost bytes are of no use any more.
    pub(crate) fn heal(&self, side: Side) {
        for proxy in self.of(side) {
            proxy.heal();
            proxy.reset(Links::All);
        }
    }

    fn of(&self, side: Side) -> Vec<&Proxy> {
        match side {
            Side::Client(seat) => self.0[seat].iter().collect(),
            Side::Member(member) => self.0.iter().map(|proxies| &proxies[member]).collect(),
        }
    }
}
