//! Waiting for conditions, and checking for leftovers.

use std::{
    fmt,
    future::Future,
    time::{Duration, Instant},
};

use lock_core::{DistributedLock, LockName};

use crate::Client;

/// How late anything may happen before it counts as not happening. It is the only such bound in the suite, and generous: a busy
/// machine breaks no promise. Checks that something does not happen too early have no slack.
///
/// On an idle machine no case needs more than a fraction of it. No fault that a case looks for may heal itself within it. So leases
/// last for [`LONG`] where nothing should expire, and waiters in cases about hints look again no earlier than that implies (see
/// [`Case::is_about_hints`](crate::Case::is_about_hints)).
pub const SLACK: Duration = Duration::from_secs(20);

/// A ttl so long that a lock which is free within [`SLACK`] was released and did not expire, and that a waiter which goes on within
/// it was notified and did not look on its own, as waiters do at a third of their ttl.
pub const LONG: Duration = Duration::from_secs(120);

const _: () = assert!(
    LONG.as_secs() / 3 > SLACK.as_secs() + SLACK.as_secs() / 2,
    "a look by itself would replace a missing hint"
);

/// The start of the message of a broken promise of safety, by which it is recognized wherever the message is passed on.
const INEXCUSABLE: &str = "nothing excuses this: ";

/// Checks a promise of safety: something that must never happen, however late or slow anything is. Examples are two holders at once,
/// a lost update, tokens out of order, a deadline that is too late, and a loss that is reported too early.
///
/// # Panics
/// If it does not hold. Nothing excuses that, a machine that stood still included.
#[track_caller]
pub fn safety(holds: bool, otherwise: impl fmt::Display) {
    assert!(holds, "{INEXCUSABLE}{otherwise}");
}

/// Whether the message contains that of [`safety`].
pub(crate) fn is_about_safety(message: &str) -> bool {
    message.contains(INEXCUSABLE)
}

/// Checks every 5 ms until `condition` holds.
///
/// # Panics
/// If it does not hold within `within`. The message says `what` was waited for.
pub async fn eventually<F>(what: &str, within: Duration, mut condition: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    let end = Instant::now() + within;
    while !condition().await {
        assert!(Instant::now() < end, "{what}: not within {within:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits for a future that must be ready within [`SLACK`].
///
/// # Panics
/// If it is not. The message says `what` was waited for.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    within(what, SLACK, future).await
}

/// Waits for a future that must be ready within `limit`.
///
/// # Panics
/// If it is not. The message says `what` was waited for.
pub async fn within<T>(what: &str, limit: Duration, future: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        // Polled first: at the end of the time, a future that became ready without a wake-up must not pass.
        () = tokio::time::sleep(limit) => panic!("{what}: not within {limit:?}"),
        value = future => value,
    }
}

/// Checks that a name is free: its queue is empty, and the lock can be taken.
///
/// # Panics
/// If it is not within [`SLACK`].
pub async fn assert_free(client: &Client, name: &str) {
    assert_queue_empties(client, name).await;
    let guard = client.mutex(name).try_acquire().await;
    let Ok(Some(guard)) = guard else { panic!("`{name}` has an empty queue and cannot be taken: {guard:?}") };
    let released = guard.release().await;
    assert!(released.is_ok(), "`{name}` cannot be released: {released:?}");
}

/// Waits until the queue of a name is empty.
///
/// # Panics
/// If it is not within [`SLACK`].
pub async fn assert_queue_empties(client: &Client, name: &str) {
    await_queue(client, name, 0).await;
}

/// Waits until exactly `len` entries are in the queue of a name, holders included.
///
/// # Panics
/// If there are not within [`SLACK`].
pub async fn await_queue(client: &Client, name: &str, len: usize) {
    let name = LockName::new(name).expect("cases use good names");
    let what = format!("{len} entries in the queue of `{name}`");
    eventually(&what, SLACK, || async {
        client.backend.operator().queue(&name).await.is_ok_and(|rows| rows.len() == len)
    })
    .await;
}
