//! Bugs in how entries leave.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Backend, BackendError, Creates, Departure, Entry, EntryId, LockName, Standing, Step, WaitMode,
    sync::Mutex,
};

use crate::Layer;

/// A leave removes the holder, whoever that is (H24).
#[derive(Debug)]
pub(super) struct ReleasesAnyHolder;

#[async_trait]
impl Layer for ReleasesAnyHolder {
    async fn leave(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        _: Creates,
    ) -> Result<Departure, BackendError> {
        let rows = store.operator().queue(&entry.name).await?;
        match rows.iter().find(|row| row.admitted).and_then(|row| row.entry) {
            Some(holder) => store.operator().evict(&entry.name, holder).await,
            None => Ok(Departure::Absent),
        }
    }
}

/// A leave says that the entry is gone, and leaves it there.
#[derive(Debug)]
pub(super) struct ForgetsLeaves;

#[async_trait]
impl Layer for ForgetsLeaves {
    async fn leave(&self, _: &Arc<dyn Backend>, _: &Entry, _: Creates) -> Result<Departure, BackendError> {
        Ok(Departure::Left)
    }
}

/// The entries of one ttl share a session, and the first that leaves closes it.
#[derive(Debug, Default)]
pub(super) struct ClosesTheSession(Mutex<HashMap<EntryId, (LockName, Duration)>>);

impl ClosesTheSession {
    /// Takes out the entries that end with one that leaves.
    fn take_others(&self, leaving: &Entry) -> Vec<(EntryId, LockName)> {
        let mut entries = self.0.lock();
        entries.remove(&leaving.id);
        let others = entries.extract_if(|_, (_, ttl)| *ttl == leaving.ttl);
        others.map(|(entry, (name, _))| (entry, name)).collect()
    }
}

#[async_trait]
impl Layer for ClosesTheSession {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let standing = store.enter(entry, step, wait).await?;
        if matches!(standing, Standing::Admitted { .. } | Standing::Waiting { .. }) {
            self.0.lock().insert(entry.id, (entry.name.clone(), entry.ttl));
        }
        Ok(standing)
    }

    async fn leave(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        creates: Creates,
    ) -> Result<Departure, BackendError> {
        let departure = store.leave(entry, creates).await?;
        for (other, name) in self.take_others(entry) {
            store.operator().evict(&name, other).await?;
        }
        Ok(departure)
    }
}
