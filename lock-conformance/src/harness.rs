//! [`Harness`]: what a backend brings to the suite.

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

    /// The target of what the client of the store logs by itself, a line for each connect that fails, if it does: neither the backend nor
    /// the suite can count what is the same in it, and users have to filter it. What is bounded is how often the backend has it
    /// connect. `None` for most.
    fn client_logs(&self) -> Option<&'static str> {
        None
    }

    /// Whether clients are told of their turn and of evictions. If not, as the [`polls`](lock_core::Guarantees::polls) of the store's
    /// guarantees have to say, what then cannot be shown is not run, but printed and counted as what is
    /// [declared](Self::declared). True for most.
    #[must_use]
    fn notifications() -> bool
    where
        Self: Sized,
    {
        true
    }

    /// Why nobody can tell by the waiters whether their notifications were cut, if that is so: clients learn by themselves of a grant
    /// that they were not told of, as by a look at what they watched before; or a cut breaks the connections that others release by, so
    /// that waiters listen again by then. [`find_cuts`](crate::find_cuts) checks nothing there. `None` for most.
    #[must_use]
    fn cuts_show_nothing() -> Option<&'static str>
    where
        Self: Sized,
    {
        None
    }

    /// A store for one case alone: a server of its own, or a corner of a shared one where the case leaves the server
    /// alone, as [`Case::ids`] tells. It is made on a runtime that lives longer than that of the case. Panics if there is no
    /// server: a case must not pass without one.
    async fn start(case: &'static Case) -> Self
    where
        Self: Sized;

    /// The store that another process reached under [`address`](Self::address).
    async fn attach(address: &str) -> Self
    where
        Self: Sized;

    /// Where other processes find the store. `None` if they cannot, as with a store in the memory of this process: then
    /// [`TestEnv::process`](crate::TestEnv::process) gives a client that crashes as a process would.
    fn address(&self) -> Option<String>;

    /// A new client, as a new process would make it.
    async fn connect(&self, keeper: &Keeper) -> Arc<dyn Backend>;

    /// The connection that a proxy can stand in. `None` if there is none, as with a store in the memory of this process:
    /// then the cases that need one are [declared](Self::declared).
    fn wire(&self) -> Option<&dyn Wire>;

    /// How far behind the asking a deadline may be counted, where what proves a lease is made now and then and not with each
    /// renewal: so deadlines move in steps of this. `ttl` is the one that was granted. Nothing for most.
    fn deadline_step(&self, ttl: Duration) -> Duration {
        let _ = ttl;
        Duration::ZERO
    }

    /// The server side.
    fn server(&self) -> &dyn ServerControl;
}

/// A label that a store cannot meet. A case that carries nothing else is not run, but printed and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The label.
    pub id: &'static str,
    /// Why the store cannot meet it: half a sentence.
    pub reason: &'static str,
}

/// Gives each new client of a store a bug. The harness is that of the store, which some bugs have to reach on their own.
pub type MakeBug = fn(&dyn Harness) -> Arc<dyn Layer>;
