//! The requests to etcd about a queue, and what its answers mean. No I/O.
//!
//! An entry is a key that is created if its queue allows it, and its place is its create revision (H10: this does not use the
//! lock service of etcd itself, which has granted locks under expired leases).

mod answer;
mod presence;
mod request;
mod snapshot;
mod view;

pub(crate) use self::{
    answer::{
        claim_mismatch, first_and_length, foreign, label_of_first, read_further, read_nearest, read_view,
    },
    presence::{
        Reads, all_stand, are_there, is_there, presence_of, present, revision, stands_since, token_of,
    },
    request::{
        first_ahead, first_of, is_absent, is_empty, is_exclusive, look_again, look_further, nearest_and_first,
    },
    snapshot::Snapshot,
    view::QueueView,
};
