//! [`MemoryHarness`]: the store in the memory of this process, as the suite uses it.

mod declared;
mod subscriptions;

use std::sync::Arc;

use async_trait::async_trait;
use lock_conformance::{
    Case, Control, Declared, Footprint, Harness, Layered, ServerControl, Unsupported, Wire,
};
use lock_core::{Backend, FencingToken, Keeper, LockName, Memory, Operator};

use self::{
    declared::{NO_PROCESSES, NO_SERVER},
    subscriptions::Subscriptions,
};

/// A store in this process. `CUTS` says whether it really cuts notifications, or only claims to. To kill a client is to stop its keeper
/// without clean-up; to delete a lock is to evict all its entries.
#[derive(Debug)]
pub(crate) struct MemoryHarness<const CUTS: bool = true>(Memory, Subscriptions);

#[async_trait]
impl<const CUTS: bool> Harness for MemoryHarness<CUTS> {
    fn store() -> &'static str {
        "memory"
    }

    fn declared() -> &'static [Declared] {
        declared::OWN
    }

    async fn start(_case: &'static Case) -> Self {
        Self(Memory::new(), Subscriptions::default())
    }

    async fn attach(_address: &str) -> Self {
        panic!("{NO_PROCESSES}")
    }

    fn address(&self) -> Option<String> {
        None
    }

    async fn connect(&self, _keeper: &Keeper) -> Arc<dyn Backend> {
        Arc::new(Layered::new(Arc::new(self.0.clone()), Arc::new(self.1.clone())))
    }

    fn wire(&self) -> Option<&dyn Wire> {
        None
    }

    fn server(&self) -> &dyn ServerControl {
        self
    }
}

#[async_trait]
impl<const CUTS: bool> ServerControl for MemoryHarness<CUTS> {
    fn refusal(&self) -> Unsupported {
        Unsupported(NO_SERVER)
    }

    async fn delete(&self, name: &LockName) -> Control {
        for row in self.0.queue(name).await.unwrap() {
            self.0.evict(name, row.entry.expect("all are ours")).await.unwrap();
        }
        Ok(())
    }

    /// It keeps no data that it could forget.
    async fn forget(&self) -> Control {
        Ok(())
    }

    async fn put_foreign(&self, _name: &LockName) -> Control {
        Err(Unsupported(NO_PROCESSES))
    }

    async fn has_foreign(&self, _name: &LockName) -> Result<bool, Unsupported> {
        Err(Unsupported(NO_PROCESSES))
    }

    async fn raise_tokens(&self, _name: &LockName, last: FencingToken) -> Control {
        self.0.raise_tokens(last);
        Ok(())
    }

    async fn footprint(&self) -> Result<Footprint, Unsupported> {
        let facts = self.0.diagnose().await.unwrap().facts;
        let count = |name| facts.iter().find(|(fact, _)| *fact == name).unwrap().1.parse().unwrap();
        Ok(Footprint { queues: count("queues"), subscriptions: count("listeners"), ..Footprint::default() })
    }

    async fn cut_notifications(&self) -> Control {
        if CUTS {
            self.1.cut();
        }
        Ok(())
    }
}
