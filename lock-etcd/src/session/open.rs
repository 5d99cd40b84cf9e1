//! Opens sessions.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use etcd_client::{LeaseGrantOptions, LeaseGrantResponse, PutOptions};
use lock_core::{BackendErrorKind as Kind, Entropy, SystemEntropy, isolate};

use super::{
    pool::{Pool, class},
    reap::REVOKE_FOR,
    session::Session,
};
use crate::{
    client::Outcome,
    error::{Failure, says_lease_exists},
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
    let mut unused = UnusedLease { pool, lease, may_exist: AtomicBool::new(false), late: true };
    let proved = pool.keeper.now();
    let Outcome { answer, unanswered } = grant(&unused, ttl).await;
    unused.late = unanswered;
    if answer.is_err() && !unanswered {
        // What was sent, if anything, was refused.
        unused.disarm();
    }
    let granted = granted(pool, lease, answer).await.map_err(Failure::unsent)?;
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
    unused.disarm();
    isolate(|| {
        tracing::debug!(lease = format_args!("{lease:x}"), ttl = ?granted, shared, "etcd session opened");
    });
    Ok(session)
}

/// Requests the lease. `None` if it exists already: the request arrived twice, and the first answer is missing.
async fn grant(unused: &UnusedLease<'_>, ttl: Duration) -> Outcome<Option<LeaseGrantResponse>> {
    let lease = unused.lease;
    // At most a day.
    let seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
    let sent = unused.pool.client.send(|channel| {
        unused.may_exist.store(true, Ordering::Relaxed);
        let mut leases = channel.lease.clone();
        async move {
            match leases.grant(seconds, Some(LeaseGrantOptions::new().with_id(lease))).await {
                // Here and not with the other failures, for which the request would be repeated.
                Err(error) if says_lease_exists(&error) => Ok(None),
                granted => granted.map(Some),
            }
        }
    });
    sent.await
}

/// The time for which the lease was granted.
async fn granted(
    pool: &Pool,
    lease: i64,
    answer: Result<Option<LeaseGrantResponse>, Failure>,
) -> Result<Duration, Failure> {
    let seconds = if let Some(granted) = answer? {
        granted.ttl()
    } else {
        // One of the two requests was carried out, after the first was sent.
        let asked = pool.client.call(|channel| {
            let mut leases = channel.lease.clone();
            async move { leases.time_to_live(lease, None).await }
        });
        asked.await?.granted_ttl()
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

/// On drop, revokes a lease that may have been granted, and no other: a revoke is repeated until it is answered, so in an outage there
/// would be one for each session that could not be opened.
struct UnusedLease<'a> {
    pool: &'a Pool,
    lease: i64,
    /// Whether it may have been granted, and is not used.
    may_exist: AtomicBool,
    /// Whether a grant may still be carried out.
    late: bool,
}

impl UnusedLease<'_> {
    /// The lease is used, or was certainly not granted.
    fn disarm(&mut self) {
        *self.may_exist.get_mut() = false;
    }
}

impl Drop for UnusedLease<'_> {
    fn drop(&mut self) {
        if *self.may_exist.get_mut() {
            let late = self.late.then(|| self.pool.keeper.now() + REVOKE_FOR);
            self.pool.reap(self.lease, late, |_| {});
        }
    }
}
