//! [`SessionPool`]: shared sessions, for stores where a lease for each entry would cost too much.
//!
//! Some stores keep a client's data alive by a session: a lease on etcd, a session on ZooKeeper. What has to be proved alive is the session,
//! however many entries depend on it. So entries with similar ttls share one, as its *members*, as long as it has free *slots*.
//!
//! A backend says what its sessions and members are ([`SessionKind`]), and how a session is opened and an entry removed from the store
//! ([`SessionOwner`]). The pool does the rest. It opens sessions, each once for all that [wait for it](join). It knows the members of
//! each session, and [removes](sweep) those whose own time is over, because a shared session would keep them alive. It closes sessions that
//! nobody uses, and it refuses an entry that left while a create of it was in doubt.

mod kind;
mod opening;
mod owner;
mod pool;
mod registry;
mod slots;
mod sweep;
#[cfg(test)]
mod tests;

pub use self::{
    kind::{PooledMember, PooledSession, SessionKind},
    opening::{join, session},
    owner::SessionOwner,
    pool::SessionPool,
    slots::Capacity,
    sweep::sweep,
};
