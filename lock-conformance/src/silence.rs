//! A store that never tells anybody that it is his turn: the cases about hints have to find it.

use std::{sync::Arc, thread};

use crate::{Harness, Silent, cases, declarations::declaration, finds};

/// The cases that no store without hints passes, one or two for each label about hints.
const CASES: &[(&str, &str)] = &[
    ("liveness", "a_waiter_that_goes_away_in_the_middle_of_the_queue_is_passed_over"),
    ("liveness", "a_release_between_the_look_and_the_wait_is_not_missed"),
    ("rules_b", "waiters_look_again_when_their_notifications_come_back"),
    ("wire", "a_silent_notification_connection_is_noticed_in_the_promised_time"),
    ("wire", "all_waiters_look_again_when_their_notifications_come_back"),
];

/// Takes all hints from the clients of a store, and checks that each case about hints fails then: what is missed is not
/// mended by a look before the case has noticed. All at once, because each of them waits for as long as it is patient.
///
/// # Panics
/// If a case passes, or fails for another reason than that somebody waits in vain.
pub fn find_silence<H: Harness>() {
    let declared = |group, name| declaration(cases::find(group, name), H::declared()).is_some();
    let found = thread::scope(|scope| {
        let looks = CASES.iter().filter(|(group, name)| !declared(group, name)).map(|(group, name)| {
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
