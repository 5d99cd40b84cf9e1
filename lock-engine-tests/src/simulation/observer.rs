//! [`Observer`]: records when entries are in their queues.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use lock_conformance::Layer;
use lock_core::{Backend, BackendError, BootTime, Entry, EntryId, Standing, Step, WaitMode, sync::Mutex};

use super::recorder::Recorder;
use crate::history::EventKind;

/// A layer that changes nothing.
#[derive(Debug)]
pub(super) struct Observer {
    recorder: Arc<Recorder>,
    /// When each entry was first requested; `None` once its place is recorded.
    asked: Mutex<BTreeMap<EntryId, Option<BootTime>>>,
}

impl Observer {
    pub(super) fn new(recorder: Arc<Recorder>) -> Self {
        Self { recorder, asked: Mutex::default() }
    }
}

#[async_trait]
impl Layer for Observer {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let now = self.recorder.sim().now();
        self.asked.lock().entry(entry.id).or_insert(Some(now));
        let standing = store.enter(entry, step, wait).await?;
        if let Standing::Admitted { .. } | Standing::Waiting { .. } = standing {
            let mut asked = self.asked.lock();
            let sent = asked.insert(entry.id, None).flatten();
            drop(asked);
            if let Some(sent) = sent {
                self.recorder.put(EventKind::Enqueued { entry: entry.id, sent });
            }
        }
        Ok(standing)
    }
}
