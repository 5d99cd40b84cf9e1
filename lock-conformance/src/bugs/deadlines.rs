//! Bugs in when a lease ends.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Backend, BackendError, Clock, Entry, Lease, Renewal, Standing, Step, SystemClock, WaitMode, valid_until,
};

use crate::Layer;

/// The lease ends earlier than the client is told, by up to a minute: ends are told in whole minutes, rounded up.
#[derive(Debug)]
pub(super) struct EndsEarlier;

/// How much earlier.
const EARLIER: Duration = Duration::from_secs(60);

#[async_trait]
impl Layer for EndsEarlier {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let mut standing = store.enter(entry, step, wait).await?;
        if let Standing::Admitted { valid_until, .. } | Standing::Waiting { valid_until, .. } = &mut standing
        {
            *valid_until = *valid_until + EARLIER;
        }
        Ok(standing)
    }

    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let later = |renewal| match renewal {
            Renewal::Renewed { valid_until } => Renewal::Renewed { valid_until: valid_until + EARLIER },
            Renewal::Lost => Renewal::Lost,
        };
        store.renew(leases).await.into_iter().map(|answer| answer.map(later)).collect()
    }
}

/// The store has no leases as long as the client wants, and the client counts on the ttl that it has asked for.
#[derive(Debug)]
pub(super) struct ClampsTtls;

/// The longest ttl that the store has. No case that takes seconds loses a lease by it.
const LONGEST: Duration = Duration::from_secs(30);

impl ClampsTtls {
    fn clamped(entry: &Entry) -> Entry {
        let mut entry = entry.clone();
        entry.ttl = entry.ttl.min(LONGEST);
        entry
    }
}

#[async_trait]
impl Layer for ClampsTtls {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let sent = SystemClock.now();
        let mut standing = store.enter(&Self::clamped(entry), step, wait).await?;
        if let Standing::Admitted { ttl, valid_until: end, .. }
        | Standing::Waiting { ttl, valid_until: end, .. } = &mut standing
        {
            (*ttl, *end) = (entry.ttl, valid_until(sent, entry.ttl, entry.ttl));
        }
        Ok(standing)
    }

    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let sent = SystemClock.now();
        let clamped =
            |lease: &Lease| Lease { entry: Arc::new(Self::clamped(&lease.entry)), token: lease.token };
        let sent_leases: Vec<_> = leases.iter().map(clamped).collect();
        let answers = store.renew(&sent_leases).await.into_iter();
        let told = |(answer, lease): (Result<Renewal, BackendError>, &Lease)| {
            let ttl = lease.entry.ttl;
            answer.map(|renewal| match renewal {
                Renewal::Renewed { .. } => Renewal::Renewed { valid_until: valid_until(sent, ttl, ttl) },
                Renewal::Lost => Renewal::Lost,
            })
        };
        answers.zip(leases).map(told).collect()
    }
}
