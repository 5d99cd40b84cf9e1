//! [`MemoryHarness`]: the store in the memory of this process, as the suite uses it.

mod subscriptions;

use std::sync::Arc;

use async_trait::async_trait;
use lock_conformance::{
    Case, Control, Declared, Footprint, Harness, Layered, ServerControl, Unsupported, Wire,
};
use lock_core::{Backend, FencingToken, Keeper, LockName, Memory, Operator};

use self::subscriptions::Subscriptions;

const NO_PROCESSES: &str = "the store lives in the memory of one process";
const NO_WIRE: &str = "there is no wire between the store and its clients";
const NO_SERVER: &str = "there is no server that could end or lose data while its clients go on";

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
        const fn no(reason: &'static str, id: &'static str) -> Declared {
            Declared { id, reason }
        }
        const DECLARED: &[Declared] = &[
            no(NO_PROCESSES, "X03"),
            no("there is no way to put anything but locks into it", "X12"),
            no(NO_SERVER, "L06"),
            no(NO_SERVER, "F05"),
            no(NO_WIRE, "T01"),
            no(NO_WIRE, "T02"),
            no(NO_WIRE, "T03"),
            no(NO_WIRE, "T04"),
            no(NO_WIRE, "T05"),
            no(NO_WIRE, "T06"),
            no(NO_WIRE, "T07"),
            no(NO_WIRE, "T08"),
            no(NO_SERVER, "T09"),
            no(NO_SERVER, "T10"),
            no(NO_PROCESSES, "T11"),
            no(NO_WIRE, "T15"),
            no("it has no bound but that of its process", "T19"),
            no("it throws nothing out", "T20"),
            no(NO_SERVER, "T21"),
            no("it has no authentication", "T24"),
        ];
        DECLARED
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
