//! [`History`]: the events in their order, and the conditions of the run.

use std::{fmt, time::Duration};

use lock_core::BootTime;

use super::{
    acquisition::Acquisition,
    event::{Event, EventKind, Op},
};

/// What happened in a run, in the order in which it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The events.
    pub events: Vec<Event>,
    /// Whether the wires had no faults from the beginning.
    pub faultless: bool,
    /// Whether entries live for as long as their client has a session, and not only for their own ttl.
    pub sessions: bool,
    /// How late a faulty message can be.
    pub late: Duration,
    /// How long a hand-off can take without faults: the latencies of the messages and the ticks of the timers.
    pub swift: Duration,
}

/// A broken promise in a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The id of the checker: `M1`.
    pub id: &'static str,
    /// What was found, for people.
    pub what: String,
}

impl History {
    /// The acquisitions, by their number.
    #[must_use]
    pub fn acquisitions(&self) -> Vec<Acquisition> {
        Acquisition::all(&self.events)
    }

    /// When the last fault was over; the beginning of time if there was none.
    #[must_use]
    pub fn calm(&self) -> BootTime {
        let calm = self.events.iter().find(|event| event.what == EventKind::Calm);
        match calm {
            Some(calm) if !self.faultless => calm.at,
            _ => BootTime::new(Duration::ZERO),
        }
    }

    /// When everything had ended.
    #[must_use]
    pub fn end(&self) -> BootTime {
        self.events.last().map_or(BootTime::new(Duration::ZERO), |event| event.at)
    }
}

/// One line for each event.
impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events.iter().try_for_each(|event| writeln!(f, "{event}"))
    }
}

impl Violation {
    pub(super) fn new(id: &'static str, what: impl Into<String>) -> Self {
        Self { id, what: what.into() }
    }

    pub(super) fn between(id: &'static str, one: Op, other: Op, what: &str) -> Self {
        Self::new(id, format!("{one} and {other}: {what}"))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id, self.what)
    }
}
