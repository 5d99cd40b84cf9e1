//! Self-tests of the cases about hints: they have to fail on a store that never sends hints, and on one that does not cut notifications
//! when told to.

use std::{collections::HashSet, mem, sync::Arc, thread};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use lock_core::{Backend, BackendError, Entry, EntryId, Hint, Standing, Step, WaitMode, sync::Mutex};

use crate::{Harness, Layer, MakeBug, NoHints, cases, declarations::declaration, finds, ran_nothing};

/// Cases that fail on every store without hints, one or two for each label about hints.
const ABOUT_HINTS: &[(&str, &str)] = &[
    ("liveness", "a_waiter_that_goes_away_in_the_middle_of_the_queue_is_passed_over"),
    ("liveness", "a_release_between_the_look_and_the_wait_is_not_missed"),
    ("liveness", "waiters_look_again_when_their_notifications_come_back"),
    ("wire", "a_silent_notification_connection_is_noticed_in_the_promised_time"),
    ("wire", "all_waiters_look_again_when_their_notifications_come_back"),
];

/// Why nothing is checked on a store without hints.
const NO_HINTS: &str = "declared NOTIFICATIONS: the store has no hints that could be missed";

/// The cases that cut notifications at the server.
const ABOUT_CUTS: &[(&str, &str)] = &[
    ("liveness", "waiters_go_on_when_their_notifications_are_cut"),
    ("liveness", "waiters_look_again_when_their_notifications_come_back"),
];

/// Removes all hints from the clients of a store, and checks that each case about hints fails: a look of the waiter does not hide the
/// missing hint from the case. The cases run at the same time, because each waits until its time limit. Nothing is checked on a store
/// [without hints](Harness::notifications).
///
/// # Panics
/// If a case passes, or fails for another reason than a waiter that is not granted the lock.
pub fn find_silence<H: Harness>() {
    if !H::notifications() {
        return ran_nothing("a_store_without_hints_is_found_by_the_cases_about_hints", NO_HINTS);
    }
    let found = look_for::<H>(ABOUT_HINTS, |_| Arc::new(NoHints::default()));
    assert!(found.len() >= 3, "most cases about hints are declared");
    let missed = missed(found);
    assert!(missed.is_empty(), "without any hint, these say something else or nothing: {missed:#?}");
}

/// Makes clients trust only grants that a hint announces, and checks that each case fails in which
/// [notifications are cut](crate::ServerControl::cut_notifications). If the harness does not really cut them, the hint arrives, the
/// case passes, and this check fails. (Where hints never announce a grant, the cases fail in any event.) Nothing is checked where [cuts
/// make no difference](Harness::cuts_show_nothing), or where there are no hints.
///
/// # Panics
/// As [`find_silence`] does.
pub fn find_cuts<H: Harness>() {
    let none = (!H::notifications()).then_some(NO_HINTS);
    if let Some(how) = none.or_else(H::cuts_show_nothing) {
        return ran_nothing("notifications_that_are_said_to_be_cut_are_not_heard_of", how);
    }
    let missed = missed(look_for::<H>(ABOUT_CUTS, |_| Arc::<BelievesOnlyGrants>::default()));
    assert!(missed.is_empty(), "notifications are said to be cut, and are heard of in these: {missed:#?}");
}

/// The messages of the cases that are not declared, with that bug.
fn look_for<H: Harness>(cases: &[(&str, &str)], bug: MakeBug) -> Vec<(String, Option<String>)> {
    let declared = |group, name| declaration(&cases::find(group, name).case, H::declared()).is_some();
    thread::scope(|scope| {
        let looks = cases.iter().filter(|(group, name)| !declared(group, name)).map(|(group, name)| {
            let look = scope.spawn(move || finds::<H>(group, name, bug));
            (group, name, look)
        });
        let looks: Vec<_> = looks.collect();
        let found = looks.into_iter().map(|(group, name, look)| {
            (format!("{group}::{name}"), look.join().expect("a panic of a case is what it says"))
        });
        found.collect()
    })
}

/// The messages that do not report a waiter that is not granted the lock.
fn missed(found: Vec<(String, Option<String>)>) -> Vec<(String, Option<String>)> {
    let waits = |said: &Option<String>| said.as_ref().is_some_and(|said| said.contains("not within"));
    found.into_iter().filter(|(_, said)| !waits(said)).collect()
}

/// Hides a grant from a client that looks again without a hint of the grant: the client has to wait on.
#[derive(Debug, Default)]
struct BelievesOnlyGrants(Arc<Mutex<HashSet<EntryId>>>);

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
        let told = self.0.lock().contains(&entry.id);
        match (&mut standing, step) {
            (Standing::Waiting { hints, .. }, _) => {
                let (granted, id) = (Arc::clone(&self.0), entry.id);
                let heard = mem::replace(hints, Box::pin(stream::empty()));
                *hints = Box::pin(heard.inspect(move |hint| {
                    if matches!(hint, Hint::Admitted { .. }) {
                        granted.lock().insert(id);
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
