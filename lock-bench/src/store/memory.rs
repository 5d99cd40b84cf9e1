//! [`MemoryStore`]: what the library costs without a server. It has no floors.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Backend, Memory};

use super::{Store, StoreKind};
use crate::error::Result;

#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    memory: Memory,
}

#[async_trait]
impl Store for MemoryStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    fn description(&self) -> String {
        "the memory of this process; no server, so no floors".to_owned()
    }

    fn address(&self) -> Option<String> {
        None
    }

    fn backend(&self) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(self.memory.clone()))
    }
}
