//! [`Table`]: the tables of a report, in Markdown and in HTML.

use super::{
    results::Results,
    scenario::{SCENARIOS, Work},
};

/// The introduction of a report.
pub(crate) const ABOUT: &str = "Each figure is the median of several rounds, in which all systems of a store take turns. Behind it is its ratio to the floor \
of the same round: the median, the least and the largest. The floor is what the store itself takes, without a library. Drivers are written in the \
language of their library, so that a figure also depends on the language. `–`: not run, or the library does not have it.\n";

/// The heading of the table of systems that are ahead.
pub(crate) const AHEAD: &str = "Where another is ahead of distlock, and why";

/// A table, of which each store has one.
pub(crate) struct Table {
    pub(crate) title: &'static str,
    pub(crate) about: &'static str,
    pub(crate) figure: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    belongs: fn(Work) -> bool,
}

/// Which of two figures is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
}

/// All tables, in order.
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
        about: "From the call of release to the moment when **another** contender, which was waiting, has the lock; each holder keeps it for 1 ms. \
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
        about: "Divided by the largest one that is possible with so many tenures. 1: all contenders got the lock equally often, but for the last lap.",
        figure: "jain",
        unit: "",
        better: Better::More,
        belongs: |work| matches!(work, Work::HandOff { .. } | Work::Shared { .. }),
    },
    Table {
        title: "Fairness: largest overtaking",
        about: "The most contenders that asked later than another one but got the lock before it.",
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
        about: "Requests for one acquire, one release and the waiting between, among so many contenders.",
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
    /// The scenarios of its columns: those that have figures.
    pub(crate) fn columns<'a>(&self, results: &'a Results, store: &'a str) -> Vec<&'static str> {
        let known = |name: &str| {
            Results::systems(store).any(|system| {
                results.find(store, system.name, name).is_some_and(|row| row.figure(self.figure).is_some())
            })
        };
        let belongs = SCENARIOS.iter().filter(|scenario| (self.belongs)(scenario.work));
        belongs.map(|scenario| scenario.name).filter(|name| known(name)).collect()
    }
}
