//! The sessions that keep entries alive.
//!
//! There is one session for each class of ttl, shared by as many entries as it has [slots] for, and driven by the keeper. A shared session
//! also keeps entries alive whose own time is over; its [task] removes them.

mod base_nodes;
mod evictions;
mod heartbeat;
mod leave;
mod liveness;
mod member;
mod members;
mod open;
mod pool;
mod queue;
mod read_permits;
mod reap;
mod reconnect;
#[expect(clippy::module_inception, reason = "the one main type of the file")]
mod session;
mod sessions;
mod settings;
mod slots;
mod task;
mod tombstones;
mod ttl_class;

pub(crate) use self::{
    heartbeat::period,
    member::{DeletionWatch, Member, OwnNode},
    queue::{find_own_nodes, read_listed, read_queue},
    session::Session,
    sessions::Sessions,
};
