//! [`Fault`]: what can go wrong.

use std::fmt;

/// Something that goes wrong for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Server(ServerFault, Target),
    Cut(Side, Cut),
    Client(ClientFault, usize),
}

/// What happens to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerFault {
    /// They are killed, and started again.
    Kill,
    /// They stand still. For a file, which has no server: a transaction that writes does not end.
    Pause,
    /// Other members do not hear them.
    Isolate,
    /// Another member is told to lead.
    Depose,
    /// They have no room for more, by a limit of their own.
    Fill,
    /// Their disk is full.
    FillDisk,
    /// Their wall clock is set forward by so many seconds, or back. It stays so: to set it right again would be another fault.
    SetClock(i64),
}

/// Which servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The one that leads, or the only one.
    Leader,
    Member(usize),
    All,
}

/// Whose connections are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Those of one client to all servers.
    Client(usize),
    /// Those of all clients to one server.
    Member(usize),
}

/// How connections are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nothing arrives on either side, and neither is told.
    Both,
    /// Nothing arrives at the server.
    Requests,
    /// Nothing arrives at the client.
    Replies,
    /// Connections are reset, and new ones are refused.
    Refuse,
}

/// What happens to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientFault {
    /// It is killed, and another one takes its place.
    Kill,
    /// It stands still.
    Pause,
}

impl Fault {
    /// How it is counted.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Server(ServerFault::Kill, Target::All) => "kill all",
            Self::Server(ServerFault::Kill, _) => "kill",
            Self::Server(ServerFault::Pause, _) => "pause",
            Self::Server(ServerFault::Isolate, _) => "isolate",
            Self::Server(ServerFault::Depose, _) => "depose",
            Self::Server(ServerFault::Fill, _) => "fill",
            Self::Server(ServerFault::FillDisk, _) => "fill disk",
            Self::Server(ServerFault::SetClock(by), _) if by < 0 => "clock back",
            Self::Server(ServerFault::SetClock(_), _) => "clock forward",
            Self::Cut(_, Cut::Both) => "cut both ways",
            Self::Cut(_, Cut::Requests) => "cut requests",
            Self::Cut(_, Cut::Replies) => "cut replies",
            Self::Cut(_, Cut::Refuse) => "refuse",
            Self::Client(ClientFault::Kill, _) => "kill client",
            Self::Client(ClientFault::Pause, _) => "pause client",
        }
    }
}

/// As a timeline shows it: `cut replies, seat 2`, or `clock back by 3 s, leader`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        if let Self::Server(ServerFault::SetClock(by), _) = self {
            write!(f, " by {} s", by.unsigned_abs())?;
        }
        f.write_str(", ")?;
        match self {
            Self::Server(_, Target::Leader) => f.write_str("leader"),
            Self::Server(_, Target::All) => f.write_str("all members"),
            Self::Server(_, Target::Member(member)) | Self::Cut(Side::Member(member), _) => {
                write!(f, "member {member}")
            }
            Self::Cut(Side::Client(seat), _) | Self::Client(_, seat) => write!(f, "seat {seat}"),
        }
    }
}
