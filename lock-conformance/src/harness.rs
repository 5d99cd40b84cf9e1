//! [`Harness`]: what a backend provides to the suite.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Backend, Keeper};

use crate::{Case, Layer, ServerControl, Wire};

/// A store for one case, and clients of it.
#[async_trait]
pub trait Harness: fmt::Debug + Send + Sync + 'static {
    /// The name of the store in messages, and in the table of the [declarations](Self::declared) that need no reason
    /// beyond the one given.
    fn store() -> &'static str
    where
        Self: Sized;

    /// Which labels the store cannot meet, and why. Empty for most.
    fn declared() -> &'static [Declared]
    where
        Self: Sized;

    /// The `tracing` target under which the store's client library logs a line for each failed connect, if it does. The suite does not
    /// count those lines, because the backend cannot merge them; it only bounds how often the backend tries to connect. `None` for
    /// most.
    fn client_logs(&self) -> Option<&'static str> {
        None
    }

    /// Whether the store notifies clients of grants and evictions. It has to agree with the [`polls`](lock_core::Guarantees::polls) of the
    /// store's guarantees. Cases that show nothing without notifications are not run then, but printed and counted like
    /// [declared](Self::declared) ones. True for most.
    #[must_use]
    fn notifications() -> bool
    where
        Self: Sized,
    {
        true
    }

    /// Why waiters behave the same whether or not their notifications were cut, if they do. For example: clients find an unannounced
    /// grant by themselves when they look at what they watched; or a cut also breaks the connections for releases, so that waiters have
    /// subscribed again before the next release. [`find_cuts`](crate::find_cuts) checks nothing then. `None` for most.
    #[must_use]
    fn cuts_show_nothing() -> Option<&'static str>
    where
        Self: Sized,
    {
        None
    }

    /// A store for one case: its own server, or its own namespace on a shared one if the labels of the case
    /// ([`Case::shows`]) say that it leaves the server alone. It is created on a runtime that outlives that of the case. Panics if there
    /// is no server: a case must not pass without one.
    async fn start(case: &'static Case) -> Self
    where
        Self: Sized;

    /// The store at this [`address`](Self::address), from another process.
    async fn attach(address: &str) -> Self
    where
        Self: Sized;

    /// Where other processes find the store. `None` if they cannot, as with a store in the memory of this process: then
    /// [`TestEnv::process`](crate::TestEnv::process) returns a client of this process that crashes as a process would.
    fn address(&self) -> Option<String>;

    /// A new client, as a new process would make it.
    async fn connect(&self, keeper: &Keeper) -> Arc<dyn Backend>;

    /// The connection that a proxy can be inserted into. `None` if there is none, as with a store in the memory of this process:
    /// then the cases that need one have to be [declared](Self::declared).
    fn wire(&self) -> Option<&dyn Wire>;

    /// How much earlier than the request a deadline may be counted from. Where sessions are kept alive by heartbeats, a renewal proves the
    /// lease as of the last heartbeat, so deadlines move in steps of this size. `ttl` is the granted one. Zero for most.
    fn deadline_step(&self, ttl: Duration) -> Duration {
        let _ = ttl;
        Duration::ZERO
    }

    /// The server side.
    fn server(&self) -> &dyn ServerControl;
}

/// A label that a store cannot meet. A case with no other label is not run, but printed and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The label.
    pub id: &'static str,
    /// Why the store cannot meet it: half a sentence.
    pub reason: &'static str,
}

impl Declared {
    /// A label, and why the store cannot meet it.
    #[must_use]
    pub const fn new(id: &'static str, reason: &'static str) -> Self {
        Self { id, reason }
    }
}

/// Creates the bug of a new client. The harness is that of the store, for bugs that have to reach it themselves.
pub type MakeBug = fn(&dyn Harness) -> Arc<dyn Layer>;
