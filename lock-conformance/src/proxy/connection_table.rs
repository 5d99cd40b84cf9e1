//! [`ConnectionTable`]: the connections there are, and what was ordered.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::orders::{Flow, Links, Newcomers, Way};

/// So much of what a client sends is looked at for what the connection is for.
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
    /// Bytes that came from either side.
    pub(super) read: u64,
    /// For connections to come: for commands, and for hints.
    to_come: [Flows; 2],
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) hints: bool,
    pub(super) reset: Arc<Notify>,
    flows: Flows,
    lost: [bool; 2],
    /// The start of what was sent.
    sent: Vec<u8>,
    client_gone: bool,
}

type Flows = [Flow; 2];

const PASS: Flows = [Flow::Pass, Flow::Pass];

/// What becomes of some bytes.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    Flows(Flow),
    Lost,
    /// So many arrive, and then there is a reset.
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

    /// Whether a connection needs nothing to be one that hints come on.
    pub(super) fn is_shared(&self) -> bool {
        (self.carries_hints)(&[])
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, TableState> {
        self.state.lock()
    }

    /// What becomes of a connection that comes now. It is counted if it is refused.
    pub(super) fn arrival(&self) -> Newcomers {
        let mut state = self.lock();
        if state.newcomers == Newcomers::Refuse {
            state.refused += 1;
        }
        state.newcomers
    }

    /// Takes in a new connection.
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

    /// An order for connections that there can never be is a mistake of the case that gives it.
    fn assert_matches(&self, links: Links) {
        let nothing = links == Links::OpenCommands && self.is_shared();
        assert!(
            !nothing,
            "hints and commands share connections here: an order for commands alone does nothing"
        );
    }

    /// What becomes of bytes that were just read, none being the end of all. Takes note of what it decides.
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
