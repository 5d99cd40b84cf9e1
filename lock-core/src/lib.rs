//! Distributed locks that tell the truth.
//!
//! **Every lock is a queue of leases.** To take a lock is to stand in its queue with a lease; you hold it while the
//! permits you ask for, added to those ahead of you, fit the limit. A waiter is a holder that is not admitted yet.
//!
//! This crate has what all backends share: the traits, the rule of admission, the wait engine, the keeper, and the
//! [`Memory`] backend. A service depends on the `distlock` crate, which adds the backends behind feature flags.
//!
//! ```
//! use std::time::Duration;
//! use lock_core::{AcquireOptions, DistributedLock, Locks, Memory};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = Locks::new(Memory::new());
//! let lock = locks.mutex("invoices/42")?;
//!
//! let guard = lock.acquire_with(&AcquireOptions::new().wait(Duration::from_secs(5))).await?;
//! // Send the token along with every write: a store that refuses older ones is safe even from a paused holder.
//! println!("held for {:?} more, token {}", guard.remaining(), guard.token());
//! tokio::select! {
//!     reason = guard.lost() => eprintln!("stop: {reason}"),
//!     () = async { /* the work */ } => {}
//! }
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | taking locks | [`Locks`], [`DistributedLock`], [`AcquireOptions`], [`AcquireProgress`], [`Guard`] |
//! | what holds on which store | [`Guarantees`] |
//! | writing a backend | [`Backend`], [`Operator`], [`Notifier`], [`ConnectionPool`], [`session_pool`], [`CircuitBreaker`], [`Tombstones`], [`LogThrottle`], [`isolate`], [`settings`], and [`sync`] |
//! | what is traced | [`telemetry`] |
//! | time, threads and randomness | [`Clock`], [`Keeper`], [`Entropy`] |
//! | testing what a service does when it loses a lock | the module `testing`, behind the feature `testing` |
#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire_progress;
mod acquire_span;
pub mod admission;
mod backend;
mod circuit_breaker;
mod client;
mod clock;
mod closing;
mod connection_pool;
mod departure;
mod entropy;
mod entry;
mod error;
mod event_log;
mod excerpt;
mod fork_detector;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod guarantees;
mod guard;
mod hold;
mod hold_state;
mod identity;
mod keeper;
mod limits;
mod linger;
mod lock;
mod locks;
mod log_throttle;
mod lost;
mod memory;
mod name;
mod notifier;
mod operator;
mod options;
mod panic_isolation;
mod pending_entry;
mod pointers;
mod released;
mod rwlock;
mod semaphore;
pub mod session_pool;
pub mod settings;
pub mod sync;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod token;
mod tombstones;
mod wait;

pub use self::{
    acquire_progress::AcquireProgress,
    backend::{Alarms, Backend, Creates, Hint, Hints, Holder, Lease, Renewal, Standing, Step, WaitMode},
    circuit_breaker::CircuitBreaker,
    clock::{BootTime, Clock, SystemClock, margin, valid_until},
    connection_pool::{
        ConnectionPool, ConnectionTask, Connector, OpenConnection, PooledConnection, RuntimeSelector,
    },
    departure::Departure,
    entropy::{Entropy, SystemEntropy},
    entry::{Claim, Entry, EntryId, Kind},
    error::{BackendError, BackendErrorKind, Error, InputError},
    excerpt::{escape_unprintable, excerpt},
    fork_detector::ForkDetector,
    guarantees::Guarantees,
    guard::Guard,
    hold::Hold,
    hold_state::{HoldState, LostReason},
    identity::Identity,
    keeper::{Keeper, Sleep},
    limits::{MAX_TTL, MIN_TTL},
    lock::{DistributedLock, Lock},
    locks::{CloseError, Locks},
    log_throttle::LogThrottle,
    lost::Lost,
    memory::Memory,
    name::{LockName, NameError},
    notifier::Notifier,
    operator::{Diagnosis, Operator, QueueRow},
    options::{AcquireOptions, BackOff, LookAgain, Outage, shown_label},
    panic_isolation::isolate,
    released::Released,
    rwlock::RwLock,
    semaphore::Semaphore,
    token::FencingToken,
    tombstones::Tombstones,
};
