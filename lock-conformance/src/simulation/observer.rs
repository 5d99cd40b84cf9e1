//! [`Observer`]: writes down when entries are in their queues.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use lock_core::{
    Alarms, Backend, BackendError, BootTime, Creates, Departure, Entry, EntryId, Guarantees, Lease, Operator,
    Renewal, Standing, Step, WaitMode,
};

use super::recorder::Recorder;
use crate::history::What;

/// A wrapper that changes nothing.
#[derive(Debug)]
pub(super) struct Observer {
    inner: Arc<dyn Backend>,
    recorder: Arc<Recorder>,
    /// When each entry was first asked for; `None` once its place is written down.
    asked: Mutex<BTreeMap<EntryId, Option<BootTime>>>,
}

impl Observer {
    pub(super) fn new(inner: Arc<dyn Backend>, recorder: Arc<Recorder>) -> Self {
        Self { inner, recorder, asked: Mutex::default() }
    }
}

#[async_trait]
impl Backend for Observer {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        let now = self.recorder.sim().now();
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).entry(entry.id).or_insert(Some(now));
        let standing = self.inner.enter(entry, step, wait).await?;
        if let Standing::Admitted { .. } | Standing::Waiting { .. } = standing {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            let sent = asked.insert(entry.id, None).flatten();
            drop(asked);
            if let Some(sent) = sent {
                self.recorder.put(What::Enqueued { entry: entry.id, sent });
            }
        }
        Ok(standing)
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
