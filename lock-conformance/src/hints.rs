//! [`Silent`] and [`HintsOnly`]: the two ways in which a waiter learns of its turn, each alone.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::stream;
use lock_core::{
    Alarms, Backend, BackendError, BootTime, Creates, Departure, Entry, Guarantees, Keeper, Lease, Operator,
    Renewal, Standing, Step, WaitMode,
};

/// A backend whose hints never come: the stream ends at once, and waiters look again on a timer.
#[derive(Clone, Debug)]
pub struct Silent {
    inner: Arc<dyn Backend>,
    /// What tells the time, and how often to look: see [`Silent::looking_every`].
    often: Option<(Keeper, Duration)>,
}

/// A backend that never says when to look again: waiters depend on hints, but for the look that keeps their own lease
/// alive at a third of the ttl.
#[derive(Clone, Debug)]
pub struct HintsOnly {
    inner: Arc<dyn Backend>,
}

impl Silent {
    /// The same backend without its hints. It says when to look again as it did before.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self { inner, often: None }
    }

    /// The same backend without its hints, which says to look again after this time at the latest.
    #[must_use]
    pub fn looking_every(pause: Duration, keeper: Keeper, inner: Arc<dyn Backend>) -> Self {
        Self { inner, often: Some((keeper, pause)) }
    }

    fn change(this: &Self, mut standing: Standing) -> Standing {
        if let Standing::Waiting { hints, look_again, .. } = &mut standing {
            *hints = Box::pin(stream::empty());
            if let Some((keeper, pause)) = &this.often {
                *look_again = (keeper.now() + *pause).min(*look_again);
            }
        }
        standing
    }
}

impl HintsOnly {
    /// The same backend without its times to look again.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self { inner }
    }

    fn change(_: &Self, mut standing: Standing) -> Standing {
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
                self.inner.enter(entry, step, wait).await.map(|standing| Self::change(self, standing))
            }

            async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
                self.inner.renew(leases).await
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
    };
}

pass_on!(Silent);
pass_on!(HintsOnly);
