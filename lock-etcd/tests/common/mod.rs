//! What the tests of one crate share: clients that are processes of their own in all but name.
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

/// So late, and no later, comes what has to come by itself, on a machine that is busy with other things: the one cap on lateness.
/// Nothing here asks again by itself before that, unless a test says so: see [`options`] and [`told`].
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

    /// Takes a lock that nobody else has.
    pub(crate) async fn take(&self, name: &str, options: &AcquireOptions) -> Guard {
        soon("a lock that is free", self.mutex(name).acquire_with(options)).await.unwrap()
    }

    /// Who stands in the queue.
    pub(crate) async fn queue(&self, name: &str) -> Vec<QueueRow> {
        self.mutex(name).queue().await.unwrap()
    }

    /// Waits in a task of its own, and returns when that is seen in the queue as entry number `len`.
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

    /// Waits until so many stand in a queue.
    pub(crate) async fn await_queue(&self, name: &str, len: usize) {
        let lock = self.mutex(name);
        let what = format!("{len} entries in the queue of `{name}`");
        audit::eventually(&what, LATE, || async { lock.queue().await.is_ok_and(|rows| rows.len() == len) })
            .await;
    }

    /// Checks that nobody stands in a queue, and that the lock can be taken.
    pub(crate) async fn assert_free(&self, name: &str) {
        self.await_queue(name, 0).await;
        let guard = self.take(name, &options()).await;
        guard.release().await.unwrap();
    }

    /// Ends it as a crash would.
    pub(crate) fn crash(self) {
        self.keeper.stop();
    }
}

/// Leases that outlast a stall of the machine, and a `wait` that ends in an error before the test as a whole hangs.
pub(crate) fn options() -> AcquireOptions {
    AcquireOptions::new().ttl(Duration::from_secs(30)).wait(Duration::from_secs(120))
}

/// The same with a lease that outlasts the test, for waiters who do not look again of themselves meanwhile: who goes on was
/// told.
pub(crate) fn told() -> AcquireOptions {
    options().ttl(HOUR).look_again(HOUR, HOUR)
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new(name).expect("tests use good names")
}

/// Waits for what has to come by itself.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    audit::within(what, LATE, future).await
}

/// What sort of trouble the store was in, as an error says it.
pub(crate) fn kind(error: &Error) -> &BackendErrorKind {
    let Error::Backend { source, .. } = error else { panic!("not an error of the store: {error:?}") };
    source.kind()
}
