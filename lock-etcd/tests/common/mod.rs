//! Shared by the tests of this crate: clients that are as independent as separate processes.
#![allow(dead_code, reason = "each of the test programs uses a part")]

pub(crate) mod kept;

use std::{sync::Arc, time::Duration};

use lock_conformance::audit;
use lock_core::{
    AcquireOptions, Backend, BackendErrorKind, DistributedLock, Error, Guard, Keeper, Lock, LockName, Locks,
    QueueRow, SystemEntropy,
};
use lock_etcd::{Etcd, EtcdConfig};
use tokio::task::JoinHandle;

/// How long an expected event may take on a machine that is busy with other things: the one limit for lateness.
/// No client looks again by itself before that, unless a test says so: see [`options`] and [`told`].
pub(crate) const LATE: Duration = Duration::from_secs(20);

/// Longer than any test lasts.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// A client with a keeper and connections of its own.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) locks: Locks,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) keeper: Keeper,
}

impl Client {
    /// A client of the store that a URL names.
    pub(crate) fn new(url: &str) -> Self {
        let keeper = Keeper::start().expect("a keeper's thread can be started");
        let config = EtcdConfig::from_url(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        let backend: Arc<dyn Backend> =
            Arc::new(Etcd::new(config, &keeper).expect("the configuration is good"));
        let locks = Locks::with(Arc::clone(&backend), keeper.clone(), Arc::new(SystemEntropy));
        Self { locks: locks.with_options(options()), backend, keeper }
    }

    pub(crate) fn mutex(&self, name: &str) -> Lock {
        self.locks.mutex(name).expect("tests use good names")
    }

    /// Takes a free lock.
    pub(crate) async fn take(&self, name: &str, options: &AcquireOptions) -> Guard {
        soon("a lock that is free", self.mutex(name).acquire_with(options)).await.unwrap()
    }

    /// The entries in the queue.
    pub(crate) async fn queue(&self, name: &str) -> Vec<QueueRow> {
        self.mutex(name).queue().await.unwrap()
    }

    /// Acquires the lock in a task of its own, and returns when its entry is in the queue as number `len`.
    pub(crate) async fn waiting(
        &self,
        name: &str,
        options: &AcquireOptions,
        len: usize,
    ) -> JoinHandle<Guard> {
        let lock = self.mutex(name).with_options(options.clone());
        let task = tokio::spawn(async move { lock.acquire().await.unwrap() });
        self.await_queue(name, len).await;
        task
    }

    /// Waits until a queue has `len` entries.
    pub(crate) async fn await_queue(&self, name: &str, len: usize) {
        let lock = self.mutex(name);
        let what = format!("{len} entries in the queue of `{name}`");
        audit::eventually(&what, LATE, || async { lock.queue().await.is_ok_and(|rows| rows.len() == len) })
            .await;
    }

    /// Checks that a queue is empty, and that the lock can be taken.
    pub(crate) async fn assert_free(&self, name: &str) {
        self.await_queue(name, 0).await;
        let guard = self.take(name, &options()).await;
        guard.release().await.unwrap();
    }

    /// Ends the client as a crash would.
    pub(crate) fn crash(self) {
        self.keeper.stop();
    }
}

/// Leases that outlast a stall of the machine, and a `wait` that ends with an error before the whole test hangs.
pub(crate) fn options() -> AcquireOptions {
    AcquireOptions::new().ttl(Duration::from_secs(30)).wait(Duration::from_secs(120))
}

/// The same with a lease that outlasts the test, for waiters that do not look again by themselves: a waiter that continues has got
/// a hint.
pub(crate) fn told() -> AcquireOptions {
    options().ttl(HOUR).look_again(HOUR, HOUR)
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new(name).expect("tests use good names")
}

/// Waits for a future that has to complete by itself.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    audit::within(what, LATE, future).await
}

/// The kind of the store's failure in an error.
pub(crate) fn kind(error: &Error) -> &BackendErrorKind {
    let Error::Backend { source, .. } = error else { panic!("not an error of the store: {error:?}") };
    source.kind()
}
