//! When an acquisition can have been in the store: an upper bound, never less than the time in which it was.

use lock_core::BootTime;

use super::{
    acquisition::{Acquisition, Outcome},
    timeline::History,
};

/// From when to when entries of an acquisition can have been in the store.
pub(super) fn presence(history: &History, acquisition: &Acquisition) -> (BootTime, BootTime) {
    (acquisition.invoked, end(history, acquisition))
}

fn end(history: &History, acquisition: &Acquisition) -> BootTime {
    let Some(answered) = acquisition.answered else { return BootTime::FAR_FUTURE };
    let ended = match &acquisition.outcome {
        Outcome::Pending => return BootTime::FAR_FUTURE,
        Outcome::Refused if history.faultless => return answered,
        Outcome::Refused | Outcome::GivenUp => answered,
        Outcome::Granted(hold) => {
            if let Some(released) = hold.released.filter(|_| history.faultless) {
                return released;
            }
            let ends = [hold.returned, hold.lost.map(|(at, _)| at), hold.crashed];
            match ends.into_iter().flatten().max() {
                Some(ended) => ended,
                None => return BootTime::FAR_FUTURE,
            }
        }
    };
    if history.faultless && !acquisition.is_disturbed(acquisition.invoked, ended + history.swift) {
        return ended + history.swift;
    }
    // The last request can be late, and then it adds one more lease.
    let more = history.late + acquisition.ttl + history.swift;
    let mut end = ended + more;
    if history.sessions {
        // The keeper of a client that stands still removes no entries, and its session may live on.
        for &(from, until) in &acquisition.stops {
            if from <= end && until != BootTime::FAR_FUTURE {
                end = end.max(until + more);
            }
        }
    }
    end
}
