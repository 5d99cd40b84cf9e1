//! [`starvation`]: a lock that nobody gets, though clients wait for it and nothing goes wrong any more.

use std::time::Duration;

use lock_core::BootTime;
use lock_engine_tests::history::{AcquireMode, Acquisition, History, Violation};

/// By when all who waited through the last fault have looked again, beside the time that the last messages and leases of then take.
const LOOKED: Duration = Duration::from_secs(4);

/// Looks for times in which a client waits and nobody holds the lock, for longer than a hand-over and a look take.
///
/// The checker of the engine asks whether anybody *can* have been in the way. It counts each client that has given up for half a minute more,
/// and so finds nothing where several wait.
pub(crate) fn starvation(history: &History, acquisitions: &[Acquisition]) -> Vec<Violation> {
    let settled = history.calm() + history.late + LOOKED;
    let longest = acquisitions.iter().map(|acquisition| acquisition.ttl).max().unwrap_or_default();
    let grace = longest / 3 + longest / 200 + history.swift;
    let mut holds: Vec<_> = acquisitions.iter().filter_map(|other| held(history, other)).collect();
    holds.sort();
    let mut violations = Vec::new();
    for waiter in acquisitions.iter().filter(|waiter| matches!(waiter.mode, AcquireMode::WaitFor(_))) {
        let to = waiter.answered.unwrap_or(history.end());
        let Some((free, taken)) = gap(&holds, waiter.invoked.max(settled), to, grace) else { continue };
        // A client that stood still may have been the next, until its lease ended.
        if !stood_still(history, acquisitions, free - longest, taken) {
            let what = format!("{} waits, and for {:?} nobody holds the lock", waiter.op, taken.since(free));
            violations.push(Violation { id: "M5", what });
        }
    }
    violations
}

/// From when to when an acquisition held the lock.
fn held(history: &History, acquisition: &Acquisition) -> Option<(BootTime, BootTime)> {
    let (granted, hold) = acquisition.hold()?;
    let ends = [hold.returned, hold.lost.map(|(signal, _)| signal), hold.crashed];
    Some((granted, ends.into_iter().flatten().max().unwrap_or(history.end())))
}

/// The first time between two instants, longer than `grace`, in which nobody held the lock.
fn gap(
    holds: &[(BootTime, BootTime)],
    from: BootTime,
    to: BootTime,
    grace: Duration,
) -> Option<(BootTime, BootTime)> {
    let mut free = from;
    for (begin, end) in holds.iter().copied().chain([(to, to)]) {
        let begin = begin.min(to);
        if begin.since(free) > grace {
            return Some((free, begin));
        }
        free = free.max(end);
    }
    None
}

/// Whether a client stood still between two instants, or was killed since nothing goes wrong.
fn stood_still(history: &History, acquisitions: &[Acquisition], from: BootTime, to: BootTime) -> bool {
    let counts = |(begin, end): &(BootTime, BootTime)| {
        let is_over = *end != BootTime::FAR_FUTURE || *begin >= history.calm();
        is_over && *begin <= to && *end >= from
    };
    acquisitions.iter().flat_map(|acquisition| &acquisition.stops).any(counts)
}
