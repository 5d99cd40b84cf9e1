//! [`Book`]: the connections there are, and what was ordered.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{Flow, Links, Newcomers, Way};

/// So much of what a client sends is looked at for what the connection is for.
const GREETING: usize = 4096;

/// What a proxy shares with its connections.
#[derive(Debug)]
pub(super) struct Book {
    carries_hints: fn(&[u8]) -> bool,
    rows: Mutex<Rows>,
}

#[derive(Debug)]
pub(super) struct Rows {
    pub(super) links: BTreeMap<u64, Row>,
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
pub(super) struct Row {
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

impl Book {
    pub(super) fn new(carries_hints: fn(&[u8]) -> bool) -> Self {
        let rows = Rows {
            links: BTreeMap::new(),
            newcomers: Newcomers::Serve,
            opened: 0,
            refused: 0,
            read: 0,
            to_come: [PASS, PASS],
        };
        Self { carries_hints, rows: Mutex::new(rows) }
    }

    /// Whether a connection needs nothing to be one that hints come on.
    pub(super) fn is_shared(&self) -> bool {
        (self.carries_hints)(&[])
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Rows> {
        // Nothing panics while it is held, but for the function of the caller, which changes nothing here.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What becomes of a connection that comes now. It is counted if it is refused.
    pub(super) fn arrival(&self) -> Newcomers {
        let mut rows = self.lock();
        if rows.newcomers == Newcomers::Refuse {
            rows.refused += 1;
        }
        rows.newcomers
    }

    /// Takes in a new connection.
    pub(super) fn open(&self) -> (u64, Arc<Notify>) {
        let mut rows = self.lock();
        rows.opened += 1;
        let id = rows.opened;
        let reset = Arc::new(Notify::new());
        let row = Row {
            hints: false,
            reset: Arc::clone(&reset),
            flows: rows.to_come[0].clone(),
            lost: [false; 2],
            sent: Vec::new(),
            client_gone: false,
        };
        rows.links.insert(id, row);
        (id, reset)
    }

    pub(super) fn close(&self, id: u64) {
        self.lock().links.remove(&id);
    }

    pub(super) fn order(&self, links: Links, way: Way, flow: &Flow) {
        self.assert_matches(links);
        let mut rows = self.lock();
        for row in rows.links.values_mut().filter(|row| links.has(row.hints)) {
            row.flows[way as usize] = flow.clone();
        }
        for hints in [false, true] {
            if links.to_come() && links.has(hints) {
                rows.to_come[usize::from(hints)][way as usize] = flow.clone();
            }
        }
    }

    pub(super) fn reset(&self, links: Links) {
        self.assert_matches(links);
        for row in self.lock().links.values().filter(|row| links.has(row.hints)) {
            row.reset.notify_one();
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
        let mut rows = self.lock();
        rows.read += bytes.len() as u64;
        let to_come = rows.to_come[1].clone();
        let Some(row) = rows.links.get_mut(&id) else { return Fate::Lost };
        if way == Way::Requests {
            if !row.hints && row.sent.len() < GREETING {
                row.sent.extend_from_slice(bytes);
                row.hints = (self.carries_hints)(&row.sent);
                if row.hints {
                    row.flows = to_come;
                }
            }
            row.client_gone |= bytes.is_empty();
        }
        let (flow, lost) = (&mut row.flows[way as usize], &mut row.lost[way as usize]);
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

impl Row {
    pub(super) fn is_draining(&self) -> bool {
        self.client_gone && !self.lost[Way::Requests as usize]
    }
}

impl Links {
    fn has(self, hints: bool) -> bool {
        match self {
            Self::All | Self::Open => true,
            Self::OpenCommands => !hints,
            Self::Hints | Self::OpenHints => hints,
        }
    }

    fn to_come(self) -> bool {
        matches!(self, Self::All | Self::Hints)
    }
}
