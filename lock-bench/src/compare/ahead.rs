//! [`ahead`]: which systems are ahead of distlock, and why.
//!
//! Which systems are ahead is computed from the figures of a report. The reasons are written here, in [`REASONS`]; without one, the
//! report says that the reason is not known.

use super::{
    format::digits,
    results::{Results, ScenarioResult, Spread},
    tables::{Better, TABLES},
};
use crate::drivers::FLOOR;

/// The systems that are ahead of distlock in one scenario, for one reason.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) table: &'static str,
    pub(crate) scenario: &'static str,
    /// The systems, each with its figure.
    pub(crate) who: Vec<String>,
    pub(crate) ours: String,
    pub(crate) why: String,
}

/// A smaller difference does not count.
const DIFFERENCE: f64 = 0.02;

/// The systems of one store, in the order of its tables.
pub(crate) fn ahead(results: &Results, store: &str) -> Vec<Ahead> {
    let mut all: Vec<Ahead> = Vec::new();
    for table in &TABLES {
        for scenario in table.columns(results, store) {
            let Some(us) = results.find(store, "distlock", scenario) else { continue };
            let others = Results::systems(store).filter(|one| ![FLOOR, "distlock"].contains(&one.name));
            for them in others.filter_map(|one| results.find(store, one.name, scenario)) {
                let Some((theirs, ours)) = compared(them, us, table.figure) else { continue };
                if !theirs.is_ahead_of(ours, table.better) {
                    continue;
                }
                let known = REASONS.iter().find(|reason| reason.fits(them, table.figure));
                let why = match (known, theirs.spread.overlaps(ours.spread)) {
                    (Some(reason), _) => reason.why.to_owned(),
                    (None, true) => "within the spread of the rounds".to_owned(),
                    (None, false) => "not known".to_owned(),
                };
                let who = format!("{} {}", them.system, theirs.shown());
                let same = |one: &&mut Ahead| {
                    (one.table, one.scenario, &*one.why) == (table.title, scenario, why.as_str())
                };
                match all.iter_mut().find(same) {
                    Some(found) => found.who.push(who),
                    None => all.push(Ahead {
                        table: table.title,
                        scenario,
                        who: vec![who],
                        ours: ours.shown(),
                        why,
                    }),
                }
            }
        }
    }
    all
}

/// What is compared: a ratio to the floor, or a figure where there is no floor.
#[derive(Clone, Copy, Debug)]
struct Compared {
    spread: Spread,
    is_ratio: bool,
}

/// Both ratios, or both figures.
fn compared(them: &ScenarioResult, us: &ScenarioResult, figure: &str) -> Option<(Compared, Compared)> {
    let ratio = |row: &ScenarioResult| Some(Compared { spread: row.ratio(figure)?, is_ratio: true });
    let plain = |row: &ScenarioResult| Some(Compared { spread: row.spread(figure)?, is_ratio: false });
    ratio(them).zip(ratio(us)).or_else(|| plain(them).zip(plain(us)))
}

impl Compared {
    fn is_ahead_of(self, other: Self, better: Better) -> bool {
        let (this, that) = (self.spread.median, other.spread.median);
        match better {
            Better::Less => this < that * (1.0 - DIFFERENCE),
            Better::More => this > that * (1.0 + DIFFERENCE),
        }
    }

    fn shown(self) -> String {
        format!("{}{}", digits(self.spread.median), if self.is_ratio { " ×" } else { "" })
    }
}

/// Why a system is ahead.
struct Reason {
    store: &'static str,
    /// The beginning of the scenario's name. Empty: any scenario.
    scenario: &'static str,
    figures: &'static [&'static str],
    /// Empty: any system.
    systems: &'static [&'static str],
    why: &'static str,
}

impl Reason {
    fn fits(&self, row: &ScenarioResult, figure: &str) -> bool {
        self.store == row.store
            && row.scenario.starts_with(self.scenario)
            && self.figures.contains(&figure)
            && (self.systems.is_empty() || self.systems.contains(&&*row.system))
    }
}

const fn reason(
    store: &'static str,
    scenario: &'static str,
    figures: &'static [&'static str],
    systems: &'static [&'static str],
    why: &'static str,
) -> Reason {
    Reason { store, scenario, figures, systems, why }
}

const LATENCY: &[&str] = &["p50_us", "p99_us"];
const SPEED: &[&str] = &["p50_us", "p99_us", "per_s"];
const TRAFFIC: &[&str] = &["tenure_requests", "tenure_bytes"];
const BYTES: &[&str] = &["pair_bytes", "tenure_bytes"];
const ALL: &[&str] = &[];

/// The first reason that fits applies.
const REASONS: [Reason; 25] = [
    reason(
        "redis",
        "pair",
        SPEED,
        ALL,
        "`SET NX` and one small script, as the floor itself: no queue and no fencing token. Ours are two scripts, and the first writes a counter",
    ),
    reason(
        "redis",
        "throughput",
        SPEED,
        ALL,
        "no queue and no fencing token: `SET NX` and one small script. The server's time in our scripts is the bound. rslock leaves Nagle's algorithm on, so that the kernel gathers commands: with it the floor, which sends each alone, was 1.2 to 1.9 times as fast. Over a network it would make verbs wait for each other's answers",
    ),
    reason(
        "redis",
        "handoff",
        LATENCY,
        &["rslock", "distkit", "distributed-lock", "redsync", "bsm-redislock", "go-zero", "redis-py"],
        "it polls, and only hand-offs to another contender count: after most releases the same contender gets the lock again (see fairness)",
    ),
    reason(
        "redis",
        "costs",
        BYTES,
        ALL,
        "names of entries, tokens, claims and the message to the heir go over the wire; where there is no queue, it is a name and a value",
    ),
    reason(
        "redis",
        "readers-writers",
        &["tenures"],
        &["redisson"],
        "readers pass writers that wait: see overtaking",
    ),
    reason(
        "redis",
        "semaphore",
        &["tenures"],
        &["redisson"],
        "no queue: a contender that comes back passes those that wait, see overtaking",
    ),
    reason(
        "redis",
        "takeover",
        &["after_kill_ms"],
        ALL,
        "the kill is somewhere between two renewals: from two thirds of the ttl to the whole ttl is right",
    ),
    reason(
        "redis",
        "held",
        &["client_percent", "server_percent"],
        &["rslock", "redsync", "bsm-redislock", "go-zero", "redis-py"],
        "it renews nothing: its locks end with their ttl, even if they are held",
    ),
    reason(
        "redis",
        "held",
        &["server_percent"],
        &["redisson", "redisson-fair"],
        "for each lock our script reads the holder and the rest of the ttl, so that no renewal makes a lease shorter, and then sets the ttl: three calls; Redisson's sets it without reading: two",
    ),
    reason(
        "etcd",
        "pair",
        SPEED,
        &["etcd-client", "jetcd"],
        "v3lock does on the server what we do from the client",
    ),
    reason(
        "etcd",
        "throughput",
        SPEED,
        &["etcd-client", "jetcd"],
        "v3lock does on the server what we do from the client",
    ),
    reason(
        "etcd",
        "handoff",
        LATENCY,
        &["etcd-client", "jetcd"],
        "v3lock waits inside of the server, and answers when it is their turn",
    ),
    reason(
        "etcd",
        "costs",
        TRAFFIC,
        &["etcd-client", "jetcd"],
        "v3lock waits inside of the server: one request and one answer, and no watch goes over the wire",
    ),
    reason(
        "etcd",
        "costs",
        &["pair_bytes"],
        &["etcd-client", "jetcd"],
        "a request of v3lock is a name and a lease; ours is a whole transaction with its comparisons and reads",
    ),
    reason(
        "etcd",
        "costs",
        TRAFFIC,
        &["concurrency"],
        "it watches one key; we also watch our own, so that a waiter learns that it was evicted or that its key was deleted",
    ),
    reason(
        "etcd",
        "handoff",
        &["overtaken"],
        ALL,
        "counted from the moment of asking; the queue is in the order of arrival at the server",
    ),
    reason(
        "etcd",
        "takeover",
        &["after_kill_ms"],
        ALL,
        "the kill is somewhere between two renewals, and etcd looks for expired leases twice a second",
    ),
    reason(
        "zk",
        "takeover",
        &["after_kill_ms"],
        ALL,
        "sessions come in few lengths, so that entries can share them: for 2 s we ask for 2.4 s",
    ),
    reason(
        "zk",
        "pair",
        SPEED,
        &["zookeeper-client"],
        "it deletes in the background: its release is over before the server has it",
    ),
    reason(
        "zk",
        "throughput",
        SPEED,
        &["zookeeper-client"],
        "it deletes in the background: its release is over before the server has it",
    ),
    reason(
        "zk",
        "costs",
        TRAFFIC,
        ALL,
        "we watch three nodes, our own among them, and read the queue once before our turn, so that no request is left when it comes; the others watch one node and read the queue then",
    ),
    reason(
        "zk",
        "costs",
        BYTES,
        ALL,
        "the claim stands in the name of the node, and what its session and its ttl are in the node",
    ),
    reason(
        "zk",
        "handoff",
        &["per_s"],
        &["zookeeper-client"],
        "a tenure of ours is half as many requests again (see requests for one tenure), and among a thousand the server is what limits",
    ),
    reason(
        "zk",
        "held",
        &["client_percent", "server_percent"],
        ALL,
        "with each renewal we read the node of each lock, behind a write that proves the session, so that a deleted node is noticed; the others rely on the pings of the session, and read no node",
    ),
    reason(
        "zk",
        "",
        &["overtaken"],
        ALL,
        "counted from the moment of asking; the queue is in the order of arrival at the server",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::results::Figures;

    fn row(store: &str, system: &str, scenario: &str, figure: &str, values: [f64; 3]) -> ScenarioResult {
        let mut row =
            ScenarioResult::new(Results::systems(store).find(|one| one.name == system).unwrap(), scenario);
        row.rounds = values.map(|value| Figures::from([(figure.to_owned(), value)])).into();
        row
    }

    fn found(rows: impl IntoIterator<Item = ScenarioResult>) -> Vec<(String, String)> {
        let mut results = Results::default();
        rows.into_iter().for_each(|row| results.put(row));
        ahead(&results, "redis").into_iter().map(|one| (one.who.join(", "), one.why)).collect()
    }

    #[test]
    fn systems_that_are_ahead_are_listed_with_the_known_reason() {
        let row = |system, values| row("redis", system, "pair", "p50_us", values);
        let [(who, why)] = &found([
            row("distlock", [9.0, 10.0, 11.0]),
            row("rslock", [7.0, 8.0, 9.0]),
            row("redsync", [6.0, 6.0, 6.0]),
            row("redisson", [20.0, 20.0, 20.0]),
        ])[..] else {
            panic!("systems that are ahead for the same reason are one entry");
        };
        assert_eq!((&**who, why.contains("no fencing token")), ("rslock 8.00, redsync 6.00", true));
    }

    #[test]
    fn rates_are_better_when_larger_and_an_unknown_reason_is_told() {
        let row = |system, values| row("redis", system, "handoff-2", "per_s", values);
        let us = row("distlock", [90.0, 100.0, 110.0]);
        let whys = |values| found([us.clone(), row("redisson", values)]);
        assert_eq!(whys([101.0, 101.0, 101.0]), []);
        assert_eq!(whys([80.0, 80.0, 80.0]), []);
        assert_eq!(whys([109.0, 120.0, 130.0])[0].1, "within the spread of the rounds");
        assert_eq!(whys([111.0, 120.0, 130.0])[0].1, "not known");
    }
}
