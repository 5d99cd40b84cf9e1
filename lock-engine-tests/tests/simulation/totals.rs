//! [`Totals`]: what came up in many seeds.

use std::fmt;

use lock_engine_tests::{
    history::EventKind,
    simulation::{Coverage, Report},
};

/// The events that are counted: a workload without one of them tests little.
const EVENTS: [&str; 9] =
    ["granted", "refused", "timed out", "cancelled", "failed", "lost", "evicted", "crashed", "blocked"];

/// How often things happened, and what the requests met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    events: [u64; EVENTS.len()],
    /// The seeds that have an aim.
    pub(crate) aims: u64,
    /// Those of them in which the verb of the aim met its fault.
    pub(crate) pairs_reached: u64,
    /// Those in which that happened in the state of the aim.
    cells_reached: u64,
    pub(crate) coverage: Coverage,
}

impl Totals {
    pub(crate) fn add_report(&mut self, report: &Report) {
        for at in report.history.events.iter().filter_map(|event| position(&event.what)) {
            self.events[at] += 1;
        }
        if let Some(aim) = report.aim {
            self.aims += 1;
            self.pairs_reached += u64::from(report.coverage.has_pair(aim.verb, aim.fault));
            self.cells_reached += u64::from(report.coverage.of(aim) > 0);
        }
        self.coverage.add(&report.coverage);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (count, more) in self.events.iter_mut().zip(other.events) {
            *count += more;
        }
        self.aims += other.aims;
        self.pairs_reached += other.pairs_reached;
        self.cells_reached += other.cells_reached;
        self.coverage.add(&other.coverage);
    }

    /// The events that happened this often at most.
    pub(crate) fn rare_events(&self, most: u64) -> Vec<&'static str> {
        let rare = EVENTS.into_iter().zip(self.events).filter(|(_, count)| *count <= most);
        rare.map(|(event, _)| event).collect()
    }

    /// Three lines of numbers.
    pub(crate) fn to_lines(&self) -> String {
        let aims = [self.aims, self.pairs_reached, self.cells_reached];
        format!("{}\n{}\n{}\n", numbers(&self.events), numbers(&aims), numbers(self.coverage.counts()))
    }

    /// Reads [`to_lines`](Self::to_lines); `None` if it is something else.
    pub(crate) fn from_lines(events: &str, aims: &str, coverage: &str) -> Option<Self> {
        let parse = |line: &str| line.split(' ').map(str::parse::<u64>).collect::<Result<Vec<_>, _>>().ok();
        let events: [u64; EVENTS.len()] = parse(events)?.try_into().ok()?;
        let [aims, pairs_reached, cells_reached]: [u64; 3] = parse(aims)?.try_into().ok()?;
        let coverage = Coverage::from_counts(parse(coverage)?)?;
        Some(Self { events, aims, pairs_reached, cells_reached, coverage })
    }
}

fn numbers(counts: &[u64]) -> String {
    counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// The place of an event in [`EVENTS`].
fn position(what: &EventKind) -> Option<usize> {
    Some(match what {
        EventKind::Granted { .. } => 0,
        EventKind::Refused { .. } => 1,
        EventKind::TimedOut { .. } => 2,
        EventKind::Cancelled { .. } => 3,
        EventKind::Failed { .. } => 4,
        EventKind::Lost { .. } => 5,
        EventKind::Evicted { .. } => 6,
        EventKind::Crashed { .. } => 7,
        EventKind::Blocked { .. } => 8,
        _ => return None,
    })
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events: Vec<_> =
            EVENTS.iter().zip(self.events).map(|(event, count)| format!("{count} {event}")).collect();
        let Self { aims, pairs_reached, cells_reached, coverage, .. } = self;
        writeln!(f, "{}", events.join(", "))?;
        writeln!(
            f,
            "{aims} seeds had an aim, {pairs_reached} reached its verb and fault, {cells_reached} its state, too"
        )?;
        write!(f, "\n{coverage}")
    }
}
