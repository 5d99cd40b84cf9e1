//! Lets people and tools ask the store through its client, in the way in which locks ask it.

use std::pin::pin;

use async_trait::async_trait;

use super::Client;
use crate::{
    BackendError, BackendErrorKind, Departure, Diagnosis, EntryId, LockName, Operator, QueueRow,
    panic_isolation::shielded,
};

#[async_trait]
impl Operator for Client {
    async fn queue(&self, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        self.ask(self.backend.operator().queue(name)).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockName>, BackendError> {
        self.ask(self.backend.operator().list(prefix)).await
    }

    async fn evict(&self, name: &LockName, entry: EntryId) -> Result<Departure, BackendError> {
        self.ask(self.backend.operator().evict(name, entry)).await
    }

    async fn diagnose(&self) -> Result<Diagnosis, BackendError> {
        self.ask(self.backend.operator().diagnose()).await
    }
}

impl Client {
    /// What the store answers. In a fork it is not asked: no thread there drives the parent's connections, nor fires a time limit.
    async fn ask<T>(
        &self,
        request: impl Future<Output = Result<T, BackendError>> + Send,
    ) -> Result<T, BackendError> {
        if self.keeper.is_forked() {
            let store = self.backend.guarantees().store;
            let message = "its connections are those of the parent";
            return Err(BackendError::new(store, BackendErrorKind::Forked, message).unsent());
        }
        shielded(pin!(request)).await
    }
}
