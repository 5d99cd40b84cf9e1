//! [`MemoryStore`]: no server and no floors; what the library itself costs.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Backend, Memory};

use super::{Commands, Floors, Noise, Relay, Store};
use crate::{Result, args::StoreKind};

#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    memory: Memory,
}

#[async_trait]
impl Store for MemoryStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    fn about(&self) -> String {
        "the memory of this process; no server, so no floors".to_owned()
    }

    fn address(&self) -> Option<String> {
        None
    }

    fn server(&self) -> Option<u32> {
        None
    }

    fn backend(&self) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(self.memory.clone()))
    }

    async fn floors(&self) -> Result<Option<Arc<dyn Floors>>> {
        Ok(None)
    }

    async fn noise(&self) -> Result<Option<Noise>> {
        Ok(None)
    }

    async fn relay(&self, _: &str, _: &str) -> Result<Option<Box<dyn Relay>>> {
        Ok(None)
    }

    async fn commands(&self) -> Result<Option<Commands>> {
        Ok(None)
    }
}
