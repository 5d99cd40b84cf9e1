//! What is traced, under which names: a contract, so that dashboards and alerts can rely on it.
//!
//! Everything has the target `distlock`. Fields that are not known are left out.
//!
//! | name | level | what | fields |
//! |---|---|---|---|
//! | span `acquire` | info | one acquisition, from the call to the guard or the error | `name`, `kind`, `entry`, `token`, `waited_ms` |
//! | `lock suspect` | warn | a renewal failed, the deadline is still ahead | `name`, `entry`, `token`, `remaining_ms` |
//! | `lock recovered` | info | a later renewal succeeded | `name`, `entry`, `token` |
//! | `lock lost` | error | the lock is lost, for good | `name`, `entry`, `token`, `reason` |
//! | `place lost` | warn | a waiter's lease ended; it goes to the end of the queue | `name`, `entry` |
//! | `store away` | warn | a verb failed; it is tried again | `name`, `entry`, `verb`, `error` |
//! | `cleanup owed` | debug | the keeper takes over what a dropped guard or future left | `name`, `entry` |
//! | `cleanup settled` | debug | the store confirmed it | `name`, `entry` |
//! | `cleanup abandoned` | warn | the lease must have ended by itself; nothing is owed any more | `name`, `entry`, `error` |
//!
//! Names of locks and labels are written as they are; passwords never are.

use std::time::Duration;

use crate::{BackendError, Claim, Entry, FencingToken, LockName, LostReason};

const TARGET: &str = "distlock";

pub(crate) fn acquire_span(name: &LockName, claim: Claim) -> tracing::Span {
    tracing::info_span!(
        target: TARGET,
        "acquire",
        name = %name,
        kind = %claim.kind(),
        entry = tracing::field::Empty,
        token = tracing::field::Empty,
        waited_ms = tracing::field::Empty,
    )
}

pub(crate) fn suspect(entry: &Entry, token: FencingToken, remaining: Duration) {
    let remaining_ms = millis(remaining);
    tracing::warn!(target: TARGET, name = %entry.name, entry = %entry.id, token = token.get(), remaining_ms, "lock suspect");
}

pub(crate) fn recovered(entry: &Entry, token: FencingToken) {
    tracing::info!(target: TARGET, name = %entry.name, entry = %entry.id, token = token.get(), "lock recovered");
}

pub(crate) fn lost(entry: &Entry, token: FencingToken, reason: LostReason) {
    tracing::error!(target: TARGET, name = %entry.name, entry = %entry.id, token = token.get(), %reason, "lock lost");
}

pub(crate) fn place_lost(entry: &Entry) {
    tracing::warn!(target: TARGET, name = %entry.name, entry = %entry.id, "place lost");
}

pub(crate) fn store_away(entry: &Entry, verb: &'static str, error: &BackendError) {
    tracing::warn!(target: TARGET, name = %entry.name, entry = %entry.id, verb, %error, "store away");
}

pub(crate) fn cleanup_owed(entry: &Entry) {
    tracing::debug!(target: TARGET, name = %entry.name, entry = %entry.id, "cleanup owed");
}

pub(crate) fn cleanup_settled(entry: &Entry) {
    tracing::debug!(target: TARGET, name = %entry.name, entry = %entry.id, "cleanup settled");
}

pub(crate) fn cleanup_abandoned(entry: &Entry, error: &BackendError) {
    tracing::warn!(target: TARGET, name = %entry.name, entry = %entry.id, %error, "cleanup abandoned");
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
