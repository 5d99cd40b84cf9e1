//! What is told while notifications are cut is lost on memory, too, and the cases about it find whoever relies on it (L12, PR14).

use std::{collections::HashSet, mem, sync::Arc, thread};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use lock_conformance::{Layer, MakeBug, Sound, finds};
use lock_core::{Backend, BackendError, Entry, EntryId, Hint, Standing, Step, WaitMode};

use crate::MemoryHarness;

const CASES: &[(&str, &str)] = &[
    ("liveness", "waiters_go_on_when_their_notifications_are_cut"),
    ("rules_b", "waiters_look_again_when_their_notifications_come_back"),
];

/// Whoever looks again and was not told to by the grant itself is given what is remembered: that it has to wait.
#[derive(Debug, Default)]
struct BelievesOnlyGrants(Arc<std::sync::Mutex<HashSet<EntryId>>>);

#[async_trait]
impl Layer for BelievesOnlyGrants {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let mut standing = store.enter(entry, step, wait).await?;
        let told = self.0.lock().unwrap().contains(&entry.id);
        match (&mut standing, step) {
            (Standing::Waiting { hints, .. }, _) => {
                let (granted, id) = (Arc::clone(&self.0), entry.id);
                let heard = mem::replace(hints, Box::pin(stream::empty()));
                *hints = Box::pin(heard.inspect(move |hint| {
                    if matches!(hint, Hint::Admitted { .. }) {
                        granted.lock().unwrap().insert(id);
                    }
                }));
                Ok(standing)
            }
            (&mut Standing::Admitted { token, ttl, valid_until }, Step::Again(_)) if !told => {
                let (ahead, holder, look_again) = (1, None, valid_until);
                let hints = Box::pin(stream::empty());
                Ok(Standing::Waiting { token, ttl, valid_until, ahead, holder, look_again, hints })
            }
            _ => Ok(standing),
        }
    }
}

fn each_finds(bug: MakeBug) -> Vec<Option<String>> {
    thread::scope(|scope| {
        let looks =
            CASES.iter().map(|(group, case)| scope.spawn(|| finds::<MemoryHarness>(group, case, bug)));
        let looks: Vec<_> = looks.collect();
        looks.into_iter().map(|look| look.join().expect("a panic of a case is what it says")).collect()
    })
}

#[test]
fn whoever_believes_hints_alone_is_found_when_they_are_cut() {
    for (said, case) in each_finds(|_| Arc::<BelievesOnlyGrants>::default()).into_iter().zip(CASES) {
        let said = said.unwrap_or_else(|| panic!("{case:?} finds nothing"));
        assert!(said.contains("not within"), "{case:?} finds something else: {said}");
    }
}

#[test]
fn nothing_is_found_where_waiters_look_again() {
    assert_eq!(each_finds(|_| Arc::new(Sound)), [None, None]);
}
