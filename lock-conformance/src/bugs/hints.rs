//! Bugs in how waiters are told.

use std::{future::ready, mem, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use lock_core::{
    Backend, BackendError, Creates, Departure, Entry, Hint, Hints, Keeper, Notifier, Standing, Step, WaitMode,
};

use crate::Layer;

/// How long a subscription takes. A hint has to arrive within it on a busy machine, or it would not be missed.
const SUBSCRIBING: Duration = Duration::from_secs(2);

/// Replaces the hints of a waiter.
pub(super) fn change_hints(standing: &mut Standing, change: impl FnOnce(Hints) -> Hints) {
    if let Standing::Waiting { hints, .. } = standing {
        let told = mem::replace(hints, Box::pin(stream::empty()));
        *hints = change(told);
    }
}

/// The client subscribes only when the standing is known, and that takes time. Hints before the subscription are lost, and no look follows it
/// (H63).
#[derive(Debug)]
pub(super) struct SubscribesAfterwards;

#[async_trait]
impl Layer for SubscribesAfterwards {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let mut standing = store.enter(entry, step, wait).await?;
        change_hints(&mut standing, |told| Box::pin(stream::once(subscribed(told)).flatten()));
        Ok(standing)
    }
}

/// The hints that come after the subscription. The others are asked for as well: some backends make a hint only when it is asked for.
async fn subscribed(mut told: Hints) -> Hints {
    let keeper = Keeper::shared();
    let missed = async { while told.next().await.is_some() {} };
    let is_over = keeper.timeout_at(keeper.now() + SUBSCRIBING, missed).await.is_some();
    if is_over { Box::pin(stream::empty()) } else { told }
}

/// The connection is opened again, and waiters do not learn that they may have missed hints (H74).
#[derive(Debug)]
pub(super) struct GoesOnWithoutALook;

#[async_trait]
impl Layer for GoesOnWithoutALook {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let mut standing = store.enter(entry, step, wait).await?;
        change_hints(&mut standing, |told| Box::pin(told.filter(|hint| ready(*hint != Hint::Changed))));
        Ok(standing)
    }
}

/// Every departure wakes all waiters (H71).
#[derive(Debug, Default)]
pub(super) struct WakesTheHerd(Notifier);

#[async_trait]
impl Layer for WakesTheHerd {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let herd = self.0.listen(entry.id);
        let mut standing = store.enter(entry, step, wait).await?;
        change_hints(&mut standing, |own| Box::pin(stream::select(own, herd)));
        Ok(standing)
    }

    async fn leave(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        creates: Creates,
    ) -> Result<Departure, BackendError> {
        let departure = store.leave(entry, creates).await;
        self.0.changed_for_all();
        departure
    }
}
