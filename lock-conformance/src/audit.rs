//! Waiting for what must become true, and looking for what must not be left behind.

use std::{
    fmt,
    future::Future,
    time::{Duration, Instant},
};

use lock_core::{DistributedLock, LockName};

use crate::Client;

/// How much too late anything may happen before it counts as not happening: the one cap on lateness of the suite,
/// generous, because a busy machine is no broken promise. What must not happen too early is never given any slack.
///
/// No case may need more than a fraction of it on a machine that has nothing else to do. And nothing may mend itself within
/// it that a case wants to see broken: so leases last for [`LONG`] where nothing is to end by itself, and cases about hints
/// look again no earlier than that makes them (see [`Case::is_about_hints`](crate::Case::is_about_hints)).
pub const SLACK: Duration = Duration::from_secs(20);

/// A ttl so long that whatever is free within [`SLACK`] was freed, and did not expire; and whoever goes on within it was told
/// to, and did not look because it was time for it, which a waiter does at a third of its ttl.
pub const LONG: Duration = Duration::from_secs(120);

const _: () = assert!(
    LONG.as_secs() / 3 > SLACK.as_secs() + SLACK.as_secs() / 2,
    "a look mends what a hint did not tell"
);

/// What a broken promise of safety is told with, by which it is known through whatever passes its message on.
const INEXCUSABLE: &str = "nothing excuses this: ";

/// Checks a promise of safety: that something never happens, however late or slow anything is. Two holders at once, a count
/// that is lost, an order of tokens that is not one, a deadline that is too late, a loss that is told too early.
///
/// # Panics
/// If it does not hold. Nothing excuses that: neither a machine that stood still nor anything else.
#[track_caller]
pub fn safety(holds: bool, otherwise: impl fmt::Display) {
    assert!(holds, "{INEXCUSABLE}{otherwise}");
}

/// Whether this is what [`safety`] says, perhaps with something around it.
pub(crate) fn is_about_safety(message: &str) -> bool {
    message.contains(INEXCUSABLE)
}

/// Looks every 5 ms until `condition` holds.
///
/// # Panics
/// If it does not within `within`; the message says `what` was waited for.
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

/// Waits for a future that must be ready soon.
///
/// # Panics
/// If it is not within [`SLACK`]; the message says `what` was waited for.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    within(what, SLACK, future).await
}

/// Waits for a future that must be ready within `limit`.
///
/// # Panics
/// If it is not; the message says `what` was waited for.
pub async fn within<T>(what: &str, limit: Duration, future: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        // Looked at first: a future that is ready, but woke nobody, would be found so by the look at the end.
        () = tokio::time::sleep(limit) => panic!("{what}: not within {limit:?}"),
        value = future => value,
    }
}

/// Checks that a name is left free: nobody stands in its queue, and it can be taken.
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

/// Checks that nobody is left in the queue of a name.
///
/// # Panics
/// If somebody is for longer than [`SLACK`].
pub async fn assert_queue_empties(client: &Client, name: &str) {
    await_queue(client, name, 0).await;
}

/// Waits until exactly `len` entries stand in the queue of a name, holders included.
///
/// # Panics
/// If that is not so within [`SLACK`].
pub async fn await_queue(client: &Client, name: &str, len: usize) {
    let name = LockName::new(name).expect("cases use good names");
    let what = format!("{len} entries in the queue of `{name}`");
    eventually(&what, SLACK, || async {
        client.backend.operator().queue(&name).await.is_ok_and(|rows| rows.len() == len)
    })
    .await;
}
