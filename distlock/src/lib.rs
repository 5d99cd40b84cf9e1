//! Distributed locks that tell the truth.
//!
//! A mutex, a read-write lock or a semaphore that several processes share, kept by a store that they share. Every lock is
//! a queue of leases: first come, first served, on every store. Every grant has a fencing token, and a guard whose lock is
//! lost says so before anybody else can be admitted.
//!
//! ```
//! use std::time::Duration;
//! use distlock::{AcquireOptions, DistributedLock};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = distlock::connect("memory:").await?; // or "redis://…", with the feature `redis`
//! let lock = locks.mutex("invoices/42")?;
//!
//! let guard = lock.acquire_with(&AcquireOptions::new().wait(Duration::from_secs(5))).await?;
//! tokio::select! {
//!     reason = guard.lost() => eprintln!("stop: {reason}"),
//!     () = async { /* the work; let what it writes to check guard.token() */ } => {}
//! }
//! guard.release().await?;
//! locks.close(Duration::from_secs(5)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Stores
//!
//! | URL | feature | crate |
//! |---|---|---|
//! | `memory:`, `memory:NAME` | none: always there | `lock-core` |
//! | `etcd://…`, `etcds://…` | `etcd` (takes `protoc` to build) | `lock-etcd` |
//! | `redis://…`, `rediss://…` | `redis` | `lock-redis` |
//! | `sqlite:`, `sqlite:PATH` | `sqlite` (a C compiler to build; on Linux) | `lock-sqlite` |
//! | `zk://…` | `zk` | `lock-zk` |
//! | `zks://…` | `zk-tls` (a C compiler to build) | `lock-zk` |
//!
//! No feature is on by default. What each store promises, and what breaks it, is data: [`Locks::guarantees`].
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | getting locks from a URL, or from the settings of a service | [`connect`], [`Settings`] |
//! | taking them | [`Locks`], [`DistributedLock`], [`AcquireOptions`] |
//! | a lock that was granted | [`Guard`], [`Hold`], [`FencingToken`] |
//! | what went wrong | [`Error`], [`BackendError`], [`ConnectError`] |
//! | queues, force-release, diagnosis | [`Operator`] |
//! | what is traced | [`telemetry`] |
//! | testing what a service does when it loses a lock | the module `testing`, behind the feature `testing` |
//!
//! Everything of `lock-core` is re-exported here.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod connect;
mod error;
mod service_settings;

#[doc(inline)]
pub use lock_core::*;
#[cfg(feature = "etcd")]
#[cfg_attr(docsrs, doc(cfg(feature = "etcd")))]
pub use lock_etcd as etcd;
#[cfg(feature = "redis")]
#[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
pub use lock_redis as redis;
#[cfg(all(feature = "sqlite", target_os = "linux"))]
#[cfg_attr(docsrs, doc(cfg(all(feature = "sqlite", target_os = "linux"))))]
pub use lock_sqlite as sqlite;
#[cfg(feature = "zk")]
#[cfg_attr(docsrs, doc(cfg(feature = "zk")))]
pub use lock_zk as zk;

pub use self::{connect::connect, error::ConnectError, service_settings::Settings};

/// The examples of the README, so that they are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
