//! `distlock list`: the locks that are held or waited for.

use distlock::{Kind, LockName, escape_unprintable};
use serde::Serialize;

use crate::{
    args::ListArgs, exit::Exit, failure::Failure, output::Output, print, render, settings::Settings,
    store::Store,
};

/// A lock, and how many hold it and wait for it.
#[derive(Serialize)]
struct LockSummary {
    name: LockName,
    kind: Kind,
    holding: usize,
    waiting: usize,
}

pub(crate) async fn list(args: &ListArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let Store { locks, .. } = Store::connect(settings).await?;
    let operator = locks.operator();
    let failed = |error| Failure::of_store("the locks cannot be listed", &error);
    let names = operator.list(&args.prefix).await.map_err(failed)?;
    if args.names {
        let mut lines = String::new();
        lines.extend(names.iter().map(|name| format!("{}\n", escape_unprintable(name.as_str()))));
        print::text(&lines)?;
        return Ok(Exit::DONE);
    }
    let mut listed = Vec::new();
    for name in names {
        let queue = operator.queue(&name).await.map_err(failed)?;
        // The queue has become empty meanwhile.
        let Some(first) = queue.first() else { continue };
        let holding = queue.iter().filter(|row| row.admitted).count();
        listed.push(LockSummary { kind: first.claim.kind(), holding, waiting: queue.len() - holding, name });
    }
    if args.json {
        print::json(&listed)?;
    } else if listed.is_empty() {
        // On the standard error: a script that reads names gets none.
        output.line("no lock is held or waited for");
    } else {
        let mut lines = vec![["NAME", "KIND", "HOLD", "WAIT"].map(str::to_owned).to_vec()];
        lines.extend(listed.iter().map(|lock| {
            vec![
                escape_unprintable(lock.name.as_str()),
                lock.kind.to_string(),
                lock.holding.to_string(),
                lock.waiting.to_string(),
            ]
        }));
        print::text(&render::table(&lines))?;
    }
    Ok(Exit::DONE)
}
