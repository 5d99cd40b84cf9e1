//! Locks on a standalone Redis or Valkey server, for the `lock-core` crate.
//!
//! A mutex is a plain string whose key is a prefix and the name of the lock. The queue of waiters and the counter of fencing tokens have
//! keys of their own. Every verb is one script and one round trip, and uses only the server's clock. A release makes the next waiter in
//! the queue the holder and notifies it.
//!
//! The default prefix `distlock:` keeps locks apart from other keys on the server. With `prefix=` (none), or the prefix of another
//! library, a mutex and the `SET … NX PX` locks of that library exclude each other on the same key.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use lock_core::{DistributedLock, Keeper, Locks};
//! use lock_redis::{Redis, RedisConfig};
//!
//! let config: RedisConfig = "redis://localhost?prefix=locks:".parse()?;
//! let locks = Locks::new(Redis::connect(config, &Keeper::shared()).await?);
//! let guard = locks.mutex("invoices/42")?.acquire().await?;
//! # guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! | for | see |
//! |---|---|
//! | where the server is, and all time limits | [`RedisConfig`] |
//! | what it promises | [`Redis::guarantees`](lock_core::Backend::guarantees) |
//! | what is stored, what it costs, what to set on the server | `docs/backends/redis.md` |

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
mod plain_create;
mod reply;
mod request;
mod scripts;
mod server_info;
#[cfg(test)]
mod testing;

pub use lock_core::settings::{ConfigError, ConnectError, Password, ServerConfig};

pub use self::{backend::Redis, config::RedisConfig};
