//! The sessions that keep entries alive.
//!
//! There is one session for each class of ttl, shared by the entries of a [pool](lock_core::session_pool) and driven by the keeper. A shared
//! session also keeps entries alive whose own time is over; its [task] removes them.

mod base_nodes;
mod capacity;
mod evictions;
mod heartbeat;
mod leave;
mod liveness;
mod member;
mod open;
mod owner;
mod pool;
mod queue;
mod read_permits;
mod reap;
mod reconnect;
#[expect(clippy::module_inception, reason = "the one main type of the file")]
mod session;
mod sessions;
mod settings;
mod task;
mod ttl_class;

pub(crate) use self::{
    heartbeat::period,
    member::{DeletionWatch, Member, OwnNode},
    queue::{find_own_nodes, read_listed, read_queue},
    session::Session,
    sessions::Sessions,
};
