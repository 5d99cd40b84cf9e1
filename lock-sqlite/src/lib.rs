//! Locks between the processes of one machine, over one file and without a server, for the `lock-core` crate.
//!
//! The file is an SQLite database in WAL mode, and every verb is one transaction. Leases are counted on the clock of the boot time, so a
//! step of the wall clock has no effect and a reboot frees every lock. Each process keeps a file of its own locked, so the others see at
//! once when it dies: the lock of a killed holder is free within 100 ms, not when its ttl ends; within 2 s, if the first two waiters
//! end with it or are stopped. A datagram notifies the next waiter that it holds the lock; each waiter also looks by itself, in case a
//! datagram was lost.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("locks.db");
//! use lock_core::{DistributedLock, Keeper, Locks};
//! use lock_sqlite::{Sqlite, SqliteConfig};
//!
//! let mut config = SqliteConfig::default();
//! config.path = Some(path); // without one: a file in the user's state directory
//! let locks = Locks::new(Sqlite::connect(config, &Keeper::shared()).await?);
//! let guard = locks.mutex("invoices/42")?.acquire().await?;
//! # guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! | for | see |
//! |---|---|
//! | where the file is, and the time limit | [`SqliteConfig`] |
//! | what it promises | [`Sqlite::guarantees`](lock_core::Backend::guarantees) |
//! | what is stored, what it costs, what to take care of | `docs/backends/sqlite.md` |
//!
//! Linux only: it needs the boot id, `CLOCK_BOOTTIME`, `flock` and `/proc`.

#[cfg(not(target_os = "linux"))]
compile_error!("lock-sqlite needs Linux: a boot id, CLOCK_BOOTTIME, flock and /proc are what it rests on");

mod access;
mod backend;
mod checkpointer;
mod clock;
mod clock_domain;
mod config;
mod connection;
mod database;
mod diagnosis;
mod entry_row;
mod error;
mod executor;
mod executor_handle;
mod file_id;
mod files;
mod foreign_files;
mod fork_check;
mod guarantees;
mod holder_watch;
mod network_filesystem;
mod new_database;
mod notify;
mod outbox;
mod process_files;
mod process_folder;
mod process_lock;
mod queue;
mod random;
mod reap;
mod retry;
mod schema;
mod store;
mod store_lock;
mod symlinks;
mod time_limit;
mod transaction;
mod wal_files;
mod worker;
mod writer;

pub use lock_core::settings::{ConfigError, ConnectError};

pub use self::{backend::Sqlite, config::SqliteConfig};
