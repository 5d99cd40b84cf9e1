//! What a [`Proxy`](super::Proxy) can be told to do: to which connections, in which direction, with which bytes.

use std::time::Duration;

use crate::Gate;

/// Which connections an order is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Those there are, and those to come.
    All,
    /// Those there are. New ones are not touched.
    Open,
    /// Those there are, but for those that hints come on. There are none where [hints and commands share](super::Proxy::is_shared) them:
    /// such an order would change nothing, so it panics.
    OpenCommands,
    /// Those that hints come on, also those to come.
    Hints,
    /// Those there are that hints come on. New ones are not touched.
    OpenHints,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
}

/// What becomes of the bytes that go one way.
#[derive(Clone, Debug)]
pub enum Flow {
    /// They arrive.
    Pass,
    /// They arrive later by this time.
    Delay(Duration),
    /// They arrive when the gate opens, in order with all that comes after them, even if whoever sent them is gone.
    Hold(Gate),
    /// They are lost, and with them all that follow on the connection.
    Lose,
    /// So many of them arrive; at the next one, the connection is reset on both sides.
    Cut(usize),
}

/// What becomes of a connection that a client opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newcomers {
    /// It is served.
    Serve,
    /// It is served as soon as the server takes it, which may be some seconds later.
    Await,
    /// It is reset at once.
    Refuse,
}

impl Links {
    /// Whether it is for a connection that carries hints, or for one that does not.
    pub(super) fn has(self, hints: bool) -> bool {
        match self {
            Self::All | Self::Open => true,
            Self::OpenCommands => !hints,
            Self::Hints | Self::OpenHints => hints,
        }
    }

    /// Whether it is for connections to come as well.
    pub(super) fn to_come(self) -> bool {
        matches!(self, Self::All | Self::Hints)
    }
}
