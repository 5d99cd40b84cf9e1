//! The events and spans that this library traces. Their names and fields are a contract, so dashboards and alerts can rely on them.
//!
//! All of them have the target `distlock`. A field whose value is not known is left out.
//!
//! A line of the levels info, warn and error stands for one event, or for several with the same cause. Then the field `times` has their
//! number, and the other fields are those of the last event. A client writes at most one line a second for each cause, and what is counted
//! when it is dropped then. The cause is the name of the line together with the verb, the kind of error or the reason, but not the name of
//! the lock.
//!
//! | name | level | what | fields |
//! |---|---|---|---|
//! | span `acquire` | info | one acquisition, from the call to the guard or the error | `name`, `kind`, `entry`, `token`, `outcome` (`granted`, `busy`, `timed out`, `closed`, `failed` or `dropped`), `waited_ms` |
//! | `lock released` | debug | the lock was given back, or its guard dropped | `name`, `entry`, `token`, `held_ms` |
//! | `lock suspect` | warn | a renewal failed, the deadline is still ahead | `name`, `entry`, `token`, `remaining_ms`, `times` |
//! | `lock recovered` | info | a later renewal succeeded | `name`, `entry`, `token`, `times` |
//! | `lock lost` | error | the lock is lost, for good | `name`, `entry`, `token`, `reason`, `held_ms`, `times` |
//! | `place lost` | warn | a waiter's lease ended; it goes to the end of the queue | `name`, `entry`, `times` |
//! | `store away` | warn | a verb failed; it is tried again | `name`, `entry`, `verb`, `error`, `times` |
//! | `cleanup owed` | debug | the keeper takes over what a dropped guard or future left | `name`, `entry` |
//! | `cleanup settled` | debug | the store confirmed it | `name`, `entry` |
//! | `cleanup abandoned` | warn | the lease must have ended by itself; the keeper stops trying | `name`, `entry`, `error`, `times` |
//! | `keeper panicked` | error | the keeper's thread, or its task for one client, panicked; it was started again | `panic` |
//! | `keeper ended` | error | the keeper's thread has ended by a panic, and its locks are lost at their deadlines: connect again | `panic` |
//! | `keeper stands still` | error | the keeper has not done what was due a second ago: something blocks its thread | `overdue_ms`, `times` |
//! | `no watchdog` | error | the watchdog's thread, which fires `lost()` if the keeper does not, cannot be started | `error` |
//!
//! The outcome is what the caller receives: a try that is refused is `busy`, and an `acquire` whose `wait` is zero has `timed out`.
//!
//! Names of locks and labels are written as they are; passwords never are. If a subscriber panics, the library goes on. One that blocks
//! also blocks the thread that writes, and if that is the keeper, nothing is renewed meanwhile. `lost()` fires all the same: all who wait for
//! it are woken before a line is written, and the watchdog writes none. What the watchdog has to log is written by another thread,
//! `distlock-log`, which is started for a line and ends after the last one.

use std::time::Duration;

use crate::{BackendError, Entry, FencingToken, LostReason, panic_isolation::isolate};

pub(crate) const TARGET: &str = "distlock";

pub(crate) fn released(entry: &Entry, token: FencingToken, held: Duration) {
    let held_ms = millis(held);
    isolate(|| {
        tracing::debug!(target: TARGET, name = %entry.name, entry = %entry.id, token = token.get(), held_ms, "lock released");
    });
}

pub(crate) fn suspect(entry: &Entry, token: FencingToken, remaining: Duration, times: Option<u64>) {
    let remaining_ms = millis(remaining);
    isolate(|| {
        tracing::warn!(target: TARGET, name = %entry.name, entry = %entry.id, token = token.get(), remaining_ms, times, "lock suspect");
    });
}

pub(crate) fn recovered(entry: &Entry, token: FencingToken, times: Option<u64>) {
    isolate(|| {
        tracing::info!(target: TARGET, name = %entry.name, entry = %entry.id, token = token.get(), times, "lock recovered");
    });
}

pub(crate) fn lost(
    entry: &Entry,
    token: FencingToken,
    reason: LostReason,
    held: Duration,
    times: Option<u64>,
) {
    let held_ms = millis(held);
    isolate(|| {
        tracing::error!(target: TARGET, name = %entry.name, entry = %entry.id, token = token.get(), %reason, held_ms, times, "lock lost");
    });
}

pub(crate) fn place_lost(entry: &Entry, times: Option<u64>) {
    isolate(|| {
        tracing::warn!(target: TARGET, name = %entry.name, entry = %entry.id, times, "place lost");
    });
}

pub(crate) fn store_away(entry: &Entry, verb: &str, error: &BackendError, times: Option<u64>) {
    isolate(|| {
        tracing::warn!(target: TARGET, name = %entry.name, entry = %entry.id, verb, %error, times, "store away");
    });
}

pub(crate) fn cleanup_owed(entry: &Entry) {
    isolate(|| {
        tracing::debug!(target: TARGET, name = %entry.name, entry = %entry.id, "cleanup owed");
    });
}

pub(crate) fn cleanup_settled(entry: &Entry) {
    isolate(|| {
        tracing::debug!(target: TARGET, name = %entry.name, entry = %entry.id, "cleanup settled");
    });
}

pub(crate) fn cleanup_abandoned(entry: &Entry, error: &BackendError, times: Option<u64>) {
    isolate(|| {
        tracing::warn!(target: TARGET, name = %entry.name, entry = %entry.id, %error, times, "cleanup abandoned");
    });
}

pub(crate) fn keeper_panicked(panic: &str) {
    isolate(|| tracing::error!(target: TARGET, panic, "keeper panicked"));
}

pub(crate) fn keeper_ended(panic: &str) {
    isolate(|| tracing::error!(target: TARGET, panic, "keeper ended"));
}

pub(crate) fn keeper_stands_still(overdue: Duration, times: Option<u64>) {
    let overdue_ms = millis(overdue);
    isolate(|| tracing::error!(target: TARGET, overdue_ms, times, "keeper stands still"));
}

pub(crate) fn no_watchdog(error: &std::io::Error) {
    isolate(|| tracing::error!(target: TARGET, %error, "no watchdog"));
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
