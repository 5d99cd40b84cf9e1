//! Locks on an etcd cluster, for the `lock-core` crate.
//!
//! Every entry of a queue is a key under a lease, and the revision that created the key is its place and its fencing token.
//! Taking a free lock is one transaction, releasing it one delete. A waiter watches the entry ahead, and becomes the holder
//! when that entry is deleted: mostly it then only reads its own key.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use lock_core::{DistributedLock, Keeper, Locks};
//! use lock_etcd::{Etcd, EtcdConfig};
//!
//! let config: EtcdConfig = "etcd://etcd-1,etcd-2,etcd-3/app/locks".parse()?;
//! let locks = Locks::new(Etcd::connect(config, &Keeper::shared()).await?);
//! let guard = locks.mutex("invoices/42")?.acquire().await?;
//! # guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Building this crate needs `protoc`, the compiler of protocol buffers, which the etcd client calls.
//!
//! | for | see |
//! |---|---|
//! | where the cluster is, and all time limits | [`EtcdConfig`] |
//! | what it promises | [`Etcd::guarantees`](lock_core::Backend::guarantees) |
//! | writes that succeed only while a lock is held | [`Etcd::held`] |
//! | what is stored, what it costs, which versions of etcd | `docs/backends/etcd.md` |

mod backend;
mod client;
mod config;
mod diagnosis;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod guarantees;
mod keys;
mod notify;
mod queue;
mod session;
mod version;

pub use lock_core::settings::{ConfigError, ConnectError, Endpoint, Password, ServerConfig};

pub use self::{
    backend::{Etcd, HeldKey},
    config::EtcdConfig,
};
