//! [`Scenario`]: what is measured, and [`Schedule`]: for how long.

use std::time::Duration;

use crate::drivers::protocol::Kind;

/// What is measured of each system, as one row of the report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) work: Work,
    /// Whether it is run by default.
    pub(crate) short: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Acquire and release by so many tasks, each on a lock of its own.
    Pairs { tasks: usize },
    /// Contenders hand one lock over to each other.
    HandOff { contenders: usize, processes: usize },
    /// Readers and writers, or the holders of permits.
    Shared { kind: Kind },
    /// Requests and bytes for one pair, and for one tenure among so many contenders.
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

/// All scenarios, in the order in which they are run.
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

/// How many rounds there are, and how long the steps take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// Without the first one, which is a warm-up.
    pub(crate) rounds: usize,
    /// One turn of one system.
    pub(crate) turn: Duration,
    /// Before the first scenario, so that just-in-time compilers have run.
    pub(crate) warm_up: Duration,
    /// How much longer than expected a response may take before its system has failed.
    pub(crate) grace: Duration,
    /// How often a holder is killed.
    pub(crate) kills: usize,
}

impl Schedule {
    pub(crate) const SHORT: Self = Self {
        rounds: 3,
        turn: Duration::from_millis(400),
        warm_up: Duration::from_millis(1500),
        grace: Duration::from_secs(20),
        kills: 1,
    };

    pub(crate) const FULL: Self = Self {
        rounds: 5,
        turn: Duration::from_secs(1),
        warm_up: Duration::from_secs(3),
        grace: Duration::from_secs(45),
        kills: 3,
    };
}
