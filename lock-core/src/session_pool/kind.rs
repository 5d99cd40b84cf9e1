//! [`SessionKind`]: what the sessions of a pool are, and what is in them.

use std::{fmt, sync::Arc};

use crate::{BootTime, EntryId};

/// The sessions and members of a [`SessionPool`](super::SessionPool).
pub trait SessionKind: Sized + 'static {
    /// What keeps entries alive in the store.
    type Session: PooledSession;
    /// An entry in a session.
    type Member: PooledMember<Session = Self::Session>;
    /// Why a session was not opened, or an entry not removed.
    type Failure: Clone + fmt::Display + Send + Sync + 'static;
}

/// A session of a [`SessionPool`](super::SessionPool). It knows until when it may be relied on, and nothing of its members.
///
/// The pool asks while it is locked: a session must not call the pool while a lock of its own is held.
pub trait PooledSession: Send + Sync + 'static {
    /// Whether it may still be relied on.
    fn is_alive(&self, now: BootTime) -> bool;
}

/// An entry of this process, from before its first request until it is known to be gone from the store.
///
/// The pool asks while it is locked: a member must not call the pool while a lock of its own is held.
pub trait PooledMember: Send + Sync + 'static {
    /// What keeps it alive.
    type Session;

    /// The id of the entry.
    fn id(&self) -> EntryId;

    /// Its session.
    fn session(&self) -> &Arc<Self::Session>;

    /// How much of [`Capacity::bytes`](super::Capacity::bytes) it takes.
    fn size(&self) -> usize {
        0
    }

    /// Whether its own time is over, so that it has to be removed from the store.
    fn is_overdue(&self, now: BootTime) -> bool;

    /// It was forgotten, and gives back what only one member of a session can have, such as a key. False if a request
    /// in flight may still change that: then it is not used any more, and a slot is lost with it.
    fn give_back(&self) -> bool {
        true
    }
}
