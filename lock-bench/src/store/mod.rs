//! Stores to measure. [`interface`] has the traits, and each store implements them.

#[cfg(feature = "etcd")]
mod etcd;
mod interface;
mod kind;
mod memory;
mod open;
// The source that tests use: a benchmark does not depend on the crate that tests what it measures.
#[path = "../../../lock-conformance/src/port.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is public there, and all of it is of use")]
mod port;
mod redis;
mod server_process;
#[cfg(feature = "sqlite")]
mod sqlite;
mod started_server;
#[cfg(feature = "zk")]
mod zk;

pub(crate) use self::{
    interface::{CommandCounts, Floors, Forwarder, ForwardingRound, MessageLatency, Rival, Stop, Store},
    kind::StoreKind,
    open::{connect, start},
};
