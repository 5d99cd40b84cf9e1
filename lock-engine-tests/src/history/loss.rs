//! M4: a holder learns of its loss before another client can hold the lock.

use std::time::Duration;

use lock_core::{BootTime, LostReason};

use super::{
    acquisition::{Acquisition, Hold},
    timeline::{History, Violation},
};

/// The timers of a runtime tick in milliseconds, and on a slow clock the last part is slept twice.
const TICK: Duration = Duration::from_millis(3);

/// On a clock that is fast by 1 %, the keeper's timers, of at most 1 s, are this late.
const FAST: Duration = Duration::from_millis(10);

/// Looks at every guard that was not given back in time.
#[must_use]
pub fn check(history: &History, acquisitions: &[Acquisition]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for acquisition in acquisitions {
        let Some((granted, hold)) = acquisition.hold() else { continue };
        let mut found = |what: &str| {
            violations.push(Violation::new("M4", format!("{} {what}", acquisition.op)));
        };
        let Some(ended) = ended(hold) else {
            found("was neither given back nor lost");
            continue;
        };
        if longest(acquisition).is_some_and(|longest| hold.believed_until > Some(granted + longest)) {
            found("is held for longer than it may be");
        }
        let told_late = hold.lost.is_some_and(|(signal, deadline)| {
            signal > deadline + TICK + FAST && !acquisition.is_disturbed(deadline, signal)
        });
        if told_late {
            found("was told of its loss after its deadline");
        }
        let needless = history.faultless
            && acquisition.renew
            && hold.evicted.is_none()
            && matches!(hold.reason, Some(LostReason::Expired | LostReason::Gone))
            && !acquisition.is_disturbed(granted, ended);
        if needless {
            found("was lost, though nothing went wrong");
        }
        if let Some(evicted) = hold.evicted {
            let end = evicted.max(granted) + acquisition.ttl + TICK + FAST;
            if ended > end && !acquisition.is_disturbed(evicted, ended) {
                found("was taken away by an operator, and is not told within its ttl");
            }
            continue;
        }
        if acquisition.is_disturbed(granted, ended) {
            continue;
        }
        for next in
            acquisitions.iter().filter(|next| !acquisition.goes_with(next) && next.op != acquisition.op)
        {
            // A holder that an operator evicted may learn of its grant later.
            let comes =
                |(at, hold): (BootTime, &Hold)| hold.evicted.is_none() && at > granted && at + TICK < ended;
            if next.hold().is_some_and(comes) {
                found(&format!("was not told of its loss before {} was granted", next.op));
            }
        }
    }
    violations
}

/// How long a guard can be held: for `max_hold`, and without renewal for the ttl; on a slow clock 1/99 longer.
fn longest(acquisition: &Acquisition) -> Option<Duration> {
    let unrenewed = (!acquisition.renew).then_some(acquisition.ttl);
    let longest = acquisition.max_hold.into_iter().chain(unrenewed).min()?;
    Some(longest + longest / 98)
}

/// When the holder stopped acting on its guard.
fn ended(hold: &Hold) -> Option<BootTime> {
    [hold.returned, hold.lost.map(|(at, _)| at), hold.crashed].into_iter().flatten().min()
}
