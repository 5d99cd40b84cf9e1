//! Locks on a Redis or Valkey server that stands alone, for the `lock-core` crate.
//!
//! A mutex is a plain string under a prefix and the name of the lock. Beside it stand the queue of those who wait and the counter of
//! fencing tokens. Every verb is one script and one round trip, and judges with the server's clock alone; a release makes the
//! next in the queue the holder and tells it so.
//!
//! The prefix is `distlock:` unless the configuration has another, so that locks are not taken for other keys of the server. With
//! `prefix=` (none), or that of another library, a mutex and the `SET … NX PX` locks of others exclude each other on the same key.
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
mod reply;
mod request;
mod scripts;
mod server_info;
#[cfg(test)]
mod testing;

pub use lock_core::settings::{ConfigError, ConnectError, Password, ServerConfig};

pub use self::{backend::Redis, config::RedisConfig};
