//! The servers of tests and benchmarks: how etcd, Redis and ZooKeeper are started.
//!
//! A server listens on the loopback interface, and keeps its data in a directory of its own. Tests can add other settings.
//!
//! | for | see |
//! |---|---|
//! | where the programs of this machine are, and their command lines | [`etcd`], [`redis`], [`zookeeper`] |
//! | servers that a test owns, with the feature `processes` | `EtcdServer`, `RedisServer`, `ZooKeeperServer` |
//! | a proxy in front of one, with the same feature | `proxy` |
//! | a wall clock that a test sets, and a disk that it fills, with the same feature | `ServerClock`, `ServerDisk`, `Preload` |
//! | our own programs in Java, with the same feature | `java` |
//! | starting a server in code that is not async | [`block_on()`] |
//! | asking a server about itself | [`ask()`], [`http_get`] |
//!
//! Environment variables choose the servers of tests:
//!
//! | variable | names |
//! |---|---|
//! | `DISTLOCK_TEST_ETCD_URL`, `DISTLOCK_TEST_REDIS_URL`, `DISTLOCK_TEST_ZK_URL` | a running server, for tests that need no server of their own |
//! | `DISTLOCK_TEST_ETCD`, `DISTLOCK_TEST_ZK` | the program of etcd, and the class path of ZooKeeper, if not those that `scripts/setup` has installed |
//! | `LOCK_TEST_SERVERS` | where servers run: `process` (the default) or `docker` |
//! | `LOCK_TEST_ETCD_IMAGE`, `LOCK_TEST_REDIS_IMAGE`, `LOCK_TEST_ZOOKEEPER_IMAGE` | the images of servers that run in containers |

mod ask;
mod block_on;
pub mod etcd;
#[cfg(feature = "processes")]
mod etcd_server;
#[cfg(feature = "processes")]
pub mod java;
#[cfg(feature = "processes")]
mod preload;
#[cfg(feature = "processes")]
mod proxy;
pub mod redis;
#[cfg(feature = "processes")]
mod redis_server;
#[cfg(feature = "processes")]
mod server_clock;
#[cfg(feature = "processes")]
mod server_disk;
mod setup;
mod variable;
pub mod zookeeper;
#[cfg(feature = "processes")]
mod zookeeper_server;

pub use self::{
    ask::{ask, http_get},
    block_on::block_on,
};
#[cfg(feature = "processes")]
pub use self::{
    etcd_server::EtcdServer, preload::Preload, proxy::proxy, redis_server::RedisServer,
    server_clock::ServerClock, server_disk::ServerDisk, zookeeper_server::ZooKeeperServer,
};
