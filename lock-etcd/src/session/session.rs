//! [`Session`]: one lease, and until when it may be relied on.

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

/// One lease, and what its members have of it, one at a time: keys and tombstones.
///
/// ### To ensure correctness
/// It may be relied on only from the *sending* of its last answered proof, a grant or a keep-alive (PR01, b01): that a
/// transaction went through is none. Once the time that this gives is over it is never kept alive again (PR26).
#[derive(Debug)]
pub(crate) struct Session {
    lease: i64,
    granted: Duration,
    /// A grant of it was not answered, and may be carried out until then: it would make the lease anew behind a revoke.
    pub(super) late_grant: Option<BootTime>,
    /// Its key, which goes with the lease. Those of its tombstones begin with it. `None` for a lease of one entry, which has none: to
    /// revoke it does the same.
    key: Option<Vec<u8>>,
    /// The revision in which the key was put, or was there already.
    opened: i64,
    /// Something suggests that it may be over: it is asked at once.
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
    /// Which numbers at the end of keys are taken, for each lock and claim.
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

    /// The ttl that etcd gave.
    pub(crate) fn granted(&self) -> Duration {
        self.granted
    }

    pub(crate) fn is_private(&self) -> bool {
        self.key.is_none()
    }

    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// When its last answered proof was sent.
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

    /// Makes sure that its last proof is no older than `age`: asks for a new one if it is.
    pub(crate) async fn prove(&self, client: &Client, age: Duration) -> Result<(), Failure> {
        let limit = client.cluster().config.server.command_timeout;
        if client.keeper().now().since(self.proved()) <= age {
            Ok(())
        } else {
            self.keep_alive(client, limit).await
        }
    }

    /// Asks for a proof: a keep-alive, on a stream of its own. A stream that stays open would have to be watched: it can
    /// take requests and be dead (E1).
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
                // An answer that comes after the end does not bring it back: others were told that it is over.
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

    /// Has the keeper ask at once whether the lease is there.
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

    /// Ends it: nothing may rely on it any more. The keeper does the rest at once.
    pub(crate) fn end(&self) {
        self.lock().dead = true;
        self.ended.notify_one();
    }

    /// Ready when it was [ended](Self::end), also before the call.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Whether it is known to be over.
    pub(super) fn has_ended(&self) -> bool {
        self.lock().dead
    }

    /// Whether it is over if its key was deleted in this revision: then its lease was revoked, or somebody deletes our keys.
    pub(crate) fn ends_with_its_key(&self, revision: i64) -> bool {
        revision > self.opened
    }

    /// Its key, and a revision in which that was there, for as long as a grant of the lease may still arrive. Behind its end that
    /// would make it anew: what is created under it then needs more than a lease.
    pub(crate) fn key_guard(&self, now: BootTime) -> Option<(&[u8], i64)> {
        let key = self.key.as_deref().filter(|_| self.late_grant.is_some_and(|late| now < late))?;
        Some((key, self.opened))
    }

    /// A number for a key with this prefix, and a tombstone, which no other member has. A lease of one entry has no tombstones.
    pub(super) fn take_key(&self, prefix: &[u8]) -> (u32, Option<Tombstone>) {
        let mut state = self.lock();
        let number = match state.key_numbers.get_mut(prefix) {
            Some(numbers) => numbers.take(),
            None => state.key_numbers.entry(prefix.to_vec()).or_default().take(),
        };
        let tombstone = self.key.is_some().then(|| state.tombstones.take());
        (number, tombstone)
    }

    /// Another member may have this number and this tombstone.
    pub(super) fn give_back_key(&self, prefix: &[u8], number: u32, tombstone: Option<Tombstone>) {
        let mut state = self.lock();
        if let Some(tombstone) = tombstone {
            state.tombstones.give_back(tombstone);
        }
        if state.key_numbers.get_mut(prefix).is_some_and(|taken| taken.give_back(number)) {
            state.key_numbers.remove(prefix);
        }
    }

    /// A tombstone of it was set, in this revision.
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
