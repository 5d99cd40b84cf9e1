//! How a process learns that one of its entries was admitted, evicted, or is the next: by datagrams, which may be lost.

pub(crate) mod mailbox;
pub(crate) mod message;
pub(crate) mod notifier;
pub(crate) mod waiters;
pub(crate) mod worker_waker;
