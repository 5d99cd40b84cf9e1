//! [`NoHints`] and [`HintsOnly`]: waiters that only poll, and waiters that only listen.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::stream;
use lock_core::{Backend, BackendError, BootTime, Entry, Keeper, Standing, Step, WaitMode};

use crate::Layer;

/// Removes all hints: the stream ends at once, and waiters look again on a timer.
#[derive(Clone, Debug, Default)]
pub struct NoHints {
    /// The clock, and how often to look: see [`NoHints::looking_every`].
    often: Option<(Keeper, Duration)>,
}

/// Removes the times to look again: waiters depend on hints, and only look on their own to keep their lease alive, at a third of the
/// ttl.
#[derive(Clone, Copy, Debug)]
pub struct HintsOnly;

impl NoHints {
    /// Without hints, and with a look at least this often. [`default`](Self::default) leaves the times to look again as they are.
    #[must_use]
    pub fn looking_every(pause: Duration, keeper: Keeper) -> Self {
        Self { often: Some((keeper, pause)) }
    }
}

#[async_trait]
impl Layer for NoHints {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let mut standing = store.enter(entry, step, wait).await?;
        if let Standing::Waiting { hints, look_again, .. } = &mut standing {
            *hints = Box::pin(stream::empty());
            if let Some((keeper, pause)) = &self.often {
                *look_again = (keeper.now() + *pause).min(*look_again);
            }
        }
        Ok(standing)
    }
}

#[async_trait]
impl Layer for HintsOnly {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let mut standing = store.enter(entry, step, wait).await?;
        if let Standing::Waiting { look_again, .. } = &mut standing {
            *look_again = BootTime::FAR_FUTURE;
        }
        Ok(standing)
    }
}
