//! [`around`]: what happened around a violation, in the order in which it happened.

use std::{collections::BTreeSet, fmt::Write, time::Duration};

use lock_core::BootTime;
use lock_engine_tests::history::{History, Violation};

/// What is shown before and after what a violation is about.
const MARGIN: Duration = Duration::from_secs(1);

/// More lines help nobody. The history has them.
const MOST: usize = 200;

/// The events of the acquisitions that a violation names, and beside them what clients suffered, and what went wrong.
pub(crate) fn around(history: &History, violation: &Violation, faults: &[(BootTime, String)]) -> String {
    let ops = numbers(&violation.what);
    let is_about = |text: &str| !numbers(text).is_disjoint(&ops);
    let events: Vec<_> = history.events.iter().map(|event| (event.at, event.what.to_string())).collect();
    let about = events.iter().filter(|(_, text)| is_about(text)).map(|(at, _)| *at);
    let (Some(first), Some(last)) = (about.clone().min(), about.max()) else { return String::new() };
    let within = |at: BootTime| at + MARGIN >= first && at <= last + MARGIN;
    let faults = faults.iter().map(|(at, text)| (*at, format!("** {text}")));
    let mut lines: Vec<_> = events
        .into_iter()
        .filter(|(_, text)| is_about(text) || !text.contains('#'))
        .chain(faults)
        .filter(|(at, _)| within(*at))
        .collect();
    lines.sort_by_key(|(at, _)| *at);
    let mut shown = String::new();
    for (at, text) in lines.iter().take(MOST) {
        // To a string that cannot fail.
        let _ = writeln!(shown, "{:>14.6}  {text}", at.since_start().as_secs_f64());
    }
    if lines.len() > MOST {
        let _ = writeln!(shown, "… and {} more", lines.len() - MOST);
    }
    shown
}

/// The acquisitions that a text names, as `#12`.
fn numbers(text: &str) -> BTreeSet<&str> {
    let behind = text.split('#').skip(1);
    let digits = |rest: &str| rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    behind.map(|rest| &rest[..digits(rest)]).filter(|number| !number.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use lock_engine_tests::history::{Event, EventKind, Op};

    use super::*;

    fn at(seconds: u64) -> BootTime {
        BootTime::new(Duration::from_secs(seconds))
    }

    fn failed(seconds: u64, op: usize) -> Event {
        Event { at: at(seconds), what: EventKind::Failed { op: Op(op), error: "down".to_owned() } }
    }

    #[test]
    fn a_timeline_has_what_the_violation_names_and_what_went_wrong_meanwhile() {
        let mut events = vec![failed(10, 1), failed(11, 2), failed(12, 12), failed(40, 3)];
        events.push(Event { at: at(11), what: EventKind::Blocked { client: 7 } });
        let (sessions, faultless, late, swift) = (false, false, MARGIN, MARGIN);
        let history = History { events, faultless, sessions, late, swift };
        let violation = Violation { id: "M1", what: "held by #1, #12 together".to_owned() };
        let faults = [(at(11), "kill, leader".to_owned()), (at(30), "pause, leader".to_owned())];
        let shown = around(&history, &violation, &faults);
        let words = ["#1 fails", "client 7 is blocked", "** kill, leader", "#12 fails"];
        let places: Vec<_> = words.iter().map(|word| shown.find(word)).collect();
        assert!(places.is_sorted() && places[0].is_some(), "{shown}");
        assert_eq!(shown.lines().count(), 4, "{shown}");
    }
}
