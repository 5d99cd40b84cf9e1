//! A store that never tells anybody that it is his turn: the cases about hints have to find it.

use std::{sync::Arc, thread};

use crate::{Harness, Silent, cases, declarations::declaration, finds};

/// The cases that no store without hints passes, one for each label about hints.
const CASES: &[(&str, &str)] = &[
    ("liveness", "a_waiter_that_goes_away_in_the_middle_of_the_queue_is_passed_over"),
    ("liveness", "a_release_between_the_look_and_the_wait_is_not_missed"),
    ("rules_b", "waiters_look_again_when_their_notifications_come_back"),
    ("wire", "all_waiters_look_again_when_their_notifications_come_back"),
];

/// Open faults: on these stores a waiter is now and then not told in this case, and goes on when it looks again by itself. Until that
/// is mended, the case allows for the look.
///
/// A waiter of ZooKeeper whose connection came back has missed its turn in some runs of the gate: it went on within 5 s.
const MENDED_BY_LOOKING: &[(&str, &str)] =
    &[("zookeeper", "waiters_look_again_when_their_notifications_come_back")];

/// Whether a case of a store has an open fault that a look mends.
pub(crate) fn is_mended_by_looking(store: &str, case: &str) -> bool {
    MENDED_BY_LOOKING.iter().any(|(known, name)| store.starts_with(known) && *name == case)
}

/// Takes all hints from the clients of a store, and checks that each case about hints fails then: what is missed is not
/// mended by a look before the case has noticed. All at once, because each of them waits for as long as it is patient.
///
/// # Panics
/// If a case passes, or fails for another reason than that somebody waits in vain.
pub fn find_silence<H: Harness>() {
    let declared = |group, name| declaration(cases::find(group, name), H::declared()).is_some();
    let found = thread::scope(|scope| {
        let shows = |group, name| !declared(group, name) && !is_mended_by_looking(H::store(), name);
        let looks = CASES.iter().filter(|(group, name)| shows(group, name)).map(|(group, name)| {
            let look = scope.spawn(|| finds::<H>(group, name, |_| Arc::new(Silent::default())));
            (group, name, look)
        });
        let looks: Vec<_> = looks.collect();
        let found = looks.into_iter().map(|(group, name, look)| {
            (format!("{group}::{name}"), look.join().expect("a panic of a case is what it says"))
        });
        found.collect::<Vec<_>>()
    });
    assert!(found.len() >= 3, "most cases about hints are declared");
    let missed: Vec<_> = found
        .iter()
        .filter(|(_, said)| !said.as_ref().is_some_and(|said| said.contains("not within")))
        .collect();
    assert!(missed.is_empty(), "without any hint, these say something else or nothing: {missed:#?}");
}
