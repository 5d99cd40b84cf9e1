//! Locks over a table of PostgreSQL: a backend as a third party would write it, with only the public API of `lock-core` and
//! `lock-conformance`. `docs/writing-a-backend.md` explains it step by step.
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
//! | `backend/mod.rs` | [`Postgres`]: calls the functions, and reads their answers |
//! | `backend/operator.rs` | the queues for people and tools, and the diagnosis |
//! | `client.rs` | sends a request, and waits for its answer for a limited time |
//! | `reply.rs` | converts the values of an answer to types of `lock-core` |
//! | `session.rs` | the connection: opened on demand, checked, and given up in time; hints arrive on it |
//! | `error.rs` | what an error of the server means for a lock |
//! | `guarantees.rs` | what this store promises, and what breaks it |

mod backend;
mod client;
mod error;
mod guarantees;
mod reply;
mod session;

pub use self::backend::Postgres;
