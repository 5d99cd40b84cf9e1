//! Opening a session.

use std::{sync::Arc, time::Duration};

use etcd_client::{LeaseGrantOptions, LeaseGrantResponse, PutOptions};
use lock_core::{BackendErrorKind as Kind, BootTime, Entropy, Entry, SystemEntropy};
use tokio::sync::watch;

use super::{
    member::{Member, Session},
    pool::{OpenTask, Pool, SessionClass, seconds},
    reap::REVOKE_FOR,
    task,
};
use crate::{
    client::Outcome,
    error::{Cause, Failure},
    keys,
};

/// Makes an entry a member under a shared lease, which is opened if need be.
pub(super) async fn reserve(pool: &Arc<Pool>, entry: &Entry) -> Result<Arc<Member>, Failure> {
    let seconds = seconds(entry.ttl);
    loop {
        let mut opening = {
            let mut registry = pool.lock();
            if let Some(member) = registry.reserve(entry, &pool.prefix, pool.keeper.now()) {
                return Ok(member);
            }
            let class = registry.classes.entry(seconds).or_default();
            match &class.opening {
                Some(opening) => opening.clone(),
                None => open_shared(pool, class, seconds),
            }
        };
        let opened = opening.wait_for(Option::is_some).await.map(|opened| opened.clone());
        match opened {
            Ok(Some(Err(failure))) => return Err(failure),
            Ok(_) => {}
            // The task was dropped.
            Err(_) => {
                pool.lock().classes.entry(seconds).or_default().opening = None;
                return Err(Failure::new(Kind::Unavailable, "the keeper has ended").unsent());
            }
        }
    }
}

/// Opens a session on the keeper, so that nobody waits for a runtime of somebody else.
fn open_shared(pool: &Arc<Pool>, class: &mut SessionClass, seconds: u64) -> OpenTask {
    let (done, opening) = watch::channel(None);
    class.opening = Some(opening.clone());
    let pool_for_task = Arc::downgrade(pool);
    pool.keeper.spawn(async move {
        let Some(pool) = pool_for_task.upgrade() else { return };
        let opened = open(&pool, Duration::from_secs(seconds), true).await.map(Arc::new);
        let mut registry = pool.lock();
        let class = registry.classes.entry(seconds).or_default();
        class.opening = None;
        if let Ok(session) = &opened {
            class.sessions.push(Arc::clone(session));
        }
        drop(registry);
        if let Ok(session) = &opened {
            pool.observer.opened(session);
            task::start(&pool, Arc::clone(session), seconds);
        }
        // Nobody may wait for it any more.
        let _ = done.send(Some(opened));
    });
    opening
}

/// Opens a session for one entry, on the caller's runtime.
pub(super) async fn open_private(pool: &Arc<Pool>, ttl: Duration) -> Result<Arc<Session>, Failure> {
    open(pool, Duration::from_secs(seconds(ttl)), false).await.map(Arc::new)
}

/// Nothing was created in anybody's queue if it fails: so it is *unsent*, as far as the entry goes.
async fn open(pool: &Arc<Pool>, ttl: Duration, shared: bool) -> Result<Session, Failure> {
    let lease = fresh_lease();
    // Should the answer be lost, or nobody wait for it any more, there is a lease that nobody uses.
    let mut unused = UnusedLease { pool, lease: Some(lease), late: true };
    let sent = grant(pool, lease, ttl).await;
    unused.late = sent.unanswered;
    let (granted, proved) = sent.answer.map_err(Failure::unsent)?;
    let key = if shared {
        let key = keys::session(&pool.prefix, lease);
        let put = pool.client.call(|channel| {
            let (mut kv, key, options) =
                (channel.kv.clone(), key.clone(), PutOptions::new().with_lease(lease));
            async move { kv.put(key, Vec::new(), Some(options)).await }
        });
        let answer = put.await.map_err(Failure::unsent)?;
        Some((key, answer.header().map_or(0, etcd_client::ResponseHeader::revision)))
    } else {
        None
    };
    let mut session = Session::new(lease, granted, proved, key);
    session.late_grant = unused.late.then(|| pool.keeper.now() + REVOKE_FOR);
    if !session.is_alive(pool.keeper.now()) {
        // Every entry under it would be gone at once, again and again.
        let message = "a lease was over before its grant was answered";
        return Err(Failure::new(Kind::TimedOut, message).at(&pool.client.cluster().config).unsent());
    }
    unused.lease = None;
    tracing::debug!(lease = format_args!("{lease:x}"), ttl = ?granted, shared, "etcd session opened");
    Ok(session)
}

async fn grant(pool: &Pool, lease: i64, ttl: Duration) -> Outcome<(Duration, BootTime)> {
    let proved = pool.keeper.now();
    // A day at the most.
    let seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
    let sent = pool.client.send(|channel| {
        let mut leases = channel.lease.clone();
        async move { leases.grant(seconds, Some(LeaseGrantOptions::new().with_id(lease))).await }
    });
    let Outcome { answer, unanswered } = sent.await;
    let answer = granted(pool, lease, answer).await.map(|granted| (granted, proved));
    Outcome { answer, unanswered }
}

/// For how long it was granted.
async fn granted(
    pool: &Pool,
    lease: i64,
    answer: Result<LeaseGrantResponse, Failure>,
) -> Result<Duration, Failure> {
    let seconds = match answer {
        Ok(granted) => granted.ttl(),
        // The request was sent again, or arrived twice: one of them did it, after the first was sent.
        Err(failure) if failure.cause() == Cause::LeaseExists => {
            let asked = pool.client.call(|channel| {
                let mut leases = channel.lease.clone();
                async move { leases.time_to_live(lease, None).await }
            });
            asked.await?.granted_ttl()
        }
        Err(failure) => return Err(failure),
    };
    // What it gives is never shorter; should it be, that is what counts.
    if let Ok(seconds @ 1..) = u64::try_from(seconds) {
        return Ok(Duration::from_secs(seconds));
    }
    let failure = Failure::new(Kind::Protocol, format!("a lease was granted for {seconds} s"));
    Err(failure.at(&pool.client.cluster().config))
}

/// 63 random bits: a lease that is ours alone, and known before it is asked for.
fn fresh_lease() -> i64 {
    // 0 would let the server choose.
    i64::try_from(SystemEntropy.bits() >> 65).unwrap_or(1).max(1)
}

/// Gives back a lease that may have been granted, when it is dropped.
struct UnusedLease<'a> {
    pool: &'a Arc<Pool>,
    lease: Option<i64>,
    /// A grant may still be carried out.
    late: bool,
}

impl Drop for UnusedLease<'_> {
    fn drop(&mut self) {
        if let Some(lease) = self.lease {
            let late = self.late.then(|| self.pool.keeper.now() + REVOKE_FOR);
            self.pool.reap(lease, late, |_| {});
        }
    }
}
