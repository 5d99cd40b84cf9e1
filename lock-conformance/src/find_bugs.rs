//! [`find_bugs`]: plants the bugs of the bank in a store, and checks that the cases find them.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use serde_json::json;

use crate::{
    BUGS, Declared, Harness, Mode, Needs, PlantedBug, cases, declarations::not_run, finds, output::say,
};

/// How many cases run at the same time. Most of those that take long only wait for something that does not happen.
const AT_ONCE: usize = 6;

/// The group of the cases with very many waiters. Beside others, they would fail on a busy machine for want of time.
const CROWDS: &str = "alone";

/// Plants each [bug of the bank](BUGS) in the clients of a store, and checks that the case that is listed for it fails, and says why. That
/// the case passes without the bug is shown by its own test. Leaves the cases of the group `alone` to [`find_bugs_alone`].
///
/// A bug is left out if the store [declares](Harness::declared) the case, or [has nothing](PlantedBug::needs) in which the bug would make a
/// difference. Prints one line of JSON behind `planted:` with the store, the number of bugs that were found, and those that were left out,
/// each with the reason.
///
/// # Panics
/// If a case passes, or fails for another reason. The message names all such bugs.
pub fn find_bugs<H: Harness>() {
    find::<H>(|group| group != CROWDS);
}

/// The same for the bugs whose cases are in the group `alone`: they have very many waiters, so that nothing else should run beside them.
///
/// # Panics
/// As [`find_bugs`].
pub fn find_bugs_alone<H: Harness>() {
    find::<H>(|group| group == CROWDS);
}

fn find<H: Harness>(is_asked_for: fn(&str) -> bool) {
    let (mut planted, mut left_out) = (Vec::new(), BTreeMap::new());
    for bug in BUGS.iter().filter(|bug| is_asked_for(bug.case.0)) {
        match left_out_for::<H>(bug) {
            Some(reason) => drop(left_out.insert(bug.id, reason)),
            None => planted.push(bug),
        }
    }
    let complaints = look_for::<H>(&planted);
    assert!(complaints.is_empty(), "not every planted bug is found:\n{}", complaints.join("\n"));
    say(&format!(
        "planted: {}",
        json!({ "store": H::store(), "found": planted.len(), "left_out": left_out })
    ));
}

/// Why a bug is not planted in this store, if it is not.
fn left_out_for<H: Harness>(bug: &PlantedBug) -> Option<String> {
    let (group, name) = bug.case;
    let case = &cases::find(group, name).case;
    if let Some(Declared { id, reason }) = not_run(case, Mode::Both, H::declared(), H::notifications()) {
        return Some(format!("declared {id}: {reason}"));
    }
    match bug.needs {
        Needs::Nothing => None,
        Needs::Hints => (!H::notifications()).then(|| "the store has no hints".to_owned()),
        Needs::MissedHints => H::cuts_show_nothing().map(str::to_owned),
    }
}

/// Runs the cases of these bugs, each with its bug, and returns what is wrong with those that do not find it.
fn look_for<H: Harness>(bugs: &[&PlantedBug]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let in_turn = || {
        let mut complaints = Vec::new();
        while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (group, name) = bug.case;
            complaints.extend(bug.complaint(finds::<H>(group, name, bug.make).as_deref()));
        }
        complaints
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(in_turn)).collect();
        let complaints =
            threads.into_iter().map(|thread| thread.join().expect("a panic of a case is what it says"));
        complaints.flatten().collect()
    })
}
