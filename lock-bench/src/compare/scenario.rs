//! [`Scenario`]: what is measured, and [`Schedule`]: for how long.

use std::time::Duration;

use super::protocol::Kind;

/// A row of each system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) work: Work,
    /// Whether it is run without being asked for.
    pub(crate) short: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Acquire and release, of so many tasks, each on a lock of its own.
    Pairs { tasks: usize },
    /// One lock goes round.
    HandOff { contenders: usize, processes: usize },
    /// Readers and writers, or the holders of permits.
    Shared { kind: Kind },
    /// What goes to the server for one pair, and for one tenure of so many contenders.
    Costs { contenders: usize },
    /// A holder is killed.
    Takeover,
    /// Many locks are held.
    Held { locks: usize },
}

impl Scenario {
    const fn short(name: &'static str, work: Work) -> Self {
        Self { name, work, short: true }
    }

    const fn long(name: &'static str, work: Work) -> Self {
        Self { name, work, short: false }
    }
}

const fn hand_off(contenders: usize, processes: usize) -> Work {
    Work::HandOff { contenders, processes }
}

/// All there are, in the order in which they are run.
pub(crate) const SCENARIOS: [Scenario; 19] = [
    Scenario::short("pair", Work::Pairs { tasks: 1 }),
    Scenario::long("throughput-16", Work::Pairs { tasks: 16 }),
    Scenario::short("throughput-64", Work::Pairs { tasks: 64 }),
    Scenario::long("throughput-256", Work::Pairs { tasks: 256 }),
    Scenario::short("handoff-2", hand_off(2, 1)),
    Scenario::long("handoff-11", hand_off(11, 1)),
    Scenario::short("handoff-32", hand_off(32, 1)),
    Scenario::long("handoff-101", hand_off(101, 1)),
    Scenario::long("handoff-1001", hand_off(1001, 1)),
    Scenario::long("handoff-4x1", hand_off(4, 4)),
    Scenario::long("handoff-4x25", hand_off(100, 4)),
    Scenario::long("handoff-4x250", hand_off(1000, 4)),
    Scenario::long("readers-writers", Work::Shared { kind: Kind::Rw }),
    Scenario::long("semaphore-8", Work::Shared { kind: Kind::Semaphore }),
    Scenario::short("costs-2", Work::Costs { contenders: 2 }),
    Scenario::short("costs-32", Work::Costs { contenders: 32 }),
    Scenario::long("costs-101", Work::Costs { contenders: 101 }),
    Scenario::long("takeover", Work::Takeover),
    Scenario::long("held-10000", Work::Held { locks: 10_000 }),
];

/// How long things last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// Without the first, in which everybody gets warm.
    pub(crate) rounds: usize,
    /// One turn of one system.
    pub(crate) turn: Duration,
    /// Before the first scenario, to let compilers at run time do their work.
    pub(crate) warm_up: Duration,
    /// What an answer may take longer than it should. Whoever takes longer has failed.
    pub(crate) patience: Duration,
    /// How often a holder is killed.
    pub(crate) kills: usize,
}

impl Schedule {
    pub(crate) const SHORT: Self = Self {
        rounds: 3,
        turn: Duration::from_millis(400),
        warm_up: Duration::from_millis(1500),
        patience: Duration::from_secs(20),
        kills: 1,
    };

    pub(crate) const FULL: Self = Self {
        rounds: 5,
        turn: Duration::from_secs(1),
        warm_up: Duration::from_secs(3),
        patience: Duration::from_secs(45),
        kills: 3,
    };
}
