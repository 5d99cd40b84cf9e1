//! `distlock doctor`: what the store promises, and what is wrong with its settings.

use distlock::{Diagnosis, Guarantees, escape_unprintable};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    args::DoctorArgs, exit::Exit, failure::Failure, print, render, settings::Settings, store::Store,
};

/// What is known about the store.
#[derive(Serialize)]
struct Report<'a> {
    facts: Map<String, Value>,
    promises: Map<String, Value>,
    problems: &'a [String],
}

pub(crate) async fn doctor(args: &DoctorArgs, settings: &Settings) -> Result<Exit, Failure> {
    let Store { locks, .. } = Store::connect(settings).await?;
    let diagnosis = locks.operator().diagnose().await;
    let mut diagnosis =
        diagnosis.map_err(|error| Failure::of_store("the store cannot be examined", &error))?;
    // First, because it says which processes exclude each other.
    diagnosis.facts.insert(0, ("shared by", settings.shared_by().to_owned()));
    if let Some(variable) = settings.default_by {
        diagnosis.facts.insert(1, ("file chosen by", variable.to_owned()));
    }
    let promises = promises(locks.guarantees());
    if args.json {
        let value = |(name, value): (&str, &str)| (name.to_owned(), Value::from(value));
        let facts = diagnosis.facts.iter().map(|(name, fact)| value((name, fact))).collect();
        let promises = promises.iter().copied().map(value).collect();
        print::json(&Report { facts, promises, problems: &diagnosis.problems })?;
    } else {
        print::text(&report(&diagnosis, &promises))?;
    }
    Ok(if diagnosis.problems.is_empty() { Exit::DONE } else { Exit::NO })
}

fn promises(promised: &Guarantees) -> [(&'static str, &'static str); 7] {
    [
        ("store", promised.store),
        ("exclusive while", promised.exclusive_while),
        ("may overlap when", promised.overlap_when),
        ("tokens", promised.tokens),
        ("freed after death", promised.freed_after_death),
        ("fairness", promised.fairness),
        ("foreign clients", promised.foreign_clients),
    ]
}

/// For people. The answers of a server may contain any characters, so they are escaped.
fn report(diagnosis: &Diagnosis, promises: &[(&str, &str)]) -> String {
    let mut report = String::from("The store\n");
    let facts: Vec<_> = diagnosis.facts.iter().map(|(name, fact)| (*name, fact.as_str())).collect();
    report += &section(&facts);
    report += "\nWhat it promises\n";
    report += &section(promises);
    match diagnosis.problems.as_slice() {
        [] => report += "\nNo problems.\n",
        problems => {
            report += "\nProblems\n";
            report.extend(problems.iter().map(|problem| format!("  * {}\n", escape_unprintable(problem))));
        }
    }
    report
}

fn section(lines: &[(&str, &str)]) -> String {
    let line = |(name, text): &(&str, &str)| vec![format!("  {name}"), escape_unprintable(text)];
    render::table(&lines.iter().map(line).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_of_itself_plays_no_tricks_on_a_terminal() {
        let tricky = "6.0\u{1b}]0;x\u{7}\u{202e}".to_owned();
        let mut diagnosis = Diagnosis::default();
        diagnosis.facts = vec![("version", tricky.clone())];
        diagnosis.problems = vec![tricky];
        let report = report(&diagnosis, &[]);
        assert_eq!(report.matches("6.0\\u{1b}]0;x\\u{7}\\u{202e}").count(), 2, "{report}");
        assert!(!report.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{report:?}");
    }
}
