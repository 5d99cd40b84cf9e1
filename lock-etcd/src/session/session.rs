//! [`Session`]: one lease, and until when it is proved alive.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use lock_core::{
    BackendErrorKind as Kind, BootTime,
    session_pool::PooledSession,
    sync::{Mutex, MutexGuard},
    valid_until,
};
use tokio::sync::Notify;

use super::{
    numbers::Numbers,
    tombstones::{Tombstone, Tombstones},
};
use crate::{
    client::Client,
    error::{Cause, Failure},
};

/// One lease, and the keys and tombstones that its members use, each by one member at a time.
///
/// ### To ensure correctness
/// The time for which the session is valid counts from the *sending* of its last answered proof, a grant or a keep-alive (PR01, b01). A
/// transaction that succeeded is no proof. Once that time is over, the session is never kept alive again (PR26).
#[derive(Debug)]
pub(crate) struct Session {
    lease: i64,
    granted: Duration,
    /// If a grant was not answered, it may be carried out until this time, and would create the lease again after a revoke.
    pub(super) late_grant: Option<BootTime>,
    /// The key of the session, which is deleted with the lease. The keys of its tombstones begin with it. `None` for the lease of a single
    /// entry, which has no tombstones: revoking the lease has the same effect.
    key: Option<Vec<u8>>,
    /// The revision in which the key was put, or already existed.
    opened: i64,
    /// Whether there is a sign that the session may be over. Then it is checked immediately.
    doubted: AtomicBool,
    doubts: Notify,
    ended: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    proved: BootTime,
    dead: bool,
    tombstones: Tombstones,
    /// The numbers at the end of keys that are in use, for each lock and claim.
    key_numbers: HashMap<Vec<u8>, Numbers>,
}

impl Session {
    pub(crate) fn new(lease: i64, granted: Duration, proved: BootTime, key: Option<(Vec<u8>, i64)>) -> Self {
        let (key, opened) = key.map_or((None, 0), |(key, opened)| (Some(key), opened));
        let (tombstones, key_numbers) = (Tombstones::default(), HashMap::new());
        Self {
            lease,
            granted,
            late_grant: None,
            key,
            opened,
            doubted: AtomicBool::new(false),
            doubts: Notify::new(),
            ended: Notify::new(),
            state: Mutex::new(State { proved, dead: false, tombstones, key_numbers }),
        }
    }

    pub(crate) fn lease(&self) -> i64 {
        self.lease
    }

    /// The ttl that etcd granted.
    pub(crate) fn granted(&self) -> Duration {
        self.granted
    }

    pub(crate) fn is_private(&self) -> bool {
        self.key.is_none()
    }

    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// When the last answered proof was sent.
    pub(crate) fn proved(&self) -> BootTime {
        self.lock().proved
    }

    /// Until when an entry that asked for `ttl` may rely on it.
    pub(crate) fn valid_until(&self, ttl: Duration) -> BootTime {
        valid_until(self.lock().proved, ttl, self.granted)
    }

    pub(crate) fn is_alive(&self, now: BootTime) -> bool {
        let state = self.lock();
        !state.dead && now < self.deadline(&state)
    }

    /// Makes sure that the last proof is no older than `age`: asks for a new one if it is.
    pub(crate) async fn prove(&self, client: &Client, age: Duration) -> Result<(), Failure> {
        let limit = client.cluster().config.server.command_timeout;
        if client.keeper().now().since(self.proved()) <= age {
            Ok(())
        } else {
            self.keep_alive(client, limit).await
        }
    }

    /// Asks for a proof: a keep-alive, on a stream of its own. A stream that stays open would have to be monitored: it can
    /// accept requests and be dead (E1).
    pub(super) async fn keep_alive(&self, client: &Client, limit: Duration) -> Result<(), Failure> {
        let sent = client.keeper().now();
        if !self.is_alive(sent) {
            let ended = Failure::new(Kind::Unavailable, "the session has ended");
            return Err(ended.at(&client.cluster().config));
        }
        let lease = self.lease;
        let asked = client.call_within(limit, |channel| {
            let mut leases = channel.lease.clone();
            async move { leases.keep_alive(lease).await }
        });
        match asked.await {
            Ok(_) => {
                let now = client.keeper().now();
                let mut state = self.lock();
                // An answer that comes after the end does not revive the session, because other tasks already know that it has ended.
                state.dead |= now >= self.deadline(&state);
                state.proved = state.proved.max(sent);
                Ok(())
            }
            Err(failure) => {
                if failure.cause() == Cause::LeaseGone {
                    self.end();
                }
                Err(failure)
            }
        }
    }

    /// Makes the keeper check immediately whether the lease exists.
    pub(crate) fn mark_doubtful(&self) {
        self.doubted.store(true, Ordering::Release);
        self.doubts.notify_one();
    }

    pub(crate) fn take_doubt(&self) -> bool {
        self.doubted.swap(false, Ordering::AcqRel)
    }

    pub(super) async fn until_doubtful(&self) {
        self.doubts.notified().await;
    }

    /// Ends the session: nothing may rely on it any more. The keeper does the rest immediately.
    pub(crate) fn end(&self) {
        self.lock().dead = true;
        self.ended.notify_one();
    }

    /// Waits until the session is [ended](Self::end). Returns at once if it was ended before the call.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Whether the session is known to have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.lock().dead
    }

    /// Whether a delete of the session's key in this revision ends the session: the lease was revoked, or another client deletes our keys.
    pub(crate) fn ends_with_its_key(&self, revision: i64) -> bool {
        revision > self.opened
    }

    /// The session's key, and a revision in which it existed, as long as a grant of the lease may still arrive. A grant that arrives after
    /// the end would create the lease again, so until then creates have to check the session's key, too.
    pub(crate) fn key_guard(&self, now: BootTime) -> Option<(&[u8], i64)> {
        let key = self.key.as_deref().filter(|_| self.late_grant.is_some_and(|late| now < late))?;
        Some((key, self.opened))
    }

    /// Takes a number for a key with this prefix, and a tombstone, which no other member has. The lease of a single entry has no tombstones.
    pub(super) fn take_key(&self, prefix: &[u8]) -> (u32, Option<Tombstone>) {
        let mut state = self.lock();
        let number = match state.key_numbers.get_mut(prefix) {
            Some(numbers) => numbers.take(),
            None => state.key_numbers.entry(prefix.to_vec()).or_default().take(),
        };
        let tombstone = self.key.is_some().then(|| state.tombstones.take());
        (number, tombstone)
    }

    /// Makes this number and this tombstone available to other members.
    pub(super) fn give_back_key(&self, prefix: &[u8], number: u32, tombstone: Option<Tombstone>) {
        let mut state = self.lock();
        if let Some(tombstone) = tombstone {
            state.tombstones.give_back(tombstone);
        }
        if state.key_numbers.get_mut(prefix).is_some_and(|taken| taken.give_back(number)) {
            state.key_numbers.remove(prefix);
        }
    }

    /// Records that a tombstone of this session was set in this revision.
    pub(super) fn mark_tombstone_set(&self, tombstone: Tombstone, revision: i64) {
        self.lock().tombstones.mark_set(tombstone, revision);
    }

    fn deadline(&self, state: &State) -> BootTime {
        valid_until(state.proved, self.granted, self.granted)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl PooledSession for Session {
    fn is_alive(&self, now: BootTime) -> bool {
        self.is_alive(now)
    }
}

#[cfg(test)]
mod tests;
