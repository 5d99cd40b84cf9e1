//! [`compare`]: runs the scenarios that are asked for, and writes the report.

use std::{
    fs,
    path::Path,
    process::ExitCode,
    time::{Instant, SystemTime},
};

use super::{
    args::CompareArgs,
    html, markdown, one_shots,
    results::Results,
    rounds,
    scenario::{SCENARIOS, Scenario, Work},
    store_run::StoreRun,
    systems::{DriverCommands, STORES, SYSTEMS, asked_for},
};
use crate::error::Result;

/// Writes the report after each scenario: a long run that is stopped keeps what it has.
pub(crate) async fn compare(args: &CompareArgs) -> Result<ExitCode> {
    check(args)?;
    let started = Instant::now();
    let folder = args.out();
    let mut results = Results::read(&folder)?;
    if args.render {
        return render(&results, &folder);
    }
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let stores: Vec<_> = STORES.into_iter().filter(|store| args.wants_store(store)).collect();
    let systems: Vec<_> = stores.iter().flat_map(|store| asked_for(args, store)).collect();
    let drivers = DriverCommands::build(&systems)?;
    for store in stores {
        match StoreRun::start(args, store, &drivers).await {
            Ok(mut run) => measure(&mut run, args, &mut results, &folder).await?,
            Err(error) => {
                eprintln!("{store}: not measured: {error}");
                results.stores.insert(store.to_owned(), format!("not measured: {error}"));
                write(&results, &folder)?;
            }
        }
    }
    println!("{}", markdown::page(&results));
    eprintln!("written to {} after {} s", folder.display(), started.elapsed().as_secs());
    Ok(ExitCode::SUCCESS)
}

/// Writes the summary and the page of a report that is there.
fn render(results: &Results, folder: &Path) -> Result<ExitCode> {
    if results.rows.is_empty() {
        let folder = folder.display();
        return Err(format!("{folder}: there is no report.json; run `lock-bench compare` first").into());
    }
    write(results, folder)?;
    Ok(ExitCode::SUCCESS)
}

/// # Errors
/// If a store, a system or a scenario is asked for that does not exist.
fn check(args: &CompareArgs) -> Result<()> {
    let scenarios = SCENARIOS.map(|scenario| scenario.name);
    let systems = SYSTEMS.map(|system| system.name);
    let mut asked: Vec<(&str, &[&str], &str)> = Vec::new();
    asked.extend(args.stores.iter().map(|name| ("store", &STORES[..], &**name)));
    asked.extend(args.systems.iter().map(|name| ("system", &systems[..], &**name)));
    asked.extend(args.scenarios.iter().map(|name| ("scenario", &scenarios[..], &**name)));
    let kinds = [("store", &STORES[..]), ("system", &systems[..]), ("scenario", &scenarios[..])];
    for row in &args.only {
        asked.extend(row.split('/').zip(kinds).map(|(name, (what, known))| (what, known, name)));
    }
    for (what, known, name) in asked {
        if !known.contains(&name) {
            let mut known = known.to_vec();
            known.dedup();
            return Err(format!("there is no {what} `{name}`; there are {}", known.join(", ")).into());
        }
    }
    Ok(())
}

fn write(results: &Results, folder: &Path) -> Result<()> {
    // Each file is renamed into place, so that it is whole even if the run is stopped meanwhile.
    let put = |name: &str, what: String| {
        let (path, new) = (folder.join(name), folder.join(format!(".{name}.new")));
        fs::write(&new, what)
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|error| format!("{}: {error}", path.display()))
    };
    put("report.json", serde_json::to_string_pretty(results)? + "\n")?;
    put("report.md", markdown::page(results))?;
    put("index.html", html::page(results))?;
    Ok(())
}

async fn measure(
    run: &mut StoreRun<'_>,
    args: &CompareArgs,
    results: &mut Results,
    folder: &Path,
) -> Result<()> {
    let today = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    // The path of a file of this machine does not belong into a report.
    let about = format!("{}, {}", run.server.description().replace(&run.address, "one file"), &today[..10]);
    results.stores.insert(run.store.to_owned(), about);
    run.warm_up().await;
    for scenario in SCENARIOS.iter().filter(|scenario| is_run(args, scenario)) {
        let rows = match scenario.work {
            Work::Pairs { .. } | Work::HandOff { .. } | Work::Shared { .. } => {
                rounds::rows(run, args, scenario).await
            }
            Work::Costs { .. } | Work::Takeover | Work::Held { .. } => {
                one_shots::rows(run, args, scenario).await
            }
        };
        for row in rows {
            results.put(row);
        }
        write(results, folder)?;
    }
    Ok(())
}

/// Whether a scenario is asked for, by its name or by a row. Without either, whether it is run by default.
fn is_run(args: &CompareArgs, scenario: &Scenario) -> bool {
    let by_row = args.only.iter().any(|row| row.split('/').nth(2) == Some(scenario.name));
    if args.scenarios.is_empty() {
        args.full || scenario.short || by_row
    } else {
        args.scenarios.iter().any(|name| name == scenario.name)
    }
}
