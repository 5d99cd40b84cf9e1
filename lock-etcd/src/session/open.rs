//! Opening a session.

use std::{sync::Arc, time::Duration};

use etcd_client::{LeaseGrantOptions, LeaseGrantResponse, PutOptions};
use lock_core::{BackendErrorKind as Kind, BootTime, Entropy, SystemEntropy, isolate};

use super::{
    pool::{Pool, class},
    reap::REVOKE_FOR,
    session::Session,
};
use crate::{
    client::Outcome,
    error::{Cause, Failure},
    keys,
};

/// Opens a session for the entries of one class, on the runtime of the caller: the keeper.
pub(super) async fn open_shared(pool: &Pool, class: Duration) -> Result<Arc<Session>, Failure> {
    open(pool, class, true).await.map(Arc::new)
}

/// Opens a session for one entry, on the caller's runtime.
pub(super) async fn open_private(pool: &Pool, ttl: Duration) -> Result<Arc<Session>, Failure> {
    open(pool, class(ttl), false).await.map(Arc::new)
}

/// Nothing was created in anybody's queue if it fails: so it is *unsent*, as far as the entry goes.
async fn open(pool: &Pool, ttl: Duration, shared: bool) -> Result<Session, Failure> {
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
    isolate(|| {
        tracing::debug!(lease = format_args!("{lease:x}"), ttl = ?granted, shared, "etcd session opened");
    });
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
    pool: &'a Pool,
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
