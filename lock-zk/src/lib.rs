//! Locks on a ZooKeeper ensemble, for the `lock-core` crate.
//!
//! Every entry of a queue is an ephemeral sequential node, and the transaction that created it is its fencing token. Acquiring a free
//! lock takes one round trip, and releasing it one delete. A waiter watches the entry ahead and becomes the holder when that entry leaves;
//! usually it then only asks whether its own node still exists.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use lock_core::{DistributedLock, Keeper, Locks};
//! use lock_zk::{ZkConfig, ZooKeeper};
//!
//! let config: ZkConfig = "zk://zk-1,zk-2,zk-3/app/locks".parse()?;
//! let locks = Locks::new(ZooKeeper::connect(config, &Keeper::shared()).await?);
//! let guard = locks.mutex("invoices/42")?.acquire().await?;
//! # guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! | for | see |
//! |---|---|
//! | where the ensemble is, and all time limits | [`ZkConfig`] |
//! | what it promises | [`ZooKeeper::guarantees`](lock_core::Backend::guarantees) |
//! | writes that succeed only while a lock is held | [`ZooKeeper::held`] |
//! | locks that are shared with Apache Curator | [`ZkConfig::interop`] |
//! | what is stored, what it costs, which versions of ZooKeeper | `docs/backends/zookeeper.md` |

mod backend;
mod client;
mod config;
mod diagnosis;
mod error;
mod guarantees;
mod keys;
mod notify;
mod queue;
mod session;

pub use lock_core::settings::{ConfigError, ConnectError, Endpoint, Password, ServerConfig};

pub use self::{
    backend::{HeldNode, ZooKeeper},
    config::{Interop, ZkConfig},
};
