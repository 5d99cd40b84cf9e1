//! What the nodes of a queue mean for an entry in it. No I/O.

mod ahead_count;
mod snapshot;
mod view;

pub(crate) use self::{
    ahead_count::AheadCount,
    snapshot::Snapshot,
    view::{EntriesAhead, QueueView},
};
