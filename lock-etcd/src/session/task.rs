//! [`SessionTask`]: the keeper's task for a session.
//!
//! It keeps the lease alive, every third of its ttl. And because a shared lease keeps everything under it alive, it removes
//! what should have ended (PR09): members whose own time is over, and keys that no member has.

use std::{
    collections::HashSet,
    sync::{Arc, Weak},
    time::Duration,
};

use etcd_client::{CompareOp, LeaseTimeToLiveOptions, ResponseHeader};
use lock_core::{BootTime, excerpt, session_pool::sweep};

use super::{leave::delete, pool::Pool, session::Session};
use crate::{client::Client, keys};

/// How often members are checked for whether their time is over.
const SWEEP: Duration = Duration::from_millis(500);

/// The keys under a lease are compared with its members at every third proof.
const INSPECT: u32 = 3;

/// How long a session without members is kept for the next one.
const IDLE: Duration = Duration::from_secs(60);

/// Keeps a session alive, on the keeper, until it has ended or no member needs it.
pub(super) fn start(pool: &Arc<Pool>, session: Arc<Session>, class: Duration) {
    let weak = Arc::downgrade(pool);
    let due = session.proved() + session.granted() / 3;
    let mut task = SessionTask { due, proofs: 0, session: Arc::clone(&session), inspection: Arc::default() };
    pool.keeper.spawn(async move {
        tokio::select! {
            // At once, even with a request in flight: its members are notified.
            () = session.ended() => {}
            () = task.run(&weak) => {}
        }
        if let Some(pool) = weak.upgrade() {
            finish(&pool, &session, class);
        }
    });
}

struct SessionTask {
    session: Arc<Session>,
    /// When the next proof is due.
    due: BootTime,
    proofs: u32,
    /// Shared with the inspection that is under way.
    inspection: Arc<()>,
}

impl SessionTask {
    /// Runs until the session is over.
    async fn run(&mut self, pool: &Weak<Pool>) {
        while let Some(next) = self.round(pool).await {
            tokio::select! {
                () = next => {}
                () = self.session.until_doubtful() => {}
            }
        }
    }

    /// Does what is due. Returns how long to wait then, or `None` if the session is over.
    async fn round(&mut self, pool: &Weak<Pool>) -> Option<lock_core::Sleep> {
        // Dropping the pool revokes its leases.
        let pool = pool.upgrade()?;
        let session = Arc::clone(&self.session);
        let now = pool.keeper.now();
        if !session.is_alive(now) || pool.sessions.close_if_idle(&session, IDLE.max(session.granted())) {
            return None;
        }
        sweep(&pool, &session);
        if session.take_doubt() {
            self.due = now;
        }
        if now >= self.due {
            self.prove(&pool).await;
            if session.has_ended() {
                return None;
            }
        }
        Some(pool.keeper.sleep_until(self.due.min(pool.keeper.now() + SWEEP)))
    }

    async fn prove(&mut self, pool: &Arc<Pool>) {
        let session = &self.session;
        // So that several attempts fit between the first one and the deadline.
        let limit = (session.granted() / 6).min(pool.client.cluster().config.server.command_timeout);
        match session.keep_alive(&pool.client, limit).await {
            Ok(()) => {
                self.due = session.proved() + session.granted() / 3;
                self.proofs += 1;
                if self.proofs.is_multiple_of(INSPECT) {
                    self.inspect(pool);
                }
            }
            Err(failure) => {
                let lease = format!("{:x}", session.lease());
                pool.client.warn("not proved", move |times| {
                    tracing::warn!(lease, times, "an etcd session is not proved alive: {failure}");
                });
                let pause = (session.granted() / 20).clamp(Duration::from_millis(50), Duration::from_secs(1));
                self.due = pool.keeper.now() + pause;
            }
        }
    }

    /// Begins an inspection, unless one is under way. Nothing waits for its answer, which may take as long as any request.
    fn inspect(&self, pool: &Arc<Pool>) {
        if Arc::strong_count(&self.inspection) > 1 {
            return;
        }
        let (under_way, session) = (Arc::clone(&self.inspection), Arc::clone(&self.session));
        let (weak, client) = (Arc::downgrade(pool), pool.client.clone());
        pool.keeper.spawn(async move {
            inspect(&weak, &client, &session).await;
            drop(under_way);
        });
    }
}

/// Handles the end of a session, once: removes it from the pool, notifies the entries that it kept alive, and revokes its lease.
fn finish(pool: &Pool, session: &Arc<Session>, class: Duration) {
    if !pool.sessions.remove(session, class) {
        return;
    }
    session.end();
    let entries: Vec<_> = pool.sessions.members_of(session).iter().map(|member| member.entry.id).collect();
    pool.observer.ended(session, &entries);
    let reaped = Arc::clone(session);
    // The keys under the lease must not live on.
    pool.reap(session.lease(), session.late_grant, move |pool| {
        for member in pool.sessions.members_of(&reaped) {
            pool.forget(&member);
        }
    });
}

/// Ends the sessions in which no slot is used.
pub(super) fn end_idle(pool: &Pool) {
    for (session, class) in pool.sessions.close_idle() {
        finish(pool, &session, class);
    }
}

/// Deletes keys that the lease keeps alive and that no member has: there should be none.
async fn inspect(pool: &Weak<Pool>, client: &Client, session: &Arc<Session>) {
    let lease = session.lease();
    // A later inspection finds what this one would have found.
    let limit = session.granted().min(client.cluster().config.server.command_timeout);
    let asked = client.call_within(limit, |channel| {
        let mut leases = channel.lease.clone();
        async move { leases.time_to_live(lease, Some(LeaseTimeToLiveOptions::new().with_keys())).await }
    });
    let Ok(answer) = asked.await else { return };
    // With the session all its keys end.
    let Some(pool) = pool.upgrade().filter(|_| !session.has_ended()) else { return };
    let revision = answer.header().map_or(0, ResponseHeader::revision);
    // Only now, after the read: an entry that came in between was a member before its key existed.
    let members = pool.sessions.members_of(session);
    let known: HashSet<_> = members.iter().map(|member| member.key.as_slice()).collect();
    for key in answer.keys() {
        if !keys::is_entry(&pool.prefix, key) || known.contains(key.as_slice()) {
            continue;
        }
        let shown = excerpt(format_args!("{}", String::from_utf8_lossy(key)));
        client.warn("nobody knows", move |times| {
            tracing::warn!(key = %shown, times, "an entry that nobody knows is deleted");
        });
        // Deletes only this life of the key. If it fails, the next inspection finds the key again.
        drop(delete(client, key, CompareOp::Less, revision + 1).await);
    }
}
