//! [`Report`]: the table and its JSON.

use std::{fmt, io::Write, process::ExitCode};

use serde::Serialize;

use crate::{
    error::Result,
    rows::{Bench, Bound, Figure, Measurement, Outcome, RowSpec},
};

/// The rows, in the order in which they were measured.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<ReportRow>,
    failed: bool,
}

#[derive(Debug)]
struct ReportRow {
    spec: RowSpec,
    /// The figure, or why there is none.
    figure: Result<Figure, String>,
}

/// A row as JSON. Other programs may rely on its fields.
#[derive(Debug, Serialize)]
struct JsonRow<'a> {
    row: &'a str,
    /// `None` if the row was not run.
    value: Option<f64>,
    unit: &'static str,
    floor: Option<f64>,
    ratio: Option<f64>,
    /// The bound of the ratio if there is one, else of the value. A rate has a lower bound, all others an upper bound.
    bound: Option<f64>,
    /// Whether the bound, if there is one, is kept. `None` if the row was not run.
    ok: Option<bool>,
}

impl Report {
    /// Measures those of these rows that are asked for.
    pub(crate) async fn add(&mut self, bench: &Bench, measurement: Box<dyn Measurement>) {
        let specs: Vec<_> = measurement
            .rows(bench.store.kind())
            .into_iter()
            .filter(|spec| bench.plan.wants(&spec.name))
            .collect();
        if specs.is_empty() {
            return;
        }
        let outcome = if bench.plan.is_quick() && !measurement.is_quick() {
            Ok(Outcome::NotPossible("--quick"))
        } else {
            measurement.run(bench).await
        };
        if let Err(error) = &outcome {
            eprintln!("lock-bench: {error}");
            self.failed = true;
        }
        self.rows.extend(specs.into_iter().map(|spec| {
            let figure = match &outcome {
                Ok(Outcome::Measured(figures)) => figures.find(&spec.name),
                _ => None,
            };
            let figure = figure.ok_or_else(|| match &outcome {
                Ok(Outcome::Measured(_)) => "the store has no such thing".to_owned(),
                Ok(Outcome::NotPossible(why)) => (*why).to_owned(),
                Err(error) => format!("failed: {error}"),
            });
            ReportRow { spec, figure }
        }));
    }

    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write_json(&self, mut file: impl Write) -> Result<()> {
        let rows: Vec<JsonRow<'_>> = self.rows.iter().map(ReportRow::json).collect();
        serde_json::to_writer_pretty(&mut file, &rows)?;
        Ok(file.write_all(b"\n")?)
    }

    /// Failure if a measurement failed. With `check` also if a bound was missed, or if no bound was checked.
    pub(crate) fn exit_code(&self, check: bool) -> ExitCode {
        let missed: Vec<&str> = self
            .rows
            .iter()
            .filter(|row| row.ok() == Some(false))
            .map(|row| row.spec.name.as_str())
            .collect();
        if !missed.is_empty() {
            eprintln!("lock-bench: bounds missed: {}", missed.join(", "));
        }
        let checked = self.rows.iter().any(|row| row.figure.is_ok() && row.bound().is_some());
        if check && !checked {
            eprintln!("lock-bench: none of the rows that were run has a bound to check");
        }
        if self.failed || (check && (!missed.is_empty() || !checked)) {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }
}

impl ReportRow {
    /// A bound of a ratio does not apply where there is no floor.
    fn bound(&self) -> Option<Bound> {
        let has_ratio = self.figure.as_ref().is_ok_and(|figure| figure.ratio.is_some());
        self.spec.bound.filter(|bound| has_ratio || matches!(bound, Bound::ValueAtMost(_)))
    }

    fn ok(&self) -> Option<bool> {
        let figure = self.figure.as_ref().ok()?;
        let ratio = figure.ratio.unwrap_or(f64::NAN);
        Some(match self.bound() {
            None => true,
            Some(Bound::RatioAtMost(bound)) => ratio <= bound,
            Some(Bound::RatioAtLeast(bound)) => ratio >= bound,
            Some(Bound::ValueAtMost(bound)) => figure.value <= bound,
        })
    }

    fn json(&self) -> JsonRow<'_> {
        let figure = self.figure.as_ref().ok();
        let bound = self.bound().map(|bound| match bound {
            Bound::RatioAtMost(bound) | Bound::RatioAtLeast(bound) | Bound::ValueAtMost(bound) => bound,
        });
        JsonRow {
            row: &self.spec.name,
            value: figure.map(|figure| rounded(figure.value)),
            unit: self.spec.unit,
            floor: figure.and_then(|figure| figure.floor).map(rounded),
            ratio: figure.and_then(|figure| figure.ratio).map(rounded),
            bound,
            ok: self.ok(),
        }
    }

    fn cells(&self) -> [String; 8] {
        let RowSpec { name, unit, .. } = &self.spec;
        let figure = match &self.figure {
            Ok(figure) => figure,
            Err(why) => {
                let mut cells = [const { String::new() }; 8];
                (cells[0], cells[2], cells[7]) = (name.clone(), (*unit).into(), format!("not run: {why}"));
                return cells;
            }
        };
        let optional = |number: Option<f64>| number.map_or_else(String::new, short);
        let spread = |(least, most)| format!("{}–{}", short(least), short(most));
        let bound = self.bound().map_or_else(String::new, |bound| match bound {
            Bound::RatioAtMost(bound) => format!("≤ {bound} ×"),
            Bound::RatioAtLeast(bound) => format!("≥ {bound} ×"),
            Bound::ValueAtMost(bound) => format!("≤ {bound}"),
        });
        let ok = match (self.bound(), self.ok()) {
            (Some(_), Some(true)) => "yes",
            (Some(_), Some(false)) => "NO",
            _ => "",
        };
        [
            name.clone(),
            short(figure.value),
            (*unit).into(),
            optional(figure.floor),
            optional(figure.ratio),
            figure.spread.map_or_else(String::new, spread),
            bound,
            ok.into(),
        ]
    }
}

const HEAD: [&str; 8] = ["row", "value", "unit", "floor", "ratio", "spread", "bound", "ok"];

/// A Markdown table.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![HEAD.map(str::to_owned)];
        lines.extend(self.rows.iter().map(ReportRow::cells));
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 8] = std::array::from_fn(width);
        let is_text = |column: usize| matches!(column, 0 | 2 | 6 | 7);
        for (number, line) in lines.iter().enumerate() {
            for (column, cell) in line.iter().enumerate() {
                let width = widths[column];
                if is_text(column) {
                    write!(f, "| {cell:<width$} ")?;
                } else {
                    write!(f, "| {cell:>width$} ")?;
                }
            }
            writeln!(f, "|")?;
            if number == 0 {
                for (column, width) in widths.iter().enumerate() {
                    let (dashes, end) = ("-".repeat(width + 1), if is_text(column) { "-" } else { ":" });
                    write!(f, "|{dashes}{end}")?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

/// Three digits, for people.
fn short(number: f64) -> String {
    let decimals = if number.abs() < 10.0 { 2 } else { usize::from(number.abs() < 100.0) };
    format!("{number:.decimals$}")
}

fn rounded(number: f64) -> f64 {
    (number * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bound: Option<Bound>, value: f64, floor: Option<f64>) -> ReportRow {
        let spec = RowSpec { name: "pair.p50".into(), unit: "us", bound };
        let ratio = floor.map(|floor| value / floor);
        ReportRow { spec, figure: Ok(Figure { value, floor, ratio, spread: None }) }
    }

    fn not_run() -> ReportRow {
        ReportRow { figure: Err("--quick".into()), ..row(Some(Bound::ValueAtMost(1.0)), 0.0, None) }
    }

    fn code(rows: Vec<ReportRow>, check: bool) -> String {
        format!("{:?}", Report { rows, failed: false }.exit_code(check))
    }

    #[test]
    fn a_missed_bound_fails_a_check_and_nothing_else() {
        let (success, failure) = (format!("{:?}", ExitCode::SUCCESS), format!("{:?}", ExitCode::FAILURE));
        for (bound, kept, missed) in [
            (Bound::RatioAtMost(1.25), 125.0, 126.0),
            (Bound::RatioAtLeast(0.35), 35.0, 34.0),
            (Bound::ValueAtMost(2.0), 2.0, 2.1),
        ] {
            assert_eq!(code(vec![row(Some(bound), kept, Some(100.0))], true), success);
            assert_eq!(code(vec![row(Some(bound), missed, Some(100.0))], true), failure);
            assert_eq!(code(vec![row(Some(bound), missed, Some(100.0))], false), success);
        }
    }

    #[test]
    fn a_check_that_checks_nothing_fails() {
        let failure = format!("{:?}", ExitCode::FAILURE);
        assert_eq!(code(vec![not_run()], true), failure);
        assert_eq!(code(vec![row(None, 1.0, None)], true), failure);
        // Without a floor there is no ratio to check.
        assert_eq!(code(vec![row(Some(Bound::RatioAtMost(1.25)), 1.0, None)], true), failure);
    }

    #[test]
    fn a_measurement_that_failed_is_a_failure_without_a_check() {
        let report = Report { rows: Vec::new(), failed: true };
        assert_eq!(format!("{:?}", report.exit_code(false)), format!("{:?}", ExitCode::FAILURE));
    }

    #[test]
    fn json_has_the_seven_fields_and_null_for_what_was_not_run() {
        let ran = row(Some(Bound::RatioAtMost(1.25)), 120.0, Some(100.0));
        let mut json = Vec::new();
        Report { rows: vec![ran, not_run()], failed: false }.write_json(&mut json).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let expected = serde_json::json!([
            { "row": "pair.p50", "value": 120.0, "unit": "us", "floor": 100.0, "ratio": 1.2, "bound": 1.25, "ok": true },
            { "row": "pair.p50", "value": null, "unit": "us", "floor": null, "ratio": null, "bound": 1.0, "ok": null },
        ]);
        assert_eq!(json, expected);
    }

    #[test]
    fn the_table_shows_what_was_not_run_and_why() {
        let report = Report { rows: vec![not_run()], failed: false };
        assert!(report.to_string().contains("not run: --quick"));
    }
}
