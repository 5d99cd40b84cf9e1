//! A driver that repeats a request without waiting for its answer, and the case that has to find it. On PostgreSQL each request counts; a
//! client that merges equal requests would hide the bug.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use lock_conformance::{Layer, Sound, finds};
use lock_core::{Backend, BackendError, Creates, Departure, Entry, Standing, Step, WaitMode};

use crate::PostgresHarness;

/// Repeats a request every 100 ms until one of them is answered.
#[derive(Debug)]
struct AsksAgainAndAgain;

impl AsksAgainAndAgain {
    async fn ask<T>(mut ask: impl FnMut() -> BoxFuture<'static, T>) -> T {
        const IMPATIENCE: Duration = Duration::from_millis(100);
        let mut asked = FuturesUnordered::new();
        loop {
            asked.push(ask());
            tokio::select! {
                Some(answer) = asked.next() => return answer,
                () = tokio::time::sleep(IMPATIENCE) => {}
            }
        }
    }
}

#[async_trait]
impl Layer for AsksAgainAndAgain {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        Self::ask(|| {
            let (store, entry) = (Arc::clone(store), entry.clone());
            async move { store.enter(&entry, step, wait).await }.boxed()
        })
        .await
    }

    async fn leave(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        creates: Creates,
    ) -> Result<Departure, BackendError> {
        Self::ask(|| {
            let (store, entry) = (Arc::clone(store), entry.clone());
            async move { store.leave(&entry, creates).await }.boxed()
        })
        .await
    }
}

#[test]
fn a_driver_that_asks_again_and_again_is_found() {
    let (group, case) = ("wire", "what_is_answered_late_is_asked_for_twice_at_most");
    let sound = finds::<PostgresHarness>(group, case, |_| Arc::new(Sound));
    assert_eq!(sound, None, "{group}::{case} fails without the bug");
    let said = finds::<PostgresHarness>(group, case, |_| Arc::new(AsksAgainAndAgain));
    let said = said.unwrap_or_else(|| panic!("{group}::{case} does not find it"));
    assert!(said.contains("late requests, where"), "{said}");
}
