//! Opens sessions.

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

/// If this fails, no entry was created in any queue, so the failure is *unsent* for the entry.
async fn open(pool: &Pool, ttl: Duration, shared: bool) -> Result<Session, Failure> {
    let lease = fresh_lease();
    // If the answer is lost, or the caller is dropped, there may be a lease that nothing uses.
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
        // Entries under this lease would be gone immediately, each time.
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
    // At most a day.
    let seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
    let sent = pool.client.send(|channel| {
        let mut leases = channel.lease.clone();
        async move { leases.grant(seconds, Some(LeaseGrantOptions::new().with_id(lease))).await }
    });
    let Outcome { answer, unanswered } = sent.await;
    let answer = granted(pool, lease, answer).await.map(|granted| (granted, proved));
    Outcome { answer, unanswered }
}

/// The time for which the lease was granted.
async fn granted(
    pool: &Pool,
    lease: i64,
    answer: Result<LeaseGrantResponse, Failure>,
) -> Result<Duration, Failure> {
    let seconds = match answer {
        Ok(granted) => granted.ttl(),
        // The request arrived twice. One of the two was carried out, after the first was sent.
        Err(failure) if failure.cause() == Cause::LeaseExists => {
            let asked = pool.client.call(|channel| {
                let mut leases = channel.lease.clone();
                async move { leases.time_to_live(lease, None).await }
            });
            asked.await?.granted_ttl()
        }
        Err(failure) => return Err(failure),
    };
    // etcd never grants less than requested. If it did, the granted time would count.
    if let Ok(seconds @ 1..) = u64::try_from(seconds) {
        return Ok(Duration::from_secs(seconds));
    }
    let failure = Failure::new(Kind::Protocol, format!("a lease was granted for {seconds} s"));
    Err(failure.at(&pool.client.cluster().config))
}

/// 63 random bits: the id of a lease that no other client uses, known before the grant.
fn fresh_lease() -> i64 {
    // With 0, the server would choose the id.
    i64::try_from(SystemEntropy.bits() >> 65).unwrap_or(1).max(1)
}

/// On drop, revokes a lease that may have been granted.
struct UnusedLease<'a> {
    pool: &'a Pool,
    lease: Option<i64>,
    /// Whether a grant may still be carried out.
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
