//! [`Silent`] and [`HintsOnly`]: the two ways in which a waiter learns of its turn, each alone.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream;
use lock_core::{
    Alarms, Backend, BackendError, BootTime, Creates, Departure, Diagnosis, Entry, EntryId, Guarantees,
    Lease, LockName, Operator, QueueRow, Renewal, Standing, Step, WaitMode,
};

/// A backend whose hints never come: the stream ends at once, and waiters look again on a timer.
#[derive(Clone, Debug)]
pub struct Silent(Arc<dyn Backend>);

/// A backend that never says when to look again: waiters depend on hints, but for the look that keeps their own lease
/// alive at a third of the ttl.
#[derive(Clone, Debug)]
pub struct HintsOnly(Arc<dyn Backend>);

impl Silent {
    /// The same backend without its hints.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self(inner)
    }

    fn change(mut standing: Standing) -> Standing {
        if let Standing::Waiting { hints, .. } = &mut standing {
            *hints = Box::pin(stream::empty());
        }
        standing
    }
}

impl HintsOnly {
    /// The same backend without its times to look again.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self(inner)
    }

    fn change(mut standing: Standing) -> Standing {
        if let Standing::Waiting { look_again, .. } = &mut standing {
            *look_again = BootTime::FAR_FUTURE;
        }
        standing
    }
}

/// Everything but `change` is passed on as it is, for both.
macro_rules! pass_on {
    ($wrapper:ty) => {
        #[async_trait]
        impl Backend for $wrapper {
            async fn enter(
                &self,
                entry: &Entry,
                step: Step,
                wait: WaitMode,
            ) -> Result<Standing, BackendError> {
                self.0.enter(entry, step, wait).await.map(Self::change)
            }

            async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
                self.0.renew(leases).await
            }

            async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
                self.0.leave(entry, creates).await
            }

            fn alarms(&self) -> Alarms {
                self.0.alarms()
            }

            fn guarantees(&self) -> &Guarantees {
                self.0.guarantees()
            }
        }

        #[async_trait]
        impl Operator for $wrapper {
            async fn queue(&self, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
                self.0.queue(name).await
            }

            async fn list(&self, prefix: &str) -> Result<Vec<LockName>, BackendError> {
                self.0.list(prefix).await
            }

            async fn evict(&self, name: &LockName, entry: EntryId) -> Result<Departure, BackendError> {
                self.0.evict(name, entry).await
            }

            async fn diagnose(&self) -> Result<Diagnosis, BackendError> {
                self.0.diagnose().await
            }
        }
    };
}

pass_on!(Silent);
pass_on!(HintsOnly);
