//! [`page`]: the report as an HTML page that needs no network and no script.

use std::fmt::Write as _;

use super::{
    ahead::ahead,
    format::{digits, ratio, store_title},
    plot::{Series, XAxis, bars, escaped, lines},
    results::{Results, ScenarioResult},
    scenario::{SCENARIOS, Work},
    tables::{ABOUT, AHEAD, TABLES, Table},
};
use crate::drivers::FLOOR;

/// The whole page.
pub(crate) fn page(results: &Results) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>distlock beside others</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>distlock beside the lock libraries of others</h1>\n<p>{}</p>\n",
        marked_up(ABOUT.trim())
    );
    let links: Vec<String> =
        results.stores().map(|store| format!("<a href=\"#{store}\">{}</a>", store_title(store))).collect();
    line(&mut page, &format!("<nav>{}</nav>", links.join(" ")));
    for store in results.stores() {
        section(results, store, &mut page);
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

const STYLE: &str = include_str!("page.css");

fn line(page: &mut String, text: &str) {
    page.push_str(text);
    page.push('\n');
}

fn section(results: &Results, store: &'static str, page: &mut String) {
    line(page, &format!("<section id=\"{store}\">\n<h2>{}</h2>", store_title(store)));
    line(
        page,
        &format!("<p class=\"about\">{}</p>", escaped(results.stores.get(store).map_or("", String::as_str))),
    );
    let plots = [
        ("Acquire and release without contention", distribution(results, store, "pair")),
        ("Hand-off between two contenders", distribution(results, store, "handoff-2")),
        ("Throughput against tasks", scaling(results, store, &THROUGHPUT)),
        ("Hand-off against waiters", scaling(results, store, &HAND_OFF)),
        ("Requests for one tenure", costs(results, store)),
    ];
    line(page, "<div class=\"plots\">");
    for (title, plot) in plots.into_iter().filter(|(_, plot)| !plot.is_empty()) {
        line(page, &format!("<figure>\n<figcaption>{title}</figcaption>\n{plot}</figure>"));
    }
    line(page, "</div>");
    line(page, "<div class=\"tables\">");
    for one in &TABLES {
        table(one, results, store, page);
    }
    line(page, "</div>");
    others_ahead(results, store, page);
    participants(results, store, page);
    line(page, "</section>");
}

/// One series for each system.
fn series(store: &str, points: impl Fn(&str) -> Vec<(f64, f64)>) -> Vec<Series> {
    let one = |(colour, name): (usize, &str)| Series { name: name.to_owned(), colour, points: points(name) };
    Results::systems(store).map(|system| system.name).enumerate().map(one).collect()
}

/// The x axis is logarithmic in the percentage that is beyond: 90, 99 and 99.9 have equal distances.
fn distribution(results: &Results, store: &str, scenario: &str) -> String {
    let ticks = [0.0, 50.0, 90.0, 99.0, 99.9].map(|percent: f64| (percent, format!("{percent} %")));
    let x_axis = XAxis {
        label: "so many percent took no longer",
        ticks: ticks.into(),
        place: |percent| -(1.0 - percent / 100.0).log10(),
    };
    let of = |system: &str| results.find(store, system, scenario).map(|row| row.distribution.clone());
    lines(
        &format!("Latencies of {scenario}"),
        &x_axis,
        "µs",
        &series(store, |name| of(name).unwrap_or_default()),
    )
}

/// A plot of one figure over scenarios that differ in a number.
struct ScalingPlot {
    about: &'static str,
    x_label: &'static str,
    y_label: &'static str,
    figure: &'static str,
    number: fn(Work) -> Option<usize>,
}

const THROUGHPUT: ScalingPlot = ScalingPlot {
    about: "Pairs per second against the number of tasks",
    x_label: "tasks, each on a lock of its own",
    y_label: "pairs per second",
    figure: "per_s",
    number: |work| if let Work::Pairs { tasks } = work { Some(tasks) } else { None },
};

const HAND_OFF: ScalingPlot = ScalingPlot {
    about: "Latency of hand-offs against the number of waiters",
    x_label: "waiters in one process",
    y_label: "µs, p50",
    figure: "p50_us",
    number: |work| match work {
        Work::HandOff { contenders, processes: 1 } => Some(contenders - 1),
        _ => None,
    },
};

fn scaling(results: &Results, store: &str, what: &ScalingPlot) -> String {
    let mut scenarios: Vec<(usize, &str)> =
        SCENARIOS.iter().filter_map(|one| Some(((what.number)(one.work)?, one.name))).collect();
    scenarios.sort_by_key(|one| one.0);
    let points = |system: &str| {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (number, scenario) in &scenarios {
            let figure = results.find(store, system, scenario).and_then(|row| row.figure(what.figure));
            let number = *number as f64;
            if let Some(figure) = figure.filter(|_| points.last().is_none_or(|last| last.0 < number)) {
                points.push((number, figure));
            }
        }
        points
    };
    let series = series(store, points);
    let known = |number: f64| {
        series.iter().any(|one| one.points.iter().any(|point| point.0.total_cmp(&number).is_eq()))
    };
    let mut ticks: Vec<(f64, String)> = Vec::new();
    for (number, _) in &scenarios {
        let tick = (*number as f64, number.to_string());
        if known(tick.0) && ticks.last() != Some(&tick) {
            ticks.push(tick);
        }
    }
    lines(what.about, &XAxis { label: what.x_label, ticks, place: f64::log10 }, what.y_label, &series)
}

fn costs(results: &Results, store: &str) -> String {
    let costs = SCENARIOS.iter().filter(|one| matches!(one.work, Work::Costs { .. })).map(|one| one.name);
    let known = |name: &&str| {
        results.rows.iter().any(|row| row.store == store && row.scenario == *name && !row.rounds.is_empty())
    };
    let names: Vec<&str> = costs.filter(known).collect();
    if names.is_empty() {
        return String::new();
    }
    let figure = |system: &str, name: &str| {
        results.find(store, system, name).and_then(|row| row.figure("tenure_requests"))
    };
    let points = |system: &str| {
        let each = names.iter().enumerate().filter_map(|(i, name)| Some((i as f64, figure(system, name)?)));
        each.collect()
    };
    let short: Vec<String> = names.iter().map(|name| name.replace("costs-", "") + " contenders").collect();
    let short: Vec<&str> = short.iter().map(String::as_str).collect();
    bars(
        "Requests to the server for one tenure",
        "requests for one acquire, one release, and the waiting between",
        &short,
        &series(store, points),
    )
}

fn table(table: &Table, results: &Results, store: &str, page: &mut String) {
    let columns = table.columns(results, store);
    if columns.is_empty() {
        return;
    }
    let unit = if table.unit.is_empty() { String::new() } else { format!(" ({})", table.unit) };
    line(page, &format!("<div>\n<h3>{}{unit}</h3>", escaped(table.title)));
    if !table.about.is_empty() {
        line(page, &format!("<p>{}</p>", marked_up(table.about)));
    }
    let heads: String = columns.iter().fold(String::new(), |mut heads, name| {
        let _ = write!(heads, "<th>{name}</th>");
        heads
    });
    line(
        page,
        &format!("<div class=\"wide\"><table>\n<thead><tr><th>system</th>{heads}</tr></thead>\n<tbody>"),
    );
    for system in Results::systems(store) {
        let cells: String =
            columns.iter().map(|name| cell(results.find(store, system.name, name), table.figure)).collect();
        line(page, &format!("<tr{}><th>{}</th>{cells}</tr>", emphasis(system.name), system.name));
    }
    line(page, "</tbody></table></div>\n</div>");
}

fn emphasis(system: &str) -> &'static str {
    match system {
        "distlock" => " class=\"us\"",
        FLOOR => " class=\"base\"",
        _ => "",
    }
}

fn cell(row: Option<&ScenarioResult>, figure: &str) -> String {
    let Some(row) = row else { return "<td class=\"none\">–</td>".to_owned() };
    let mut wrong = row.marks.clone();
    wrong.extend(row.failed.clone());
    let sign = if wrong.is_empty() {
        String::new()
    } else {
        format!(" <span class=\"wrong\" title=\"{}\">⚠</span>", escaped(&wrong.join("; ")))
    };
    match (row.figure(figure), row.absence()) {
        (Some(value), _) => {
            let ratio = row.ratio(figure).map(|spread| format!("<br><small>{}</small>", ratio(spread)));
            format!("<td>{}{sign}{}</td>", digits(value), ratio.unwrap_or_default())
        }
        (None, Some(absence)) => format!("<td class=\"none\">{absence}{sign}</td>"),
        (None, None) => format!("<td class=\"none\">–{sign}</td>"),
    }
}

fn others_ahead(results: &Results, store: &str, page: &mut String) {
    let all = ahead(results, store);
    if all.is_empty() {
        return;
    }
    line(page, &format!("<h3>{AHEAD}</h3>\n<div class=\"wide\"><table class=\"text\">"));
    line(
        page,
        "<thead><tr><th>table</th><th>scenario</th><th>who</th><th>distlock</th><th>why</th></tr></thead>\n<tbody>",
    );
    for one in all {
        let texts = [one.scenario, &one.who.join(", "), &one.ours, &one.why];
        let cells = texts.map(|text| format!("<td>{}</td>", marked_up(text)));
        line(page, &format!("<tr><th>{}</th>{}</tr>", marked_up(one.table), cells.concat()));
    }
    line(page, "</tbody></table></div>");
}

fn participants(results: &Results, store: &str, page: &mut String) {
    line(page, "<h3>Who took part</h3>\n<div class=\"wide\"><table class=\"text\">");
    line(
        page,
        "<thead><tr><th>system</th><th>version</th><th>language</th><th>what it is</th><th>what went wrong</th></tr></thead>\n<tbody>",
    );
    for system in Results::systems(store) {
        let version = results.version(store, system.name).unwrap_or("not run");
        let problems: Vec<String> = results
            .problems(store, system.name)
            .into_iter()
            .map(|(what, scenarios)| format!("<b>{}</b> ({})", escaped(&what), scenarios.join(", ")))
            .collect();
        let cells =
            [version, system.language.name(), system.note].map(|text| format!("<td>{}</td>", escaped(text)));
        line(
            page,
            &format!(
                "<tr{}><th>{}</th>{}<td>{}</td></tr>",
                emphasis(system.name),
                system.name,
                cells.concat(),
                problems.join("<br>")
            ),
        );
    }
    line(page, "</tbody></table></div>");
}

/// Converts the Markdown that the texts of the tables use.
fn marked_up(text: &str) -> String {
    let mut page = String::new();
    for (i, part) in escaped(text).replace("**", "\u{1}").split(['`', '\u{1}']).enumerate() {
        // Marks come in pairs, and what is between them is bold.
        let _ = if i % 2 == 1 { write!(page, "<b>{part}</b>") } else { write!(page, "{part}") };
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::results::Figures;

    #[test]
    fn the_page_has_plots_tables_and_problems_and_loads_nothing() {
        let mut results = Results::default();
        for (i, system) in Results::systems("redis").take(4).enumerate() {
            for scenario in ["pair", "throughput-64", "handoff-2", "costs-2"] {
                let mut row = ScenarioResult::new(system, scenario);
                let value = 10.0 * (i + 1) as f64;
                let figures = ["p50_us", "per_s", "tenure_requests"].map(|name| (name.to_owned(), value));
                row.rounds.push(Figures::from(figures));
                row.distribution = vec![(0.0, value), (99.9, 2.0 * value)];
                results.put(row);
            }
        }
        let mut failed = ScenarioResult::new(Results::systems("redis").nth(5).unwrap(), "pair");
        failed.failed = Some("<gone>".to_owned());
        results.put(failed);
        let page = page(&results);
        assert_eq!(page.matches("<svg").count(), 5);
        assert!(page.contains("&lt;gone&gt;") && page.contains("prefers-color-scheme: dark"), "{page}");
        for foreign in ["http:", "https:", "<script", "@import", "url("] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}
