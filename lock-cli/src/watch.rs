//! `distlock watch`: who joins the queue of a lock, gets the lock, and leaves.

use std::time::{Duration, SystemTime};

use distlock::{BackendError, escape_unprintable};
use serde::Serialize;

use crate::{
    args::WatchArgs,
    entry_view::{EntryState, EntryView, entry_views},
    exit::Exit,
    failure::Failure,
    output::Output,
    print,
    settings::Settings,
    store::Store,
};

const LEAST: Duration = Duration::from_millis(50);

/// What happened between two reads of the queue.
#[derive(Serialize)]
struct EventLine<'a> {
    /// When the change was seen.
    at: String,
    event: Event,
    #[serde(flatten)]
    row: &'a EntryView,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Event {
    /// A waiter has joined the queue.
    Waits,
    /// An entry holds the lock now.
    Holds,
    /// An entry has left, or its lease has ended.
    Gone,
}

pub(crate) async fn watch(args: &WatchArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let name = &args.name;
    let Store { locks, .. } = Store::connect(settings).await?;
    let mut before = Vec::new();
    let mut away = false;
    if !args.json {
        let queue = locks.operator().queue(name).await;
        let queue =
            queue.map_err(|error| Failure::of_store(&format!("lock `{name}` cannot be watched"), &error))?;
        if queue.is_empty() {
            print::text(&format!("{} `{}` is free\n", now(), escape_unprintable(&format!("{name}"))))?;
        }
    }
    loop {
        match locks.operator().queue(name).await {
            Ok(queue) => {
                away = false;
                let after = entry_views(&queue);
                for (event, row) in events(&before, &after) {
                    tell(args, event, row)?;
                }
                before = after;
            }
            Err(error) if error.is_transient() => {
                // Report each outage once.
                if !std::mem::replace(&mut away, true) {
                    output.timed_line(no_answer(&error));
                }
            }
            Err(error) => return Err(Failure::of_store(&format!("lock `{name}` cannot be watched"), &error)),
        }
        tokio::time::sleep(args.interval.max(LEAST)).await;
    }
}

/// The changes between two reads: first the entries that are gone, then the new ones and those that got the lock, in the order of the queue.
fn events<'a>(before: &'a [EntryView], after: &'a [EntryView]) -> Vec<(Event, &'a EntryView)> {
    let state = |rows: &[EntryView], row: &EntryView| {
        rows.iter().find(|other| other.entry == row.entry).map(|row| row.state)
    };
    let gone = before.iter().filter(|row| state(after, row).is_none());
    let changed = after.iter().filter(|row| state(before, row) != Some(row.state));
    let event = |row: &EntryView| if row.state == EntryState::Holding { Event::Holds } else { Event::Waits };
    let gone = gone.map(|row| (Event::Gone, row));
    gone.chain(changed.map(|row| (event(row), row))).collect()
}

fn tell(args: &WatchArgs, event: Event, row: &EntryView) -> Result<(), Failure> {
    if args.json {
        return print::json(&EventLine { at: now(), event, row });
    }
    let token = row.token.as_deref().map(|token| format!(", token {token}")).unwrap_or_default();
    let happens = match event {
        Event::Waits => "waits",
        Event::Holds => "holds it",
        Event::Gone => "has gone",
    };
    print::text(&format!("{} {} {happens}{token}\n", now(), row.who()))
}

fn no_answer(error: &BackendError) -> String {
    format!("the store does not answer, trying again ({})", escape_unprintable(&error.to_string()))
}

fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use distlock::{BackendErrorKind, Claim, EntryId, FencingToken, QueueRow};

    use super::*;

    fn queue(entries: &[(u128, bool)]) -> Vec<EntryView> {
        let row = |&(id, admitted): &(u128, bool)| QueueRow {
            entry: Some(EntryId::new(id)),
            claim: Claim::mutex(),
            admitted,
            token: Some(FencingToken::new(1)),
            lease_left: None,
            label: None,
        };
        entry_views(&entries.iter().map(row).collect::<Vec<_>>())
    }

    #[test]
    fn a_hand_off_is_told_as_one_who_goes_and_one_who_holds() {
        let (before, after) =
            (queue(&[(9, true), (1, false), (5, false)]), queue(&[(1, true), (5, false), (3, false)]));
        let told: Vec<_> = events(&before, &after)
            .into_iter()
            .map(|(event, row)| (event, row.entry.clone().unwrap().trim_start_matches('0').to_owned()))
            .collect();
        let expected = [(Event::Gone, "9"), (Event::Holds, "1"), (Event::Waits, "3")];
        assert_eq!(told, expected.map(|(event, entry)| (event, entry.to_owned())));
    }

    #[test]
    fn who_moves_up_and_still_waits_is_not_told() {
        assert!(events(&queue(&[(9, true), (5, false)]), &queue(&[(9, true), (5, false)])).is_empty());
    }

    #[test]
    fn what_a_store_says_that_does_not_answer_plays_no_tricks_on_a_terminal() {
        let said = "LOADING \u{1b}]0;x\u{7}\u{202e}";
        let told = no_answer(&BackendError::new("redis", BackendErrorKind::Unavailable, said));
        assert!(told.contains("LOADING \\u{1b}]0;x\\u{7}\\u{202e}"), "{told:?}");
        assert!(!told.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{told:?}");
    }
}
