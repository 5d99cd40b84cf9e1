//! [`page`]: the report as Markdown.

use std::fmt::{self, Write as _};

use super::{
    ahead::ahead,
    format::{digits, ratio, store_title},
    results::{Results, ScenarioResult},
    tables::{ABOUT, AHEAD, TABLES, Table},
};

/// The whole report.
pub(crate) fn page(results: &Results) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = write(results, &mut page);
    page
}

fn write(results: &Results, page: &mut String) -> fmt::Result {
    writeln!(page, "# distlock beside the lock libraries of others\n")?;
    writeln!(page, "{ABOUT}")?;
    for store in results.stores() {
        writeln!(page, "## {}\n", store_title(store))?;
        writeln!(page, "{}\n", results.stores.get(store).map_or("", String::as_str))?;
        for table in &TABLES {
            write_table(table, results, store, page)?;
        }
        others_ahead(results, store, page)?;
        problems(results, store, page)?;
    }
    Ok(())
}

fn write_table(table: &Table, results: &Results, store: &str, page: &mut String) -> fmt::Result {
    let columns = table.columns(results, store);
    if columns.is_empty() {
        return Ok(());
    }
    let unit = if table.unit.is_empty() { String::new() } else { format!(" ({})", table.unit) };
    writeln!(page, "### {}{unit}\n", table.title)?;
    if !table.about.is_empty() {
        writeln!(page, "{}\n", table.about)?;
    }
    writeln!(page, "| system | {} |", columns.join(" | "))?;
    writeln!(page, "|---|{}", "--:|".repeat(columns.len()))?;
    for system in Results::systems(store) {
        let cells: Vec<_> = columns
            .iter()
            .map(|scenario| cell(results.find(store, system.name, scenario), table.figure))
            .collect();
        writeln!(page, "| {} | {} |", system.name, cells.join(" | "))?;
    }
    writeln!(page)
}

/// `123 · 1.4 × (1.2–1.6)`, and a sign where something was wrong.
fn cell(row: Option<&ScenarioResult>, figure: &str) -> String {
    let Some(row) = row else { return "–".to_owned() };
    let wrong = if row.marks.is_empty() { "" } else { " ⚠" };
    match (row.figure(figure), row.absence()) {
        (Some(value), failed) => {
            let ratio = row.ratio(figure).map(|spread| format!(" · {}", ratio(spread)));
            let failed = if failed.is_some() { " failed later" } else { "" };
            format!("{}{}{wrong}{failed}", digits(value), ratio.unwrap_or_default())
        }
        (None, Some(absence)) => absence.to_owned(),
        (None, None) => format!("–{wrong}"),
    }
}

fn others_ahead(results: &Results, store: &str, page: &mut String) -> fmt::Result {
    let all = ahead(results, store);
    if all.is_empty() {
        return Ok(());
    }
    writeln!(page, "### {AHEAD}\n")?;
    writeln!(page, "| table | scenario | who | distlock | why |\n|---|---|---|--:|---|")?;
    for one in all {
        let (who, scenario) = (one.who.join(", "), one.scenario);
        writeln!(page, "| {} | {scenario} | {who} | {} | {} |", one.table, one.ours, one.why)?;
    }
    writeln!(page)
}

fn problems(results: &Results, store: &str, page: &mut String) -> fmt::Result {
    writeln!(page, "### Who took part\n")?;
    writeln!(page, "| system | version | language | what it is | what went wrong |\n|---|---|---|---|---|")?;
    for system in Results::systems(store) {
        let problems: Vec<_> = results
            .problems(store, system.name)
            .into_iter()
            .map(|(what, scenarios)| format!("{} ({})", what.replace(['|', '\n'], " "), scenarios.join(", ")))
            .collect();
        let version = results.version(store, system.name).unwrap_or("not run");
        let (name, language, note) = (system.name, system.language.name(), system.note);
        writeln!(page, "| {name} | {version} | {language} | {note} | {} |", problems.join("; "))?;
    }
    writeln!(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::results::Figures;

    #[test]
    fn what_failed_and_what_was_marked_is_told() {
        let mut results = Results::default();
        let systems: Vec<_> = Results::systems("redis").collect();
        let mut overlapped = ScenarioResult::new(systems[2], "handoff-2");
        overlapped.rounds.push(Figures::from([("p50_us".to_owned(), 12.345)]));
        overlapped.mark("OVERLAP");
        let mut missing = ScenarioResult::new(systems[3], "handoff-2");
        missing.failed = Some("not installed: no compiler".to_owned());
        results.put(overlapped);
        results.put(missing);
        let page = page(&results);
        for expected in
            ["| rslock | 12.3 ⚠ |", "OVERLAP (handoff-2)", "| distkit | missing |", "no compiler (handoff-2)"]
        {
            assert!(page.contains(expected), "{expected}: {page}");
        }
    }
}
