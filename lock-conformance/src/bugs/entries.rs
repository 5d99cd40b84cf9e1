//! Bugs in how entries and queues are found.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use async_trait::async_trait;
use futures_util::stream;
use lock_core::{
    Backend, BackendError, Creates, Departure, Entropy, Entry, EntryId, Lease, LockName, QueueRow, Renewal,
    Standing, Step, SystemEntropy, WaitMode,
};

use crate::Layer;

/// The id of the entry depends on the client and the name, and not on the acquisition (H78).
#[derive(Debug)]
pub(super) struct KeyPerSession {
    session: u128,
}

impl KeyPerSession {
    pub(super) fn new() -> Self {
        Self { session: SystemEntropy.bits() }
    }

    fn same(&self, entry: &Entry) -> Entry {
        let mut hasher = DefaultHasher::new();
        entry.name.hash(&mut hasher);
        let mut entry = entry.clone();
        entry.id = EntryId::new(self.session ^ u128::from(hasher.finish()));
        entry
    }
}

#[async_trait]
impl Layer for KeyPerSession {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        store.enter(&self.same(entry), step, wait).await
    }

    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let same = |lease: &Lease| Lease { entry: Arc::new(self.same(&lease.entry)), token: lease.token };
        let leases: Vec<_> = leases.iter().map(same).collect();
        store.renew(&leases).await
    }

    async fn leave(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        creates: Creates,
    ) -> Result<Departure, BackendError> {
        store.leave(&self.same(entry), creates).await
    }
}

/// The queue of a name has every key that starts with the name, because nothing marks where the name ends (H77).
#[derive(Debug)]
pub(super) struct PrefixWithoutEnd;

#[async_trait]
impl Layer for PrefixWithoutEnd {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let others = store.operator().list(entry.name.as_str()).await?.iter().any(|name| *name != entry.name);
        if others && wait == WaitMode::Try {
            return Ok(Standing::Busy);
        }
        match store.enter(entry, step, wait).await? {
            Standing::Admitted { token, ttl, valid_until } if others => Ok(Standing::Waiting {
                token,
                ttl,
                valid_until,
                ahead: 1,
                holder: None,
                look_again: valid_until,
                hints: Box::pin(stream::empty()),
            }),
            standing => Ok(standing),
        }
    }

    async fn queue(&self, store: &Arc<dyn Backend>, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        let mut rows = Vec::new();
        for name in store.operator().list(name.as_str()).await? {
            rows.extend(store.operator().queue(&name).await?);
        }
        Ok(rows)
    }
}
