//! [`Quirk`]: properties that some stores have and others do not.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Backend, BackendError, BackendErrorKind, Clock, Entry, Lease, Renewal, Standing, Step, SystemClock,
    WaitMode, valid_until,
};

use crate::{Client, Layer, ScriptedFaults, TestEnv, cases::steps::LONG};

/// How a store differs from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quirk {
    /// An entry lives as long as its session, two minutes, and not only for its ttl.
    SharedSession,
    /// The same, and no renewal works.
    DeafSession,
    /// Renewals of leases with this ttl are never answered.
    Stuck(Duration),
}

/// A client of the store with this quirk.
pub(super) async fn quirky(env: &TestEnv, quirk: Quirk) -> Client {
    env.client_through(&[Arc::new(quirk)]).await
}

/// The same, with a layer that counts requests and answers.
pub(super) async fn quirky_and_counted(env: &TestEnv, quirk: Quirk) -> (Client, ScriptedFaults) {
    let counted = ScriptedFaults::default();
    let client = env.client_through(&[Arc::new(quirk), Arc::new(counted.clone())]).await;
    (client, counted)
}

impl Quirk {
    /// The entry that is passed to the store.
    fn stored(self, entry: &Entry) -> Entry {
        let mut entry = entry.clone();
        if !matches!(self, Self::Stuck(_)) {
            entry.ttl = LONG;
        }
        entry
    }
}

#[async_trait]
impl Layer for Quirk {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let until = valid_until(SystemClock.now(), entry.ttl, entry.ttl);
        let mut standing = store.enter(&self.stored(entry), step, wait).await?;
        if let Standing::Admitted { ttl, valid_until, .. } | Standing::Waiting { ttl, valid_until, .. } =
            &mut standing
        {
            *ttl = entry.ttl;
            *valid_until = until.min(*valid_until);
        }
        Ok(standing)
    }

    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        match *self {
            Self::Stuck(ttl) if leases.iter().any(|lease| lease.entry.ttl == ttl) => {
                return std::future::pending().await;
            }
            Self::DeafSession => {
                let deaf = || BackendError::new("quirk", BackendErrorKind::Unavailable, "deaf");
                return leases.iter().map(|_| Err(deaf())).collect();
            }
            _ => {}
        }
        let sent = SystemClock.now();
        let stored = |lease: &Lease| Lease { entry: Arc::new(self.stored(&lease.entry)), token: lease.token };
        let stored: Vec<Lease> = leases.iter().map(stored).collect();
        let answers = store.renew(&stored).await;
        let shorter = |(answer, lease): (Result<Renewal, BackendError>, &Lease)| match answer {
            Ok(Renewal::Renewed { valid_until: theirs }) => {
                let ours = valid_until(sent, lease.entry.ttl, lease.entry.ttl);
                Ok(Renewal::Renewed { valid_until: ours.min(theirs) })
            }
            answer => answer,
        };
        answers.into_iter().zip(leases).map(shorter).collect()
    }
}
