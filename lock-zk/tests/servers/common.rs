//! What the tests of this crate share: clients that are processes of their own in all but name.

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

/// Takes a lock that nobody else has.
pub(crate) async fn take(client: &Client, name: &str, options: &AcquireOptions) -> Guard {
    soon("a lock that is free", client.mutex(name).acquire_with(options)).await.unwrap()
}

/// Who stands in a queue.
pub(crate) async fn queue(client: &Client, name: &str) -> Vec<QueueRow> {
    client.mutex(name).queue().await.unwrap()
}

/// Waits in a task of its own, and returns when that is seen in the queue as entry number `len`.
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

/// Has somebody else try all the time to take a lock that is held, while something happens.
pub(crate) async fn alone_while<T>(guard: &Guard, other: &Client, happening: impl Future<Output = T>) -> T {
    Rival::new(guard, other.mutex(guard.name().as_str())).tries_while(happening).await
}

/// Checks that nobody stands in a queue, soon, and that the lock can be taken.
pub(crate) async fn assert_free(client: &Client, name: &str) {
    audit::await_queue(client, name, 0).await;
    let guard = take(client, name, &options()).await;
    guard.release().await.unwrap().confirmed().unwrap();
}

/// Long leases, and a `wait` that ends in an error before the test as a whole hangs.
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

/// What sort of trouble the store was in, as an error says it.
pub(crate) fn kind(error: &Error) -> &BackendErrorKind {
    let Error::Backend { source, .. } = error else { panic!("not an error of the store: {error:?}") };
    source.kind()
}
