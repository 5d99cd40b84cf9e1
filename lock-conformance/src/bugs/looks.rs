//! Bugs in what looks at the queue show.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures_util::stream;
use lock_core::{
    Backend, BackendError, BackendErrorKind, BootTime, Entry, EntryId, FencingToken, LockName, Standing,
    Step, WaitMode, sync::Mutex,
};

use crate::Layer;

/// Looks show the queue as it was when the client first had to wait for the lock, as those of a server that lags behind.
#[derive(Debug, Default)]
pub(super) struct StaleQueues(Mutex<HashSet<LockName>>);

#[async_trait]
impl Layer for StaleQueues {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let standing = store.enter(entry, step, wait).await?;
        let mut waited_for = self.0.lock();
        Ok(match standing {
            Standing::Admitted { token, ttl, valid_until } if waited_for.contains(&entry.name) => {
                let (ahead, holder, look_again) = (1, None, valid_until);
                let hints = Box::pin(stream::empty());
                Standing::Waiting { token, ttl, valid_until, ahead, holder, look_again, hints }
            }
            standing => {
                if matches!(standing, Standing::Waiting { .. }) {
                    waited_for.insert(entry.name.clone());
                }
                standing
            }
        })
    }
}

/// A look shows an entry as it was when it was last there.
#[derive(Debug, Default)]
pub(super) struct StaleGrants(Mutex<HashMap<EntryId, Grant>>);

/// The answer to a look that showed the entry admitted.
#[derive(Clone, Copy, Debug)]
struct Grant {
    token: FencingToken,
    ttl: Duration,
    valid_until: BootTime,
}

#[async_trait]
impl Layer for StaleGrants {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let standing = store.enter(entry, step, wait).await?;
        let mut grants = self.0.lock();
        Ok(match (standing, step) {
            (Standing::Admitted { token, ttl, valid_until }, _) => {
                grants.insert(entry.id, Grant { token, ttl, valid_until });
                Standing::Admitted { token, ttl, valid_until }
            }
            (Standing::Gone, Step::Again(asked)) => match grants.get(&entry.id) {
                Some(&Grant { token, ttl, valid_until }) if token == asked => {
                    Standing::Admitted { token, ttl, valid_until }
                }
                _ => Standing::Gone,
            },
            (standing, _) => standing,
        })
    }
}

/// A waiter treats a refusal as final, as if the server could not serve it again.
#[derive(Debug)]
pub(super) struct GivesUpWhenLockedOut;

#[async_trait]
impl Layer for GivesUpWhenLockedOut {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        match store.enter(entry, step, wait).await {
            Err(error) if step != Step::Create && *error.kind() == BackendErrorKind::Denied => {
                let kind = BackendErrorKind::Unsupported;
                Err(BackendError::new(store.guarantees().store, kind, "a final refusal"))
            }
            answer => answer,
        }
    }
}
