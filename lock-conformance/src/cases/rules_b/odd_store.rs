//! [`OddStore`]: a backend with habits that a store may have.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Alarms, Backend, BackendError, Clock, Creates, Departure, Entry, Guarantees, Lease, Operator, Renewal,
    Standing, Step, SystemClock, WaitMode, valid_until,
};

use crate::{Client, Faulty, World, cases::steps::LONG};

/// What is odd about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    /// An entry lives as long as its session, a minute, and not only for its ttl.
    SharedSession,
    /// The same, and no renewal works.
    DeafSession,
    /// Renewals of leases with this ttl are never answered.
    Stuck(Duration),
}

#[derive(Debug)]
pub(super) struct OddStore {
    inner: Arc<dyn Backend>,
    habit: Habit,
}

/// A client of the store as seen through its habit.
pub(super) async fn odd(world: &World, habit: Habit) -> Client {
    world.client_through(|inner| Arc::new(OddStore { inner, habit })).await
}

/// The same, with a count of what it was asked and what it answered.
pub(super) async fn odd_and_counted(world: &World, habit: Habit) -> (Client, Faulty) {
    let mut counted = None;
    let client = world.client_through(|inner| {
        let odd = Arc::new(OddStore { inner, habit });
        Arc::new(counted.insert(Faulty::new(odd)).clone())
    });
    let client = client.await;
    (client, counted.expect("every client has a backend"))
}

impl OddStore {
    /// The entry as the store gets it.
    fn stored(&self, entry: &Entry) -> Entry {
        let mut entry = entry.clone();
        if !matches!(self.habit, Habit::Stuck(_)) {
            entry.ttl = LONG;
        }
        entry
    }
}

#[async_trait]
impl Backend for OddStore {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        let until = valid_until(SystemClock.now(), entry.ttl, entry.ttl);
        let mut standing = self.inner.enter(&self.stored(entry), step, wait).await?;
        if let Standing::Admitted { ttl, valid_until, .. } | Standing::Waiting { ttl, valid_until, .. } =
            &mut standing
        {
            *ttl = entry.ttl;
            *valid_until = until.min(*valid_until);
        }
        Ok(standing)
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        match self.habit {
            Habit::Stuck(ttl) if leases.iter().any(|lease| lease.entry.ttl == ttl) => {
                return std::future::pending().await;
            }
            Habit::DeafSession => {
                let error = lock_core::BackendErrorKind::Unavailable;
                return leases.iter().map(|_| Err(BackendError::new("odd", error.clone(), "deaf"))).collect();
            }
            _ => {}
        }
        let sent = SystemClock.now();
        let stored = |lease: &Lease| Lease { entry: Arc::new(self.stored(&lease.entry)), token: lease.token };
        let stored: Vec<Lease> = leases.iter().map(stored).collect();
        let answers = self.inner.renew(&stored).await;
        let shorter = |(answer, lease): (Result<Renewal, BackendError>, &Lease)| match answer {
            Ok(Renewal::Renewed { valid_until: theirs }) => {
                let ours = valid_until(sent, lease.entry.ttl, lease.entry.ttl);
                Ok(Renewal::Renewed { valid_until: ours.min(theirs) })
            }
            answer => answer,
        };
        answers.into_iter().zip(leases).map(shorter).collect()
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        self.inner.leave(entry, creates).await
    }

    fn alarms(&self) -> Alarms {
        self.inner.alarms()
    }

    fn guarantees(&self) -> &Guarantees {
        self.inner.guarantees()
    }

    fn operator(&self) -> &dyn Operator {
        self.inner.operator()
    }
}
