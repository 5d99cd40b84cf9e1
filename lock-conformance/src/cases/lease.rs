//! The lease as the guard sees it, compared with the lease in the store.
//!
//! An instant is only known to lie between two readings of the clock. Each function says which bound it returns, so that no check fails
//! because the machine was busy.

use std::time::Duration;

use lock_core::{
    BootTime, Clock, DistributedLock, Entry, EntryId, FencingToken, Guard, Hold, LockName, QueueRow,
    Standing, Step, SystemClock, WaitMode,
};

use crate::{
    Client, SLACK,
    audit::{eventually, safety, soon},
};

/// How coarsely a store may report what is left of a lease.
pub(super) const GRAIN: Duration = Duration::from_secs(1);

/// A time in milliseconds, as cases use it.
pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The name as a backend is given it.
pub(super) fn lock_name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

/// The time on the clock that clients count on.
pub(super) fn now() -> BootTime {
    SystemClock.now()
}

/// Waits until an instant of that clock is over.
pub(super) async fn until(instant: BootTime) {
    while now() < instant {
        tokio::time::sleep(instant.since(now()).max(ms(1))).await;
    }
}

/// The deadline of a lock, or a little before it.
pub(super) fn deadline_at_least(hold: &Hold) -> BootTime {
    let before = now();
    before + hold.remaining()
}

/// The deadline of a lock, or a little after it.
pub(super) fn deadline_at_most(hold: &Hold) -> BootTime {
    let remaining = hold.remaining();
    now() + remaining
}

/// The row of an entry.
pub(super) async fn row(client: &Client, name: &LockName, id: EntryId) -> Option<QueueRow> {
    let rows = client.backend.operator().queue(name).await.unwrap();
    rows.into_iter().find(|row| row.entry == Some(id))
}

/// When the store will end the lease of an entry at the latest, up to a [`GRAIN`] early if the store counts in seconds. Now, if there is
/// no such entry.
pub(super) async fn lease_end(client: &Client, name: &LockName, id: EntryId) -> BootTime {
    let left = row(client, name, id).await.map(|row| row.lease_left.expect("every lease of ours ends"));
    // Stores do not report fractions of a millisecond.
    left.map_or_else(now, |left| now() + left + ms(1))
}

/// Checks that the store keeps the lease of a lock at least until the deadline that the guard counts on.
pub(super) async fn assert_covered(client: &Client, hold: &Hold, what: &str) {
    let deadline = deadline_at_least(hold);
    let over = deadline.since(lease_end(client, hold.name(), hold.entry_id()).await);
    safety(over.is_zero(), format_args!("{what}: the guard counts on {over:?} more than the lease has"));
}

/// Waits until a waiter is in the queue behind a lock with a short lease. If the machine is so busy that the lease ends before, the waiter
/// is granted when it enters, which no promise depends on.
pub(super) async fn queued_behind(client: &Client, hold: &Hold) {
    let rows = || async { client.backend.operator().queue(hold.name()).await.unwrap().len() };
    eventually("a waiter in the queue", SLACK, || async { !hold.is_held() || rows().await > 1 }).await;
}

/// Takes a mutex as soon as it is free, by trying again and again without ever waiting in its queue.
pub(super) async fn snatch(client: &Client, name: &str, within: Duration) -> Guard {
    let (lock, give_up) = (client.mutex(name), now() + within);
    loop {
        if let Some(guard) = lock.try_acquire().await.unwrap() {
            return guard;
        }
        assert!(now() < give_up, "`{name}` was not free within {within:?}");
        tokio::time::sleep(ms(2)).await;
    }
}

/// Enters the queue or looks again, and expects to be admitted. Returns the token and the deadline.
pub(super) async fn admitted(client: &Client, entry: &Entry, step: Step) -> (FencingToken, BootTime) {
    match soon("an answer to enter", client.backend.enter(entry, step, WaitMode::Queue)).await.unwrap() {
        Standing::Admitted { token, valid_until, .. } => (token, valid_until),
        other => panic!("admitted was expected, not {other:?}"),
    }
}

/// Enters the queue or looks again, and expects to wait. Returns the token, and until when the place is kept.
pub(super) async fn waiting(client: &Client, entry: &Entry, step: Step) -> (FencingToken, BootTime) {
    match soon("an answer to enter", client.backend.enter(entry, step, WaitMode::Queue)).await.unwrap() {
        Standing::Waiting { token, valid_until, .. } => (token, valid_until),
        other => panic!("waiting was expected, not {other:?}"),
    }
}

/// Tries an entry until it is admitted, which has to happen within the ttl of another client (`within`) and [`SLACK`].
pub(super) async fn admitted_after(client: &Client, entry: &Entry, within: Duration) -> FencingToken {
    let give_up = now() + within + SLACK;
    loop {
        match client.backend.enter(entry, Step::Create, WaitMode::Try).await.unwrap() {
            Standing::Admitted { token, .. } => return token,
            Standing::Busy => assert!(now() < give_up, "`{}` is not free after {within:?}", entry.name),
            other => panic!("a try was answered with {other:?}"),
        }
        tokio::time::sleep(ms(2)).await;
    }
}
