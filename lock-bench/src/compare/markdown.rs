//! [`page`]: the report for people who read text.

use std::fmt::{self, Write as _};

use super::{
    ahead::ahead,
    record::{Record, Row},
    scenario::{SCENARIOS, Work},
};

/// All tables.
pub(crate) fn page(record: &Record) -> String {
    let mut page = String::new();
    // Nothing goes wrong when a string is written to.
    let _ = write(record, &mut page);
    page
}

fn write(record: &Record, page: &mut String) -> fmt::Result {
    writeln!(page, "# distlock beside the lock libraries of others\n")?;
    writeln!(page, "{ABOUT}")?;
    for store in record.stores() {
        writeln!(page, "## {}\n", title(store))?;
        writeln!(page, "{}\n", record.stores.get(store).map_or("", String::as_str))?;
        for table in TABLES {
            table.write(record, store, page)?;
        }
        others_ahead(record, store, page)?;
        troubles(record, store, page)?;
    }
    Ok(())
}

pub(crate) const ABOUT: &str = "Each figure is the median of several rounds, in which all systems of a store take turns; behind it stands how many times \
the floor's of the same round it is, with the least and the largest of these ratios. The floor is what the store itself \
takes, without a library. Drivers are written in the language of their library, so that a figure is also one of that language. `–`: not run, or the \
library does not have it.\n";

/// One table for each store.
pub(crate) struct Table {
    pub(crate) title: &'static str,
    pub(crate) about: &'static str,
    pub(crate) figure: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    belongs: fn(Work) -> bool,
}

/// Of two figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
}

/// All there are, in order.
pub(crate) const TABLES: [Table; 17] = [
    Table {
        title: "Acquire and release of a lock that nobody else wants, p50",
        about: "",
        figure: "p50_us",
        unit: "µs",
        better: Better::Less,
        belongs: |work| work == Work::Pairs { tasks: 1 },
    },
    Table {
        title: "Acquire and release of a lock that nobody else wants, p99",
        about: "",
        figure: "p99_us",
        unit: "µs",
        better: Better::Less,
        belongs: |work| work == Work::Pairs { tasks: 1 },
    },
    Table {
        title: "Pairs per second of so many tasks, each on a lock of its own",
        about: "",
        figure: "per_s",
        unit: "1/s",
        better: Better::More,
        belongs: |work| matches!(work, Work::Pairs { .. }),
    },
    Table {
        title: "Hand-off, p50",
        about: "From the call of release to the moment when **another** contender, who was waiting, has the lock; everybody keeps it for 1 ms. \
                `4x25`: four processes of 25 contenders each.",
        figure: "p50_us",
        unit: "µs",
        better: Better::Less,
        belongs: |work| matches!(work, Work::HandOff { .. }),
    },
    Table {
        title: "Hand-off, p99",
        about: "",
        figure: "p99_us",
        unit: "µs",
        better: Better::Less,
        belongs: |work| matches!(work, Work::HandOff { .. }),
    },
    Table {
        title: "Changes of the holder per second, where nobody keeps the lock",
        about: "",
        figure: "per_s",
        unit: "1/s",
        better: Better::More,
        belongs: |work| matches!(work, Work::HandOff { .. }),
    },
    Table {
        title: "Fairness: of 100 releases, after so many the same contender had it again",
        about: "",
        figure: "own_percent",
        unit: "%",
        better: Better::Less,
        belongs: |work| matches!(work, Work::HandOff { .. }),
    },
    Table {
        title: "Fairness: Jain's index",
        about: "By the largest that so many tenures allow. 1: all got it equally often, but for the last lap.",
        figure: "jain",
        unit: "",
        better: Better::More,
        belongs: |work| matches!(work, Work::HandOff { .. } | Work::Shared { .. }),
    },
    Table {
        title: "Fairness: largest overtaking",
        about: "How many who asked later got it before one who asked earlier, at worst.",
        figure: "overtaken",
        unit: "",
        better: Better::Less,
        belongs: |work| matches!(work, Work::HandOff { .. } | Work::Shared { .. }),
    },
    Table {
        title: "Tenures per turn of readers and writers, and of a semaphore of 8",
        about: "32 contenders, each keeps it for 1 ms; 2 of them write.",
        figure: "tenures",
        unit: "",
        better: Better::More,
        belongs: |work| matches!(work, Work::Shared { .. }),
    },
    Table {
        title: "Requests for one acquire and release of a lock that nobody else wants",
        about: "Redis: commands; etcd: messages of gRPC; ZooKeeper: packets.",
        figure: "pair_requests",
        unit: "",
        better: Better::Less,
        belongs: |work| work == Work::Costs { contenders: 2 },
    },
    Table {
        title: "Bytes for one acquire and release of a lock that nobody else wants, both ways",
        about: "",
        figure: "pair_bytes",
        unit: "",
        better: Better::Less,
        belongs: |work| work == Work::Costs { contenders: 2 },
    },
    Table {
        title: "Requests for one tenure",
        about: "What goes to the server for one acquire, one release and the waiting between, of so many contenders.",
        figure: "tenure_requests",
        unit: "",
        better: Better::Less,
        belongs: |work| matches!(work, Work::Costs { .. }),
    },
    Table {
        title: "Bytes for one tenure, both ways",
        about: "",
        figure: "tenure_bytes",
        unit: "",
        better: Better::Less,
        belongs: |work| matches!(work, Work::Costs { .. }),
    },
    Table {
        title: "From `kill -9` of the holder to the next one's acquire",
        about: "With a ttl of 2 s.",
        figure: "after_kill_ms",
        unit: "ms",
        better: Better::Less,
        belongs: |work| work == Work::Takeover,
    },
    Table {
        title: "10 000 held locks: the client's share of a core",
        about: "With a ttl of 15 s.",
        figure: "client_percent",
        unit: "%",
        better: Better::Less,
        belongs: |work| matches!(work, Work::Held { .. }),
    },
    Table {
        title: "10 000 held locks: the server's share of a core",
        about: "",
        figure: "server_percent",
        unit: "%",
        better: Better::Less,
        belongs: |work| matches!(work, Work::Held { .. }),
    },
];

impl Table {
    /// The scenarios that it has a column for, if anything is known of them.
    pub(crate) fn columns<'a>(&self, record: &'a Record, store: &'a str) -> Vec<&'static str> {
        let known = |name: &str| {
            Record::systems(store).any(|system| {
                record.find(store, system.name, name).is_some_and(|row| row.figure(self.figure).is_some())
            })
        };
        let belongs = SCENARIOS.iter().filter(|scenario| (self.belongs)(scenario.work));
        belongs.map(|scenario| scenario.name).filter(|name| known(name)).collect()
    }

    fn write(&self, record: &Record, store: &str, page: &mut String) -> fmt::Result {
        let columns = self.columns(record, store);
        if columns.is_empty() {
            return Ok(());
        }
        let unit = if self.unit.is_empty() { String::new() } else { format!(" ({})", self.unit) };
        writeln!(page, "### {}{unit}\n", self.title)?;
        if !self.about.is_empty() {
            writeln!(page, "{}\n", self.about)?;
        }
        writeln!(page, "| system | {} |", columns.join(" | "))?;
        writeln!(page, "|---|{}", "--:|".repeat(columns.len()))?;
        for system in Record::systems(store) {
            let cells: Vec<_> = columns
                .iter()
                .map(|scenario| cell(record.find(store, system.name, scenario), self.figure))
                .collect();
            writeln!(page, "| {} | {} |", system.name, cells.join(" | "))?;
        }
        writeln!(page)
    }
}

/// `123 · 1.4 × (1.2–1.6)`, and a sign where something was wrong.
pub(crate) fn cell(row: Option<&Row>, figure: &str) -> String {
    let Some(row) = row else { return "–".to_owned() };
    let wrong = if row.marks.is_empty() { "" } else { " ⚠" };
    match (row.figure(figure), row.absence()) {
        (Some(value), failed) => {
            let ratio = row.ratio(figure).map(|(middle, low, high)| {
                format!(" · {} × ({}–{})", digits(middle), digits(low), digits(high))
            });
            let failed = if failed.is_some() { " failed later" } else { "" };
            format!("{}{}{wrong}{failed}", digits(value), ratio.unwrap_or_default())
        }
        (None, Some(absence)) => absence.to_owned(),
        (None, None) => format!("–{wrong}"),
    }
}

/// Three of them.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v > 0.0 => format!("{value:.2}"),
        _ => "0".to_owned(),
    }
}

fn others_ahead(record: &Record, store: &str, page: &mut String) -> fmt::Result {
    let all = ahead(record, store);
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

pub(crate) const AHEAD: &str = "Where another is ahead of distlock, and why";

fn troubles(record: &Record, store: &str, page: &mut String) -> fmt::Result {
    writeln!(page, "### Who took part\n")?;
    writeln!(page, "| system | version | language | what it is | what went wrong |\n|---|---|---|---|---|")?;
    for system in Record::systems(store) {
        let troubles: Vec<_> = record
            .troubles(store, system.name)
            .into_iter()
            .map(|(what, scenarios)| format!("{} ({})", what.replace(['|', '\n'], " "), scenarios.join(", ")))
            .collect();
        let version = record.version(store, system.name).unwrap_or("not run");
        let (name, language, note) = (system.name, system.language.name(), system.note);
        writeln!(page, "| {name} | {version} | {language} | {note} | {} |", troubles.join("; "))?;
    }
    writeln!(page)
}

pub(crate) fn title(store: &str) -> &str {
    match store {
        "redis" => "Redis",
        "zk" => "ZooKeeper",
        "sqlite" => "SQLite",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::record::Figures;

    #[test]
    fn what_failed_and_what_was_marked_is_told() {
        let mut record = Record::default();
        let systems: Vec<_> = Record::systems("redis").collect();
        let mut overlapped = Row::new(systems[2], "handoff-2");
        overlapped.rounds.push(Figures::from([("p50_us".to_owned(), 12.345)]));
        overlapped.mark("OVERLAP");
        let mut missing = Row::new(systems[3], "handoff-2");
        missing.failed = Some("not installed: no compiler".to_owned());
        record.put(overlapped);
        record.put(missing);
        let page = page(&record);
        for expected in
            ["| rslock | 12.3 ⚠ |", "OVERLAP (handoff-2)", "| distkit | missing |", "no compiler (handoff-2)"]
        {
            assert!(page.contains(expected), "{expected}: {page}");
        }
    }

    #[test]
    fn three_digits_are_shown() {
        assert_eq!(
            [0.0, 0.123, 9.99, 12.34, 99.9, 1234.5].map(digits),
            ["0", "0.12", "9.99", "12.3", "99.9", "1234"]
        );
    }
}
