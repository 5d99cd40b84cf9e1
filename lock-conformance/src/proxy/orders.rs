//! What a [`Proxy`](super::Proxy) can be told to do: to which connections, in which direction, with which bytes.

use std::time::Duration;

use crate::Gate;

/// Which connections an order is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// All, new ones included.
    All,
    /// The open ones. New ones are not affected.
    Open,
    /// The open ones without hints. Where [hints and commands share](super::Proxy::is_shared) connections there are none: an order
    /// would change nothing, so it panics.
    OpenCommands,
    /// Those with hints, new ones included.
    Hints,
    /// The open ones with hints. New ones are not affected.
    OpenHints,
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
}

/// What happens to bytes in one direction.
#[derive(Clone, Debug)]
pub enum Flow {
    /// They arrive.
    Pass,
    /// They arrive this much later.
    Delay(Duration),
    /// They arrive when the gate opens, in order with all that follow, even if the sender is gone.
    Hold(Gate),
    /// They are lost, as are all that follow on the connection.
    Lose,
    /// This many arrive. At the next one, the connection is reset on both sides.
    Cut(usize),
}

/// What happens to a connection that a client opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newcomers {
    /// It is served.
    Serve,
    /// It is served as soon as the server accepts it, which may take some seconds.
    Await,
    /// It is reset immediately.
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
