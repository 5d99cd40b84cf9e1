//! Shared by the tests of this crate: clients that are as independent as separate processes.

use std::{sync::Arc, time::Duration};

use lock_conformance::{Client, Rival, audit};
use lock_core::{
    AcquireOptions, BackendErrorKind, DistributedLock, Error, Guard, Keeper, LockName, QueueRow,
};
use lock_zk::{ZkConfig, ZooKeeper};
use tokio::task::JoinHandle;

/// A client of the store that a URL names, with a keeper and connections of its own.
pub(crate) fn client(url: &str) -> Client {
    let keeper = Keeper::start().expect("a keeper's thread can be started");
    let config = ZkConfig::from_url(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    let backend = ZooKeeper::new(config, &keeper).expect("the configuration is good");
    Client::on(Arc::new(backend), keeper, options())
}

/// Takes a free lock.
pub(crate) async fn take(client: &Client, name: &str, options: &AcquireOptions) -> Guard {
    soon("a lock that is free", client.mutex(name).acquire_with(options)).await.unwrap()
}

/// The entries in a queue.
pub(crate) async fn queue(client: &Client, name: &str) -> Vec<QueueRow> {
    client.mutex(name).queue().await.unwrap()
}

/// Acquires the lock in a task of its own, and returns when its entry is in the queue as number `len`.
pub(crate) async fn waiting(
    client: &Client,
    name: &str,
    options: &AcquireOptions,
    len: usize,
) -> JoinHandle<Guard> {
    let lock = client.mutex(name).with_options(options.clone());
    let task = tokio::spawn(async move { lock.acquire().await.unwrap() });
    audit::await_queue(client, name, len).await;
    task
}

/// Lets another client try all the time to take a lock that is held, while something happens.
pub(crate) async fn alone_while<T>(guard: &Guard, other: &Client, happening: impl Future<Output = T>) -> T {
    Rival::new(guard, other.mutex(guard.name().as_str())).tries_while(happening).await
}

/// Checks that a queue is soon empty, and that the lock can be taken.
pub(crate) async fn assert_free(client: &Client, name: &str) {
    audit::await_queue(client, name, 0).await;
    let guard = take(client, name, &options()).await;
    guard.release().await.unwrap().confirmed().unwrap();
}

/// Long leases, and a `wait` that ends with an error before the whole test hangs.
pub(crate) fn options() -> AcquireOptions {
    AcquireOptions::new().ttl(Duration::from_secs(10)).wait(Duration::from_secs(60))
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new(name).expect("tests use good names")
}

/// See [`audit::soon`].
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    audit::soon(what, future).await
}

/// The kind of the store's failure in an error.
pub(crate) fn kind(error: &Error) -> &BackendErrorKind {
    let Error::Backend { source, .. } = error else { panic!("not an error of the store: {error:?}") };
    source.kind()
}
