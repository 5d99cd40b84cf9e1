//! `distlock break`: an operator takes a lock away.

use std::io::{IsTerminal, Write};

use distlock::{Departure, Operator, QueueRow, escape_unprintable};
use serde::Serialize;

use crate::{
    args::BreakArgs,
    entry_view::{EntryState, entry_table, entry_views},
    exit::Exit,
    failure::Failure,
    print,
    settings::Settings,
    shell::{lock_command, show_command},
    store::Store,
};

/// The result for one entry.
#[derive(Serialize)]
struct EvictedEntry {
    entry: String,
    /// False if it had already left by itself.
    taken_away: bool,
}

pub(crate) async fn evict(args: &BreakArgs, settings: &Settings) -> Result<Exit, Failure> {
    let name = &args.name;
    if !args.yes && !std::io::stdin().is_terminal() {
        let failure = Failure::new(Exit::USAGE, "there is no terminal to ask on");
        return Err(failure.hint(lock_command("break", name, "--yes")));
    }
    let Store { locks, .. } = Store::connect(settings).await?;
    let operator = locks.operator();
    let failed = |error| Failure::of_store(&format!("lock `{name}` cannot be taken away"), &error);
    let queue = operator.queue(name).await.map_err(failed)?;
    let selected: Vec<QueueRow> = queue.into_iter().filter(|row| is_selected(args, row)).collect();
    if selected.is_empty() {
        let what = args.entry.map_or_else(
            || format!("`{name}` is held by nobody"),
            |entry| format!("there is no entry {entry} in the queue of `{name}`"),
        );
        return Err(Failure::new(Exit::NO, what).hint(show_command(name)));
    }
    if selected.iter().all(|row| row.entry.is_none()) {
        let message = format!("`{name}` is held by a client of another library, which cannot be evicted");
        return Err(
            Failure::new(Exit::NO, message).hint("delete its key in the store after that client has ended")
        );
    }
    if !args.yes && !confirmed(args, &selected)? {
        return Err(Failure::new(Exit::NO, "nothing was taken away"));
    }
    let mut evicted = Vec::new();
    for entry in selected.iter().filter_map(|row| row.entry) {
        let departure = operator.evict(name, entry).await.map_err(failed)?;
        evicted.push(EvictedEntry { entry: entry.to_string(), taken_away: departure == Departure::Left });
    }
    let exit = if evicted.iter().any(|entry| entry.taken_away) { Exit::DONE } else { Exit::NO };
    report(args, operator, &evicted, exit).await?;
    Ok(exit)
}

fn is_selected(args: &BreakArgs, row: &QueueRow) -> bool {
    match args.entry {
        Some(entry) => row.entry == Some(entry),
        None => row.admitted,
    }
}

/// Shows the entries to take away, and asks.
fn confirmed(args: &BreakArgs, selected: &[QueueRow]) -> Result<bool, Failure> {
    let name = escape_unprintable(&format!("{}", args.name));
    let question = format!(
        "{}A holder of `{name}` may still be working: its writes are safe only where tokens are checked.\n\
         Take it away? [y/N] ",
        entry_table(&entry_views(selected))
    );
    let mut answer = String::new();
    let asked = std::io::stderr().write_all(question.as_bytes());
    let read = asked.and_then(|()| std::io::stdin().read_line(&mut answer));
    read.map_err(|error| Failure::new(Exit::NO, "nobody answers").because(&error))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Prints which entries were removed, and who holds the lock now. If the queue cannot be read, the exit code stays that of the eviction.
async fn report(
    args: &BreakArgs,
    operator: &dyn Operator,
    evicted: &[EvictedEntry],
    exit: Exit,
) -> Result<(), Failure> {
    if args.json {
        return print::json(&evicted);
    }
    for EvictedEntry { entry, taken_away } in evicted {
        let became = if *taken_away { "was taken away" } else { "had left by itself" };
        print::text(&format!("{entry} {became}\n"))?;
    }
    // The eviction has admitted the next waiter, if there is one.
    let name = &args.name;
    let now = operator.queue(name).await.map_err(|error| {
        Failure::new(exit, format!("who holds `{name}` now cannot be read"))
            .because(&error)
            .hint(show_command(name))
    })?;
    let name = escape_unprintable(&format!("{name}"));
    match entry_views(&now).iter().find(|row| row.state == EntryState::Holding) {
        Some(next) => print::text(&format!("`{name}` is held by {} now\n", next.who())),
        None => print::text(&format!("`{name}` is free\n")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use distlock::{Backend, BackendError, BackendErrorKind, LockName, Memory};
    use lock_conformance::{Layer, Layered};

    use super::*;

    /// A store whose queues cannot be read.
    #[derive(Debug)]
    struct Unreadable;

    #[async_trait::async_trait]
    impl Layer for Unreadable {
        async fn queue(&self, _: &Arc<dyn Backend>, _: &LockName) -> Result<Vec<QueueRow>, BackendError> {
            Err(BackendError::new("memory", BackendErrorKind::TimedOut, "no answer"))
        }
    }

    #[tokio::test]
    async fn a_lock_whose_queue_cannot_be_read_is_not_said_to_be_free() {
        let store = Layered::new(Arc::new(Memory::new()), Arc::new(Unreadable));
        let args = BreakArgs { name: LockName::new("jobs/a").unwrap(), entry: None, yes: true, json: false };
        let failure = report(&args, store.operator(), &[], Exit::DONE).await.unwrap_err();
        assert_eq!(failure.exit(), Exit::DONE);
        assert!(failure.to_string().contains("who holds `jobs/a` now cannot be read"), "{failure}");
    }
}
