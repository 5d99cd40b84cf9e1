//! [`Held`]: what one client holds, from line to line.

use std::{collections::BTreeMap, time::Duration};

use lock_core::{BootTime, FencingToken};

use crate::{
    excuse::{Excuses, Lease},
    record::{Line, What, time},
};

/// How late a task may write down what it saw, because it got no core. What is written down within that time after a deadline counts as
/// done at the deadline: whether two held a lock at once is judged by deadlines alone.
pub(crate) const LATE: Duration = Duration::from_millis(250);

/// What a client has asked for, and what it was granted.
#[derive(Debug, Default)]
pub(crate) struct Held {
    asked: BTreeMap<u64, (String, Duration)>,
    granted: BTreeMap<u64, Grant>,
}

#[derive(Debug)]
struct Grant {
    entry: String,
    token: FencingToken,
    lease: Lease,
}

impl Held {
    /// The name that a line is about, and when it happened.
    pub(crate) fn note(&mut self, op: u64, line: &Line) -> Option<(String, BootTime)> {
        let mut at = time(line.at);
        match &line.what {
            What::Asked { name, ttl, .. } => {
                self.asked.insert(op, (name.clone(), *ttl));
            }
            What::Granted { token, entry, until, .. } => {
                let (ttl, until) = (self.asked.get(&op)?.1, time(*until));
                let lease = Lease { ttl, granted: at, until, known: at, over: None, confirmed: false };
                self.granted.insert(op, Grant { entry: entry.clone(), token: *token, lease });
            }
            What::Renewed { until, .. } => {
                self.granted.get_mut(&op)?.lease.prolong(time(*until), at);
                return None;
            }
            What::Lost { until, .. } | What::Returned { until, .. } => {
                let (until, lease) = (time(*until), &mut self.granted.get_mut(&op)?.lease);
                lease.prolong(until, at);
                lease.over = Some(at);
                if at <= until + LATE {
                    at = at.min(until);
                }
            }
            What::Released { confirmed, .. } => self.granted.get_mut(&op)?.lease.confirmed = *confirmed,
            _ => {}
        }
        Some((self.asked.get(&op)?.0.clone(), at))
    }

    /// For each name that was asked for, what of it was held to the last, and until when that was good.
    pub(crate) fn at_the_end(&self) -> BTreeMap<String, Vec<(u64, BootTime)>> {
        let mut names: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for (op, (name, _)) in &self.asked {
            let holds = names.entry(name.clone()).or_default();
            let lease = self.granted.get(op).map(|grant| &grant.lease).filter(|lease| lease.over.is_none());
            holds.extend(lease.map(|lease| (*op, lease.until)));
        }
        names
    }

    /// What may have ended in the store before its deadline, and when at the earliest: by name, entry and token. A grant that was over before it
    /// could be written down has ended by then: nobody has worked under it, and the next one may have been granted before.
    pub(crate) fn ended_early(
        &self,
        excuses: &Excuses,
    ) -> impl Iterator<Item = (String, BootTime, (&str, FencingToken))> {
        self.granted.iter().filter_map(move |(op, Grant { entry, token, lease })| {
            let was_over = (lease.until <= lease.granted).then_some(lease.until);
            let at = was_over.or_else(|| excuses.ended(lease))?;
            Some((self.asked.get(op)?.0.clone(), at, (entry.as_str(), *token)))
        })
    }
}

/// The acquisition that a line is about.
pub(crate) fn op(what: &What) -> Option<u64> {
    match what {
        What::Asked { op, .. }
        | What::Granted { op, .. }
        | What::Refused { op }
        | What::TimedOut { op }
        | What::Failed { op, .. }
        | What::Renewed { op, .. }
        | What::Lost { op, .. }
        | What::Returned { op, .. }
        | What::Released { op, .. } => Some(*op),
        What::Connected | What::Stalled { .. } | What::Closed { .. } => None,
    }
}
