//! [`ConnectionTable`]: the open connections of a proxy, and its orders.

use std::{collections::BTreeMap, sync::Arc};

use lock_core::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::orders::{Flow, Links, Newcomers, Way};

/// How many bytes of a client are examined to tell what a connection is for.
const GREETING: usize = 4096;

/// What a proxy shares with its connections.
#[derive(Debug)]
pub(super) struct ConnectionTable {
    carries_hints: fn(&[u8]) -> bool,
    state: Mutex<TableState>,
}

#[derive(Debug)]
pub(super) struct TableState {
    pub(super) links: BTreeMap<u64, Connection>,
    pub(super) newcomers: Newcomers,
    pub(super) opened: u64,
    pub(super) refused: u64,
    /// Bytes received from either side.
    pub(super) read: u64,
    /// The orders for new connections: for commands, and for hints.
    to_come: [Flows; 2],
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) hints: bool,
    pub(super) reset: Arc<Notify>,
    flows: Flows,
    lost: [bool; 2],
    /// The first bytes that the client has sent.
    sent: Vec<u8>,
    client_gone: bool,
}

type Flows = [Flow; 2];

const PASS: Flows = [Flow::Pass, Flow::Pass];

/// What happens to some bytes.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    Flows(Flow),
    Lost,
    /// This many arrive, and then the connection is reset.
    Cut(usize),
}

impl ConnectionTable {
    pub(super) fn new(carries_hints: fn(&[u8]) -> bool) -> Self {
        let state = TableState {
            links: BTreeMap::new(),
            newcomers: Newcomers::Serve,
            opened: 0,
            refused: 0,
            read: 0,
            to_come: [PASS, PASS],
        };
        Self { carries_hints, state: Mutex::new(state) }
    }

    /// Whether every connection carries hints.
    pub(super) fn is_shared(&self) -> bool {
        (self.carries_hints)(&[])
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, TableState> {
        self.state.lock()
    }

    /// Decides what happens to a new connection. A refused one is counted.
    pub(super) fn arrival(&self) -> Newcomers {
        let mut state = self.lock();
        if state.newcomers == Newcomers::Refuse {
            state.refused += 1;
        }
        state.newcomers
    }

    /// Adds a new connection.
    pub(super) fn open(&self) -> (u64, Arc<Notify>) {
        let mut state = self.lock();
        state.opened += 1;
        let id = state.opened;
        let reset = Arc::new(Notify::new());
        let connection = Connection {
            hints: false,
            reset: Arc::clone(&reset),
            flows: state.to_come[0].clone(),
            lost: [false; 2],
            sent: Vec::new(),
            client_gone: false,
        };
        state.links.insert(id, connection);
        (id, reset)
    }

    pub(super) fn close(&self, id: u64) {
        self.lock().links.remove(&id);
    }

    pub(super) fn order(&self, links: Links, way: Way, flow: &Flow) {
        self.assert_matches(links);
        let mut state = self.lock();
        for connection in state.links.values_mut().filter(|connection| links.has(connection.hints)) {
            connection.flows[way as usize] = flow.clone();
        }
        for hints in [false, true] {
            if links.to_come() && links.has(hints) {
                state.to_come[usize::from(hints)][way as usize] = flow.clone();
            }
        }
    }

    pub(super) fn reset(&self, links: Links) {
        self.assert_matches(links);
        for connection in self.lock().links.values().filter(|connection| links.has(connection.hints)) {
            connection.reset.notify_one();
        }
    }

    /// An order for connections that cannot exist is a bug of the case.
    fn assert_matches(&self, links: Links) {
        let nothing = links == Links::OpenCommands && self.is_shared();
        assert!(
            !nothing,
            "hints and commands share connections here: an order for commands alone does nothing"
        );
    }

    /// Decides what happens to bytes that were just read, and remembers it. No bytes mean the end of the stream.
    pub(super) fn judge(&self, id: u64, way: Way, bytes: &[u8]) -> Fate {
        let mut state = self.lock();
        state.read += bytes.len() as u64;
        let to_come = state.to_come[1].clone();
        let Some(connection) = state.links.get_mut(&id) else { return Fate::Lost };
        if way == Way::Requests {
            if !connection.hints && connection.sent.len() < GREETING {
                connection.sent.extend_from_slice(bytes);
                connection.hints = (self.carries_hints)(&connection.sent);
                if connection.hints {
                    connection.flows = to_come;
                }
            }
            connection.client_gone |= bytes.is_empty();
        }
        let (flow, lost) = (&mut connection.flows[way as usize], &mut connection.lost[way as usize]);
        *lost |= matches!(flow, Flow::Lose);
        match flow {
            _ if *lost => Fate::Lost,
            Flow::Cut(left) if bytes.len() > *left => Fate::Cut(*left),
            Flow::Cut(left) => {
                *left -= bytes.len();
                Fate::Flows(Flow::Pass)
            }
            flow => Fate::Flows(flow.clone()),
        }
    }
}

impl Connection {
    pub(super) fn is_draining(&self) -> bool {
        self.client_gone && !self.lost[Way::Requests as usize]
    }
}
