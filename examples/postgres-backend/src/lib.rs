//! Locks over a table of PostgreSQL: a backend as a third party would write it, with nothing but what `lock-core` and
//! `lock-conformance` publish. `docs/writing-a-backend.md` tells how it came to be.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use lock_core::{DistributedLock, Keeper, Locks};
//! use postgres_backend::Postgres;
//!
//! let server = "postgres://app@localhost/app".parse()?;
//! let locks = Locks::new(Postgres::new(server, "locks", &Keeper::shared())?);
//! let guard = locks.mutex("invoices/42")?.acquire().await?;
//! # guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! | file | what |
//! |---|---|
//! | `schema.sql` | the data, and each verb as a function: one transaction, one round trip |
//! | `backend.rs` | [`Postgres`]: what the functions are asked, and what their answers mean |
//! | `operator.rs` | the same for people and tools |
//! | `link.rs` | a request and its answer, in time |
//! | `session.rs` | the connection: opened when it is needed, watched, given up in time; hints come on it |
//! | `error.rs` | what trouble of the server means for a lock |

mod backend;
mod error;
mod link;
mod operator;
mod session;

pub use self::backend::Postgres;
