//! [`Subscriptions`]: what hints of a store come by that clients are connected to.

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

/// In memory hints go from hand to hand, with nothing in between that could break. So this does what breaks: once it is
/// [cut](Self::cut), the next hint on each stream that was there before is lost. Then there is a new subscription, and with it
/// the hint that every waiter has to look again (PR14). No clock decides how long it is away.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscriptions(Arc<AtomicU64>);

impl Subscriptions {
    /// Breaks all that are there.
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
        // Before the standing is judged, as the hints themselves (C6).
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
