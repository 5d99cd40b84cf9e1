//! [`SessionTask`]: what the keeper does for a session.
//!
//! It keeps the lease alive at a third of its ttl. And because a shared lease keeps everything under it alive, it takes
//! away what should be dead (PR09): members whose own time is over, and keys that nobody knows.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use etcd_client::{CompareOp, LeaseTimeToLiveOptions, ResponseHeader};
use futures_util::future::join_all;
use lock_core::{BootTime, excerpt};

use super::{leave::delete, member::Session, pool::Pool};
use crate::keys;

/// How often members are looked at whose time may be over.
const SWEEP: Duration = Duration::from_millis(500);

/// How often the keys under a lease are compared with its members: at each third proof.
const INSPECT: u32 = 3;

/// How long a session without members is kept for the next one.
const IDLE: Duration = Duration::from_secs(60);

/// Keeps a session alive, on the keeper, until it has ended or nobody needs it.
pub(super) fn start(pool: &Arc<Pool>, session: Arc<Session>, seconds: u64) {
    let weak = Arc::downgrade(pool);
    let mut task = SessionTask { due: session.proved() + session.granted() / 3, proofs: 0, session, seconds };
    pool.keeper.spawn(async move {
        while let Some(next) = task.round(&weak).await {
            tokio::select! {
                () = next => {}
                () = task.session.until_doubtful() => {}
            }
        }
    });
}

struct SessionTask {
    session: Arc<Session>,
    seconds: u64,
    /// When the next proof is to be asked for.
    due: BootTime,
    proofs: u32,
}

impl SessionTask {
    /// Does what is due. What to wait for then, or `None` if the session is over.
    async fn round(&mut self, pool: &Weak<Pool>) -> Option<lock_core::Sleep> {
        // The drop of the pool gives its leases back.
        let pool = pool.upgrade()?;
        let session = Arc::clone(&self.session);
        let now = pool.keeper.now();
        sweep(&pool, &session, now).await;
        if !session.is_alive(now) || session.close_if_idle(IDLE.max(session.granted()), now) {
            return self.finish(&pool);
        }
        if session.take_doubt() {
            self.due = now;
        }
        if now >= self.due {
            self.prove(&pool).await;
            if session.has_ended() {
                return self.finish(&pool);
            }
        }
        Some(pool.keeper.sleep_until(self.due.min(pool.keeper.now() + SWEEP)))
    }

    async fn prove(&mut self, pool: &Arc<Pool>) {
        let session = &self.session;
        // So that several tries fit between the first and the deadline.
        let limit = (session.granted() / 6).min(pool.client.cluster().config.server.command_timeout);
        match session.keep_alive(&pool.client, limit).await {
            Ok(()) => {
                self.due = session.proved() + session.granted() / 3;
                self.proofs += 1;
                if self.proofs.is_multiple_of(INSPECT) {
                    inspect(pool, session).await;
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

    fn finish(&self, pool: &Arc<Pool>) -> Option<lock_core::Sleep> {
        finish(pool, &self.session, self.seconds);
        None
    }
}

/// A session has ended: it is found no more, the entries that it kept alive are told, and its lease is revoked. Once.
fn finish(pool: &Pool, session: &Arc<Session>, seconds: u64) {
    let mut registry = pool.lock();
    let Some(class) = registry.classes.get_mut(&seconds) else { return };
    let Some(at) = class.sessions.iter().position(|known| Arc::ptr_eq(known, session)) else { return };
    class.sessions.remove(at);
    drop(registry);
    pool.observer.ended(session);
    session.end();
    let reaped = Arc::clone(session);
    // What stands under it must not live on.
    pool.reap(session.lease(), session.late_grant, move |pool| {
        for member in reaped.members() {
            pool.forget(&member);
        }
    });
}

/// Ends the sessions that nobody has a slot in.
pub(super) fn end_idle(pool: &Pool) {
    let now = pool.keeper.now();
    let mut all = Vec::new();
    for (seconds, class) in &pool.lock().classes {
        all.extend(class.sessions.iter().map(|session| (*seconds, Arc::clone(session))));
    }
    for (seconds, session) in all {
        if session.close_if_idle(Duration::ZERO, now) {
            finish(pool, &session, seconds);
        }
    }
}

/// Removes members whose time is over: nothing refreshed them, and no leave came for them.
async fn sweep(pool: &Arc<Pool>, session: &Arc<Session>, now: BootTime) {
    let overdue: Vec<_> = session.members().into_iter().filter(|member| member.is_overdue(now)).collect();
    for some in overdue.chunks(64) {
        let left = join_all(some.iter().map(|member| pool.remove_entry(member, false))).await;
        // What failed is tried again at the next look.
        if let Some(failure) = left.iter().find_map(|left| left.as_ref().err()) {
            tracing::debug!(
                lease = format_args!("{:x}", session.lease()),
                "an entry that is over is not gone yet: {failure}"
            );
            return;
        }
    }
}

/// Deletes keys that the lease keeps alive and that no member has: there should be none.
async fn inspect(pool: &Arc<Pool>, session: &Arc<Session>) {
    let lease = session.lease();
    let asked = pool.client.call(|channel| {
        let mut leases = channel.lease.clone();
        async move { leases.time_to_live(lease, Some(LeaseTimeToLiveOptions::new().with_keys())).await }
    });
    let Ok(answer) = asked.await else { return };
    let revision = answer.header().map_or(0, ResponseHeader::revision);
    for key in answer.keys() {
        // Looked up only now: an entry that came meanwhile was a member before its key was there.
        if !keys::is_entry(&pool.prefix, key) || session.has_key(key) {
            continue;
        }
        let shown = excerpt(format_args!("{}", String::from_utf8_lossy(key)));
        pool.client.warn("nobody knows", move |times| {
            tracing::warn!(key = %shown, times, "an entry that nobody knows is deleted");
        });
        // Not one that has the key since. What fails is found again at the next inspection.
        drop(delete(&pool.client, key, CompareOp::Less, revision + 1).await);
    }
}
