//! The suite on a store without notifications: the memory backend with its hints and alarms removed.

mod memory_harness;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::stream;
use lock_conformance::{
    Case, Control, Declared, Footprint, Harness, Layer, Layered, NoHints, ServerControl, Sound, Unsupported,
    Wire, finds,
};
use lock_core::{
    Alarms, BackOff, Backend, BackendError, Entry, FencingToken, Guarantees, Keeper, LockName, Standing,
    Step, WaitMode,
};

use self::memory_harness::MemoryHarness;

lock_conformance::suite!(PollingHarness);

#[test]
fn a_harness_that_promises_notifications_of_a_store_without_them_is_found() {
    let (group, case) = ("exclusion", "a_try_is_refused_while_the_lock_is_held");
    let said = finds::<PollingHarness<true>>(group, case, |_| Arc::new(Sound));
    assert!(said.as_ref().is_some_and(|said| said.contains("one of them is wrong")), "{said:?}");
}

/// Short, to save time.
const POLLS: BackOff = BackOff { least: Duration::from_millis(10), most: Duration::from_millis(20) };

/// A harness whose store has no notifications, and which may claim that it has.
#[derive(Debug)]
struct PollingHarness<const PROMISES: bool = false>(MemoryHarness);

#[async_trait]
impl<const PROMISES: bool> Harness for PollingHarness<PROMISES> {
    fn store() -> &'static str {
        "memory without notifications"
    }

    fn declared() -> &'static [Declared] {
        <MemoryHarness as Harness>::declared()
    }

    fn notifications() -> bool {
        PROMISES
    }

    async fn start(case: &'static Case) -> Self {
        Self(<MemoryHarness as Harness>::start(case).await)
    }

    async fn attach(address: &str) -> Self {
        Self(<MemoryHarness as Harness>::attach(address).await)
    }

    fn address(&self) -> Option<String> {
        self.0.address()
    }

    async fn connect(&self, keeper: &Keeper) -> Arc<dyn Backend> {
        let store = self.0.connect(keeper).await;
        let guarantees = Guarantees { polls: Some(POLLS), ..store.guarantees().clone() };
        Arc::new(Layered::new(store, Arc::new(Mute(guarantees))))
    }

    fn wire(&self) -> Option<&dyn Wire> {
        self.0.wire()
    }

    fn server(&self) -> &dyn ServerControl {
        self
    }
}

/// There are no notifications to cut.
#[async_trait]
impl<const PROMISES: bool> ServerControl for PollingHarness<PROMISES> {
    fn refusal(&self) -> Unsupported {
        self.0.refusal()
    }

    async fn delete(&self, name: &LockName) -> Control {
        self.0.delete(name).await
    }

    async fn forget(&self) -> Control {
        self.0.forget().await
    }

    async fn raise_tokens(&self, name: &LockName, last: FencingToken) -> Control {
        self.0.raise_tokens(name, last).await
    }

    async fn footprint(&self) -> Result<Footprint, Unsupported> {
        self.0.footprint().await
    }
}

/// Removes hints and alarms, and states in the guarantees that there are none.
#[derive(Debug)]
struct Mute(Guarantees);

#[async_trait]
impl Layer for Mute {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        NoHints::default().enter(store, entry, step, wait).await
    }

    fn alarms(&self, _store: &Arc<dyn Backend>) -> Alarms {
        Box::pin(stream::empty())
    }

    fn guarantees<'a>(&'a self, _store: &'a Arc<dyn Backend>) -> &'a Guarantees {
        &self.0
    }
}
