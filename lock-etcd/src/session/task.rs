//! What the keeper does for a session.
//!
//! It keeps the lease alive at a third of its ttl. And because a shared lease keeps everything under it alive, it takes
//! away what should be dead (PR09): members whose own time is over, and keys that nobody knows.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use etcd_client::{CompareOp, LeaseTimeToLiveOptions, ResponseHeader};
use futures_util::future::join_all;
use lock_core::{BackOff, BootTime, Entropy, SystemEntropy, excerpt};
use tokio::sync::watch;

use super::{Pool, Session, leave::delete};
use crate::{
    client::Client,
    error::{Cause, Failure},
    keys,
};

/// How often members are looked at whose time may be over.
const SWEEP: Duration = Duration::from_millis(500);

/// How often the keys under a lease are compared with its members: at each third proof.
const INSPECT: u32 = 3;

/// How long a session without members is kept for the next one.
const IDLE: Duration = Duration::from_secs(60);

const BACK_OFF: BackOff = BackOff { least: Duration::from_millis(50), most: Duration::from_secs(5) };

/// So long after its owner is gone it is tried to revoke a lease, which ends by itself then: an outage is mostly shorter. So long, too,
/// a grant is reckoned with that was not answered.
pub(super) const REVOKE_FOR: Duration = Duration::from_secs(60);

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
        // Whoever drops the pool gives its leases back.
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
        let limit = (session.granted() / 6).min(pool.client.cluster().config.command_timeout);
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

/// A session has ended: nobody finds it any more, whoever it kept alive is told, and its lease is revoked. Once.
fn finish(pool: &Pool, session: &Arc<Session>, seconds: u64) {
    let mut registry = pool.lock();
    let Some(class) = registry.classes.get_mut(&seconds) else { return };
    let Some(at) = class.sessions.iter().position(|known| Arc::ptr_eq(known, session)) else { return };
    class.sessions.remove(at);
    drop(registry);
    pool.hub.session_ended(session);
    revoke(pool, session);
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

/// Leaves for members whose time is over: nobody refreshed them, and nobody left for them.
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

/// Deletes what the lease keeps alive and nobody knows: there should be none.
async fn inspect(pool: &Arc<Pool>, session: &Arc<Session>) {
    let lease = session.lease();
    let asked = pool.client.call(|channel| {
        let mut leases = channel.lease.clone();
        async move { leases.time_to_live(lease, Some(LeaseTimeToLiveOptions::new().with_keys())).await }
    });
    let Ok(answer) = asked.await else { return };
    let revision = answer.header().map_or(0, ResponseHeader::revision);
    for key in answer.keys() {
        // Looked up only now: whoever came meanwhile was known before its key was there.
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

/// Revokes the lease of a session that is over until that is confirmed: what stands under it must not live on.
fn revoke(pool: &Pool, session: &Arc<Session>) {
    session.end();
    let session = Arc::clone(session);
    revoke_then(pool, session.lease(), session.late_grant, move |pool| {
        for member in session.members() {
            pool.forget(&member);
        }
    });
}

/// The same for a lease that nobody stands under. `late`: until when a grant of it may be carried out.
pub(super) fn revoke_lease(pool: &Pool, lease: i64, late: Option<BootTime>) {
    revoke_then(pool, lease, late, |_| {});
}

/// The task does not need the pool: whoever drops that gives its leases back, and may end the process as soon as he has nothing else.
fn revoke_then(pool: &Pool, lease: i64, late: Option<BootTime>, then: impl FnOnce(&Pool) + Send + 'static) {
    let (weak, client, revoking) =
        (Weak::clone(&pool.this), pool.client.clone(), Revoking::begin(&pool.revoking));
    pool.keeper.spawn(async move {
        let keeper = client.keeper().clone();
        let (mut failures, mut give_up) = (0, None);
        while let Err(failure) = revoke_once(&client, lease).await {
            tracing::debug!(lease = format_args!("{lease:x}"), "a lease is not revoked yet: {failure}");
            let now = keeper.now();
            if weak.strong_count() == 0 && now >= *give_up.get_or_insert(now + REVOKE_FOR) {
                return;
            }
            failures += 1;
            keeper.sleep_until(now + BACK_OFF.pause(failures, SystemEntropy.bits() as u64)).await;
        }
        if let Some(pool) = weak.upgrade() {
            then(&pool);
        }
        drop(revoking);
        // A grant that comes behind the revoke makes the lease anew. Nobody waits for it: mostly there is none.
        let mut rounds = 0;
        while late.is_some_and(|late| keeper.now() < late) {
            rounds += 1;
            keeper.sleep_until(keeper.now() + BACK_OFF.pause(rounds, SystemEntropy.bits() as u64)).await;
            drop(revoke_once(&client, lease).await);
        }
    });
}

/// Counts a lease that is being revoked, until it is dropped.
struct Revoking(watch::Sender<usize>);

impl Revoking {
    fn begin(all: &watch::Sender<usize>) -> Self {
        all.send_modify(|leases| *leases += 1);
        Self(all.clone())
    }
}

impl Drop for Revoking {
    fn drop(&mut self) {
        self.0.send_modify(|leases| *leases -= 1);
    }
}

/// Revokes a lease. That it is gone already is as good.
pub(super) async fn revoke_once(client: &Client, lease: i64) -> Result<(), Failure> {
    let revoked = client.call(|channel| {
        let mut leases = channel.lease.clone();
        async move { leases.revoke(lease).await }
    });
    match revoked.await {
        Err(failure) if failure.cause() != Cause::LeaseGone => Err(failure),
        _ => Ok(()),
    }
}
