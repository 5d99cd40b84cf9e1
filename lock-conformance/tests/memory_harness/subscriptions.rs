//! [`Subscriptions`]: the subscriptions to hints of clients that are connected to a store.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use lock_conformance::Layer;
use lock_core::{Backend, BackendError, Entry, Hint, Standing, Step, WaitMode};

/// In memory, hints are delivered directly, with no connection that could break. This layer simulates one: after a [cut](Self::cut), the next
/// hint on each existing stream is lost. Then there is a new subscription, and with it the hint that every waiter has to look again (PR14). The
/// duration of the outage does not depend on a clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscriptions(Arc<AtomicU64>);

impl Subscriptions {
    /// Breaks all existing subscriptions.
    pub(crate) fn cut(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Layer for Subscriptions {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        // Subscribed before the standing is judged, like the hints themselves (C6).
        let (cuts, mut seen) = (Arc::clone(&self.0), self.0.load(Ordering::SeqCst));
        let mut standing = store.enter(entry, step, wait).await?;
        if let Standing::Waiting { hints, .. } = &mut standing {
            let told = mem::replace(hints, Box::pin(stream::empty()));
            *hints = Box::pin(told.map(move |hint| {
                let before = mem::replace(&mut seen, cuts.load(Ordering::SeqCst));
                if before == seen { hint } else { Hint::Changed }
            }));
        }
        Ok(standing)
    }
}
