//! Waiters whose place has to outlive an outage.

use lock_core::{AcquireOptions, DistributedLock, Guard, QueueRow};
use tokio::task::JoinHandle;

use crate::{Client, cases::steps::queue_of};

/// A waiter for a mutex as the second in the queue, and its place.
pub(super) async fn behind(
    client: &Client,
    name: &str,
    options: AcquireOptions,
) -> (JoinHandle<Guard>, QueueRow) {
    let lock = client.mutex(name).with_options(options);
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    let place = queue_of(2, &lock).await.remove(1);
    (waiting, place)
}

/// Checks that a guard has the place that was waited for.
pub(super) fn assert_has(guard: &Guard, place: &QueueRow) {
    assert_eq!((Some(guard.entry_id()), Some(guard.token())), (place.entry, place.token), "another place");
}
