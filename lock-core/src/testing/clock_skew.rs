//! [`ClockSkew`]: a store whose clock differs from that of its client.

use std::sync::Arc;

use async_trait::async_trait;

use super::VirtualClock;
use crate::{
    Alarms, Backend, BackendError, Clock, Creates, Departure, Entry, Guarantees, Lease, Operator, Renewal,
    Standing, Step, WaitMode, valid_until,
};

/// Counts deadlines on the client's clock, from the sending of the request, as a client of a real server does.
#[derive(Debug)]
pub(super) struct ClockSkew {
    inner: Arc<dyn Backend>,
    store: VirtualClock,
    client: VirtualClock,
}

impl ClockSkew {
    pub(super) fn new(inner: Arc<dyn Backend>, store: VirtualClock, client: VirtualClock) -> Self {
        Self { inner, store, client }
    }
}

#[async_trait]
impl Backend for ClockSkew {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        let sent = self.client.now();
        let mut standing = self.inner.enter(entry, step, wait).await?;
        match &mut standing {
            Standing::Admitted { ttl, valid_until: until, .. } => {
                *until = valid_until(sent, entry.ttl, *ttl);
            }
            Standing::Waiting { ttl, valid_until: until, look_again, .. } => {
                *until = valid_until(sent, entry.ttl, *ttl);
                *look_again = self.store.on(&self.client, *look_again);
            }
            Standing::Busy | Standing::Gone => {}
        }
        Ok(standing)
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let sent = self.client.now();
        let mut answers = self.inner.renew(leases).await;
        for (answer, lease) in answers.iter_mut().zip(leases) {
            if let Ok(Renewal::Renewed { valid_until: until }) = answer {
                *until = valid_until(sent, lease.entry.ttl, lease.entry.ttl);
            }
        }
        answers
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        self.inner.leave(entry, creates).await
    }

    async fn give_back(&self) {
        self.inner.give_back().await;
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
