//! Leftovers in the store after a case are found, even if the case itself passes (G01).

use std::sync::Arc;

use async_trait::async_trait;
use lock_conformance::{Layer, MakeBug, Sound, finds};
use lock_core::{
    Backend, BackendError, Claim, Creates, Departure, Entropy, Entry, EntryId, LockName, Standing, Step,
    SystemEntropy, WaitMode,
};

use crate::MemoryHarness;

const CASE: (&str, &str) = ("resources", "nothing_is_left_in_the_store_but_the_entries_of_the_dead");

fn is_found(bug: MakeBug, says: &str) {
    let (group, case) = CASE;
    let said = finds::<MemoryHarness>(group, case, bug).expect("what is left is found");
    assert!(said.contains("leaves behind") && said.contains(says), "{said}");
}

#[test]
fn nothing_is_found_where_nothing_is_left() {
    let (group, case) = CASE;
    assert_eq!(finds::<MemoryHarness>(group, case, |_| Arc::new(Sound)), None);
}

/// Leaves of locks whose names end in this text are lost, and reported as done.
#[derive(Debug)]
struct Stays(&'static str);

#[async_trait]
impl Layer for Stays {
    async fn leave(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        creates: Creates,
    ) -> Result<Departure, BackendError> {
        if entry.name.as_str().ends_with(self.0) {
            return Ok(Departure::Left);
        }
        store.leave(entry, creates).await
    }
}

#[test]
fn a_waiter_that_was_dropped_and_stays_is_found() {
    is_found(|_| Arc::new(Stays("left to tasks")), "left to tasks");
}

#[test]
fn a_guard_that_was_dropped_and_stays_is_found() {
    is_found(|_| Arc::new(Stays("dropped")), "dropped");
}

#[test]
fn a_guard_that_was_released_and_stays_is_found() {
    is_found(|_| Arc::new(Stays("released")), "released");
}

/// Each entry creates another one, under a name that no case uses.
#[derive(Debug)]
struct BringsAnother;

#[async_trait]
impl Layer for BringsAnother {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let name = LockName::new("another").expect("it is a name");
        let other = Entry::new(name, EntryId::new(SystemEntropy.bits()), Claim::mutex(), entry.ttl);
        store.enter(&other, Step::Create, WaitMode::Queue).await?;
        store.enter(entry, step, wait).await
    }
}

#[test]
fn an_entry_that_nobody_knows_of_is_found() {
    is_found(|_| Arc::new(BringsAnother), "`another`");
}
