//! M5: no client waits while no entry can be in its way, and every wait ends.

use std::time::Duration;

use lock_core::BootTime;

use super::{
    acquisition::{Acquisition, Outcome},
    event::AcquireMode,
    presence::presence,
    timeline::{History, Violation},
};

/// Looks for waits that never end, that end too late, and that go on while no other client can hold the lock.
#[must_use]
pub fn check(history: &History, acquisitions: &[Acquisition]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for acquisition in acquisitions {
        let mut found = |what: &str| {
            violations.push(Violation::new("M5", format!("{} {what}", acquisition.op)));
        };
        let Some(answered) = acquisition.answered else {
            found("waits forever");
            continue;
        };
        if acquisition.is_disturbed(acquisition.invoked, answered) {
            continue;
        }
        if acquisition.mode == AcquireMode::Try {
            if history.faultless && answered > acquisition.invoked + history.swift {
                found("is a try, and waits");
            }
            continue;
        }
        if let AcquireMode::WaitFor(wait) = acquisition.mode {
            // A clock that is slow by 1 % waits 1/99 longer.
            if answered > acquisition.invoked + wait + wait / 90 + history.swift {
                found("waits for longer than it wanted to");
            }
        }
        let grace = grace(history, acquisitions);
        let from = acquisition.invoked.max(settled(history));
        if let Some((free, taken)) = idle(history, acquisitions, acquisition, from, answered, grace) {
            let time = taken.since(free);
            found(&format!(
                "waits, while for {time:?} from {} no other client can hold the lock",
                super::event::instant(free)
            ));
        }
    }
    violations
}

/// The time by which every waiter has looked again after the last fault.
fn settled(history: &History) -> BootTime {
    let calm = history.calm();
    if history.faultless { calm } else { calm + history.late + Duration::from_secs(4) }
}

/// How long a lock can stay free while a client waits. After faults, until the waiter looks again, at a third of its ttl.
fn grace(history: &History, acquisitions: &[Acquisition]) -> Duration {
    if history.faultless {
        return history.swift;
    }
    let longest = acquisitions.iter().map(|acquisition| acquisition.ttl).max().unwrap_or_default();
    longest / 3 + longest / 200 + history.swift
}

/// The first period between two instants that is longer than `grace` and in which no other client can hold the lock.
fn idle(
    history: &History,
    acquisitions: &[Acquisition],
    waiter: &Acquisition,
    from: BootTime,
    to: BootTime,
    grace: Duration,
) -> Option<(BootTime, BootTime)> {
    let others = acquisitions.iter().filter(|other| other.op != waiter.op && other.name == waiter.name);
    let mut holds: Vec<_> = others.map(|other| possible_hold(history, other, grace)).collect();
    holds.sort();
    let mut free = from;
    for (begin, end) in holds.into_iter().chain([(to, to)]) {
        let begin = begin.min(to);
        if begin.since(free) > grace {
            return Some((free, begin));
        }
        free = free.max(end);
    }
    None
}

/// When another acquisition can have been admitted. A lock may be granted for some time before its guard is returned.
fn possible_hold(history: &History, other: &Acquisition, grace: Duration) -> (BootTime, BootTime) {
    let (invoked, end) = presence(history, other);
    let begin = match (&other.outcome, other.answered) {
        (Outcome::Granted(_), Some(answered)) if !other.is_disturbed(invoked, answered) => {
            (answered - grace).max(invoked)
        }
        _ => invoked,
    };
    (begin, end)
}
