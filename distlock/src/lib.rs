//! Distributed locks that tell the truth.
//!
//! Mutexes, read-write locks and semaphores that several processes share, in a store that they share as well. Every lock is a queue of
//! leases: first come, first served, on every store. Every grant has a fencing token. A guard whose lease cannot be renewed reports the loss
//! before the next holder can be admitted.
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
//! Keep a guard in a variable with a name: `let _ = lock.acquire().await?` drops it immediately, and releases the lock. So do these, and the
//! compiler does not warn:
//!
//! * `if lock.try_acquire().await?.is_some() { job() }`
//! * `let Some(_) = lock.try_acquire().await? else { return Ok(()) };`
//! * `lock.try_acquire().await?;`
//!
//! `let Some(guard) = lock.try_acquire().await? else { return Ok(()) };` keeps it to the end of the block.
//!
//! # Which lock for what
//!
//! [`run`](DistributedLock::run) takes a lock, does the work, stops it if the lock is lost, and releases. Its first `?` is for the lock,
//! the second for the work.
//!
//! ```
//! use std::{pin::pin, time::Duration};
//! use distlock::{DistributedLock, Error, Outage};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (url, options) = ("memory:which lock for what".to_owned(), distlock::AcquireOptions::new());
//! # let settings = distlock::Settings { url, options };
//! let (locks, options) = (settings.connect().await?, settings.options);
//!
//! // A job that only one of many machines should do: a `wait` of zero asks once, and the other machines skip the job.
//! let job = locks.mutex("jobs/report")?.with_options(options.clone().wait(Duration::ZERO));
//! match job.run(|hold| make_report(hold.token())).await {
//!     Err(Error::WaitTimeout { .. }) => println!("another machine makes it"),
//!     made => made??,
//! }
//!
//! // An order that only one request may change at a time: a request that waits for more than a second gets `Error::WaitTimeout`.
//! let order = locks.mutex("orders/42")?.with_options(options.clone().wait(Duration::from_secs(1)));
//! order.run(|hold| pay(hold.token())).await??;
//!
//! // A limit for all machines together: 8 calls at once. All machines have to use the same limit.
//! let calls = locks.semaphore("limits/supplier", 8)?;
//! calls.permits(1)?.run(|_| call_supplier()).await??;
//!
//! // A leader: waits for its turn, even through outages of the store, and joins the queue again after a loss. Stop it before `close`,
//! // which waits until all locks are released: dropping the future of `run` stops the work and releases the lock.
//! let leader = locks.mutex("leader")?.with_options(options.outage(Outage::Wait));
//! let mut stop = pin!(stop_signal());
//! loop {
//!     let led = tokio::select! {
//!         () = &mut stop => break,
//!         led = leader.run(|hold| lead(hold.token())) => led,
//!     };
//!     match led {
//!         Ok(()) | Err(Error::Closed { .. }) => break,
//!         Err(error) if error.is_transient() => eprintln!("not the leader: {error}"),
//!         Err(error) => return Err(error.into()),
//!     }
//! }
//! locks.close(Duration::from_secs(5)).await?;
//! # Ok(())
//! # }
//! # async fn make_report(_: distlock::FencingToken) -> std::io::Result<()> { Ok(()) }
//! # async fn pay(_: distlock::FencingToken) -> std::io::Result<()> { Ok(()) }
//! # async fn call_supplier() -> std::io::Result<()> { Ok(()) }
//! # async fn lead(_: distlock::FencingToken) {}
//! # async fn stop_signal() { std::future::pending().await }
//! ```
//!
//! `with_options` and `acquire_with` replace *all* options. To change one of them, start from those of the [`Settings`], as here, or from
//! `lock.options().clone()`.
//!
//! A name is one lock, of one kind: a mutex and a semaphore need two names. A semaphore also has one limit: while the queue is not empty,
//! another limit is [`Error::ClaimMismatch`], for example during a rolling update. Change the limit while the queue is empty, or change the
//! name with it; then the old and the new limit both apply until the update is done.
//!
//! # Stores
//!
//! | URL | feature | crate |
//! |---|---|---|
//! | `memory:`, `memory:NAME` | none: always there | `lock-core` |
//! | `etcd://…`, `etcds://…` | `etcd` (needs `protoc` to build) | `lock-etcd` |
//! | `redis://…`, `rediss://…` | `redis` | `lock-redis` |
//! | `sqlite:`, `sqlite:machine`, `sqlite:PATH` | `sqlite` (needs a C compiler to build; on Linux) | `lock-sqlite` |
//! | `zk://…` | `zk` | `lock-zk` |
//! | `zks://…` | `zk-tls` (needs a C compiler to build) | `lock-zk` |
//!
//! No feature is on by default. What each store promises, and what breaks it, is data: [`Locks::guarantees`].
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | getting locks from a URL or from the settings of a service, and waiting for the store at the start | [`connect`], [`Settings`] |
//! | taking locks | [`Locks`], [`DistributedLock`], [`AcquireOptions`] |
//! | work that stops when its lock is lost | [`DistributedLock::run`], [`Guard::lost`] |
//! | a lock that was granted | [`Guard`], [`Hold`], [`FencingToken`] |
//! | what went wrong, and whether to try again | [`Error`], [`Error::is_transient`], [`BackendError`], [`ConnectError`] |
//! | readiness, and shutdown | [`Locks::ping`], [`Locks::close`] |
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
