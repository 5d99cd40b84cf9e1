//! `distlock show`: who holds a lock, and who waits for it.

use distlock::{Kind, QueueRow, escape_unprintable};
use serde::Serialize;

use crate::{
    args::ShowArgs,
    entry_view::{EntryState, EntryView, entry_table, entry_views},
    exit::Exit,
    failure::Failure,
    output::Output,
    print,
    settings::Settings,
    store::Store,
};

/// A lock and its queue.
#[derive(Serialize)]
struct LockView<'a> {
    name: &'a str,
    /// `None` for a free lock.
    kind: Option<Kind>,
    /// `None` for a read-write lock.
    limit: Option<u32>,
    queue: Vec<EntryView>,
}

/// With `--quiet`, only the exit code tells whether the lock is held.
pub(crate) async fn show(args: &ShowArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let name = &args.name;
    let Store { locks, .. } = Store::connect(settings).await?;
    let queue = locks.operator().queue(name).await;
    let queue = queue.map_err(|error| Failure::of_store(&format!("lock `{name}` cannot be read"), &error))?;
    if output.is_quiet() {
        return Ok(if queue.iter().any(|row| row.admitted) { Exit::DONE } else { Exit::NO });
    }
    let claim = queue.first().map(|row| row.claim);
    let rows = entry_views(&queue);
    if args.json {
        let kind = claim.map(|claim| claim.kind());
        let limit = claim.filter(|_| kind != Some(Kind::RwLock)).map(|claim| claim.limit());
        print::json(&LockView { name: name.as_str(), kind, limit, queue: rows })?;
    } else if let Some(claim) = claim {
        let name = escape_unprintable(&format!("{name}"));
        print::text(&format!("{} `{name}`: {}\n{}", claim.kind(), counts(&queue), entry_table(&rows)))?;
    } else {
        print::text(&format!("`{}` is free\n", escape_unprintable(&format!("{name}"))))?;
    }
    Ok(Exit::DONE)
}

/// How many hold and wait, in a sentence.
fn counts(queue: &[QueueRow]) -> String {
    let holding = entry_views(queue).iter().filter(|row| row.state == EntryState::Holding).count();
    let waiting = queue.len() - holding;
    let held = match holding {
        0 => "held by nobody".to_owned(),
        1 => "held".to_owned(),
        holders => format!("held by {holders}"),
    };
    match waiting {
        0 => held,
        1 => format!("{held}, 1 waits"),
        waiting => format!("{held}, {waiting} wait"),
    }
}
