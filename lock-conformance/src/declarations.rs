//! What a store may declare that it cannot meet, and which cases are skipped for that.

use serde_json::{Value, json};

use crate::{Case, Declared, Harness, Mode, REQUIRED, cases, output::say};

/// What any store may declare: cases that need other processes, a server or a wire. No store may declare exclusion, tokens or
/// loss: a store that cannot show these is not fit for locks.
const ANYBODY: &[&str] = &[
    "X03", "X12", "L06", "F05", "T01", "T02", "T03", "T04", "T05", "T06", "T07", "T08", "T09", "T10", "T11",
    "T15", "T18", "T19", "T20", "T21", "T24", "C20",
];

/// What our own stores may declare. Anything else needs an ADR.
const KNOWN: &[(&str, &[&str])] = &[
    (
        "memory",
        &[
            // It has neither a wire nor a server: ADR 7.
            "X03", "X12", "L06", "F05", "T01", "T02", "T03", "T04", "T05", "T06", "T07", "T08", "T09", "T10",
            "T11", "T15", "T19", "T20", "T21", "T24",
        ],
    ),
    ("redis", &[]),
    // A shared server must not be stopped or emptied.
    ("redis by url", &["L06", "F05", "T09", "T10", "T19", "T20", "T21", "T24"]),
    // Its tokens are revisions of the store, which cannot be set.
    ("etcd", &["F11", "F12", "T20"]),
    // No wire and no server; its only limit is the disk: ADR 10. File locks belong to a process, and a fork would take them over:
    // ADR 14.
    (
        "sqlite",
        &[
            "X12", "L06", "T01", "T02", "T03", "T04", "T05", "T06", "T07", "T08", "T15", "T19", "T21", "T24",
            "C20",
        ],
    ),
    // Nor may a shared server be made to drop history.
    ("etcd by url", &["F11", "F12", "L06", "F05", "T09", "T10", "T18", "T19", "T20", "T21", "T24"]),
    // Its tokens are transaction ids, which cannot be set either. A session has one connection at a time: TCP delivers nothing twice on
    // it, and a second connection ends the first. Its client has a thread that a fork lacks: ADR 14.
    ("zookeeper", &["F11", "F12", "T04", "T20", "C20"]),
    (
        "zookeeper by url",
        &["F11", "F12", "L06", "F05", "T04", "T09", "T10", "T19", "T20", "T21", "T24", "C20"],
    ),
];

/// What a store without [notifications](Harness::notifications) declares implicitly. It is not a label, because cases that need
/// notifications share labels with cases that do not.
const NO_NOTIFICATIONS: &Declared =
    &Declared { id: "NOTIFICATIONS", reason: "the store has none, and waiters look again by themselves" };

/// Checks that each declaration of a backend is allowed, has a reason, and hides no other label. Prints one line of JSON behind
/// `declared:` with the store, the labels, the number of skipped cases, and the number of all cases.
///
/// # Panics
/// If a declaration fails the check.
pub fn check_declarations<H: Harness>() {
    say(&format!("declared: {}", checked(H::store(), H::declared(), H::notifications())));
}

fn checked(store: &str, declared: &'static [Declared], notifications: bool) -> Value {
    let known = KNOWN.iter().find(|(name, _)| *name == store);
    let allowed = known.map_or(ANYBODY, |(_, allowed)| allowed);
    for Declared { id, reason } in declared {
        assert!(REQUIRED.contains(id), "{store} declares {id}, which no case carries");
        assert!(allowed.contains(id), "{store} declares {id}, which it may not without a decision of record");
        assert!(!reason.is_empty(), "{store} declares {id} without a reason");
        assert_eq!(declared.iter().filter(|other| other.id == *id).count(), 1, "{id} is declared twice");
    }
    let all: Vec<&Case> = cases::all().collect();
    let shown_nowhere =
        all.iter().filter(|case| not_run(case, Mode::Both, declared, notifications).is_some());
    let hidden = shown_nowhere.count();
    let none = (!notifications).then_some(NO_NOTIFICATIONS);
    let labels: Vec<_> = declared.iter().chain(none).map(|declared| declared.id).collect();
    json!({ "store": store, "labels": labels, "cases": hidden, "of": all.len() })
}

/// Why a case is skipped in that mode on a store that declares this, if it is: its labels are declared, or it needs notifications and there
/// are none.
///
/// # Panics
/// If a declaration would hide a label that is not declared.
#[must_use]
pub fn not_run(
    case: &Case,
    mode: Mode,
    declared: &'static [Declared],
    notifications: bool,
) -> Option<&'static Declared> {
    let untold = || (!notifications && case.needs_notifications(mode)).then_some(NO_NOTIFICATIONS);
    declaration(case, declared).or_else(untold)
}

/// The declaration that skips a case, if all of its labels are declared.
pub(crate) fn declaration(case: &Case, declared: &'static [Declared]) -> Option<&'static Declared> {
    let find = |id: &str| declared.iter().find(|declared| declared.id == id);
    let first = case.ids.iter().find_map(|id| find(id))?;
    let others = case.ids.iter().find(|id| find(id).is_none());
    assert!(
        others.is_none(),
        "{} is declared, which would hide {} in {}::{}; split the case",
        first.id,
        others.copied().unwrap_or_default(),
        case.group,
        case.name
    );
    Some(first)
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;
    use crate::output::said;

    const CASE: Case = Case { group: "group", name: "a_name", ids: &["X01", "X02"] };
    const ONE: Declared = Declared { id: "X01", reason: "a reason" };
    const OTHER: Declared = Declared { id: "X02", reason: "a reason" };

    #[test]
    fn a_case_is_hidden_only_if_all_it_shows_is_declared() {
        assert_eq!(declaration(&CASE, &[]), None);
        assert_eq!(declaration(&CASE, &[Declared { id: "X03", reason: "a reason" }]), None);
        assert_eq!(declaration(&CASE, &[ONE, OTHER]), Some(&ONE));
    }

    #[test]
    #[should_panic(expected = "X02 is declared, which would hide X01")]
    fn a_declaration_that_would_hide_another_label_is_refused() {
        let _ = declaration(&CASE, &[OTHER]);
    }

    #[test]
    fn what_a_store_declares_is_told_with_the_cases_that_it_hides() {
        let told =
            checked("a store of others", &[Declared { id: "T04", reason: "nothing is said twice" }], true);
        assert_eq!((&told["store"], &told["labels"][0]), (&"a store of others".into(), &"T04".into()));
        assert_eq!((&told["cases"], &told["of"]), (&1.into(), &cases::all().count().into()));
    }

    #[test]
    fn a_store_without_notifications_hides_what_needs_them_and_nothing_else() {
        let told = checked("a store of others", &[], false);
        assert_eq!((&told["labels"], &told["cases"]), (&json!(["NOTIFICATIONS"]), &8.into()));
        for case in cases::all() {
            let hidden = |notifications| not_run(case, Mode::Both, &[], notifications);
            assert_eq!(hidden(true), None, "{case:?}");
            assert_eq!(hidden(false).is_some(), case.needs_notifications(Mode::Both), "{case:?}");
        }
    }

    /// One label of each kind: exclusion, liveness, expiry, loss, tokens, order, cancellation, the rules of the protocol.
    #[test]
    fn nobody_declares_a_promise_that_every_store_must_keep() {
        const UNMET: [&[Declared]; 9] = [
            &[Declared { id: "X01", reason: "it cannot exclude" }],
            &[Declared { id: "L04", reason: "it cannot tell" }],
            &[Declared { id: "E01", reason: "it cannot expire" }],
            &[Declared { id: "S02", reason: "it cannot tell of a loss" }],
            &[Declared { id: "F01", reason: "it has no tokens" }],
            &[Declared { id: "F11", reason: "its tokens end early" }],
            &[Declared { id: "Q01", reason: "it has no order" }],
            &[Declared { id: "C10", reason: "it cannot clean up" }],
            &[Declared { id: "PR08", reason: "it has no tombstones" }],
        ];
        for unmet in UNMET {
            for store in ["a store of others", "redis"] {
                let refusal = catch_unwind(|| checked(store, unmet, true)).unwrap_err();
                assert!(said(&*refusal).ends_with("without a decision of record"), "{unmet:?} of {store}");
            }
        }
    }

    #[test]
    fn a_known_store_declares_what_any_may_and_tokens_that_nobody_can_set() {
        let others = |id: &&&str| !ANYBODY.contains(*id);
        for (store, allowed) in KNOWN {
            let beyond: Vec<_> = allowed.iter().filter(others).collect();
            let decided = store.starts_with("etcd") || store.starts_with("zookeeper");
            assert!(beyond.is_empty() || (decided && beyond == [&"F11", &"F12"]), "{store}: {beyond:?}");
        }
    }
}
