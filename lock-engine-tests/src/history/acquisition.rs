//! [`Acquisition`]: one attempt to take a lock and its outcome, put together from its events.

use std::{collections::BTreeMap, time::Duration};

use lock_core::{BootTime, Claim, EntryId, FencingToken, LostReason};

use super::event::{AcquireMode, Event, EventKind, Op};

/// One attempt to take a lock, from its beginning to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquisition {
    /// Its number.
    pub op: Op,
    /// Its client.
    pub client: usize,
    /// The lock.
    pub name: String,
    /// What it asked for.
    pub claim: Claim,
    /// Its ttl.
    pub ttl: Duration,
    /// How it asked.
    pub mode: AcquireMode,
    /// Whether its guard is to be renewed for as long as it is held.
    pub renew: bool,
    /// The longest time for which the guard may be held.
    pub max_hold: Option<Duration>,
    /// When it began.
    pub invoked: BootTime,
    /// When the guard, the refusal or the error was returned, or the attempt ended without an answer. `None` if it never
    /// ended.
    pub answered: Option<BootTime>,
    /// What was answered.
    pub outcome: Outcome,
    /// The times in which its client was blocked. If the client crashed, the last one has no end.
    pub stops: Vec<(BootTime, BootTime)>,
}

/// How an acquisition ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has not ended.
    Pending,
    /// With a guard.
    Granted(Hold),
    /// The lock was taken.
    Refused,
    /// The wait ended, there was an error, the future was dropped, or its client crashed.
    GivenUp,
}

/// A guard, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The token.
    pub token: FencingToken,
    /// The entry.
    pub entry: EntryId,
    /// When the entry was requested, and when the store first answered that it is in the queue.
    pub enqueued: Option<(BootTime, BootTime)>,
    /// Until when the holder could believe that it holds the lock: then the lock was given back, lost or taken away by an operator, or the
    /// client crashed. `None` if that never ended.
    pub believed_until: Option<BootTime>,
    /// When the guard was given back.
    pub returned: Option<BootTime>,
    /// When the store had confirmed the release.
    pub released: Option<BootTime>,
    /// When the lost signal came, and the deadline at that time.
    pub lost: Option<(BootTime, BootTime)>,
    /// Why it was lost.
    pub reason: Option<LostReason>,
    /// When an operator took it away.
    pub evicted: Option<BootTime>,
    /// When its client crashed.
    pub crashed: Option<BootTime>,
}

impl Acquisition {
    /// Puts the events of each acquisition together.
    pub(super) fn all(events: &[Event]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        let mut entries = Entries::default();
        for event in events {
            entries.note(event);
            if let EventKind::Invoked { op, client, name, claim, ttl, mode, renew, max_hold } = &event.what {
                assert_eq!(op.0, all.len(), "acquisitions are numbered as they are begun");
                all.push(Self {
                    op: *op,
                    client: *client,
                    name: name.clone(),
                    claim: *claim,
                    ttl: *ttl,
                    mode: *mode,
                    renew: *renew,
                    max_hold: *max_hold,
                    invoked: event.at,
                    answered: None,
                    outcome: Outcome::Pending,
                    stops: Vec::new(),
                });
            } else {
                note(&mut all, event);
            }
        }
        let stops = stops(events);
        for acquisition in &mut all {
            acquisition.stops = stops.get(&acquisition.client).cloned().unwrap_or_default();
            if let Outcome::Granted(hold) = &mut acquisition.outcome {
                entries.complete(hold);
            }
        }
        all
    }

    /// The guard, if there was one, and when it was returned.
    #[must_use]
    pub fn hold(&self) -> Option<(BootTime, &Hold)> {
        match &self.outcome {
            Outcome::Granted(hold) => self.answered.map(|at| (at, hold)),
            _ => None,
        }
    }

    /// Whether its client was blocked or gone at some time between two instants.
    #[must_use]
    pub fn is_disturbed(&self, from: BootTime, to: BootTime) -> bool {
        self.stops.iter().any(|(begin, end)| *begin <= to && *end >= from)
    }

    /// Whether the two can hold their lock at the same time.
    #[must_use]
    pub fn goes_with(&self, other: &Self) -> bool {
        let sum = u64::from(self.claim.permits()) + u64::from(other.claim.permits());
        self.name != other.name || sum <= u64::from(self.claim.limit())
    }
}

impl Hold {
    fn end(&mut self, at: BootTime) {
        self.believed_until = Some(self.believed_until.map_or(at, |until| until.min(at)));
    }
}

/// When each client was blocked or gone.
fn stops(events: &[Event]) -> BTreeMap<usize, Vec<(BootTime, BootTime)>> {
    let mut stops: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for event in events {
        match event.what {
            EventKind::Blocked { client } | EventKind::Crashed { client, .. } => {
                stops.entry(client).or_default().push((event.at, BootTime::FAR_FUTURE));
            }
            EventKind::Unblocked { client } => {
                if let Some(stop) = stops.entry(client).or_default().last_mut() {
                    stop.1 = event.at;
                }
            }
            _ => {}
        }
    }
    stops
}

/// Records an event of one acquisition, or of all acquisitions of a client.
fn note(all: &mut [Acquisition], event: &Event) {
    let at = event.at;
    match &event.what {
        EventKind::Granted { op, token, entry } => {
            let hold = Hold {
                token: *token,
                entry: *entry,
                enqueued: None,
                believed_until: None,
                returned: None,
                released: None,
                lost: None,
                reason: None,
                evicted: None,
                crashed: None,
            };
            answer(all, *op, at, Outcome::Granted(hold));
        }
        EventKind::Refused { op } => answer(all, *op, at, Outcome::Refused),
        EventKind::TimedOut { op } | EventKind::Failed { op, .. } | EventKind::Cancelled { op } => {
            answer(all, *op, at, Outcome::GivenUp);
        }
        EventKind::Returned { op, deadline, .. } => with_hold(all, *op, |hold| {
            hold.end(at.min(*deadline));
            hold.returned = Some(at);
        }),
        EventKind::Released { op, confirmed: true } => with_hold(all, *op, |hold| hold.released = Some(at)),
        EventKind::Lost { op, deadline, reason } => with_hold(all, *op, |hold| {
            hold.end(at.min(*deadline));
            hold.lost = Some((at, *deadline));
            hold.reason = Some(*reason);
        }),
        EventKind::Crashed { client, held } => {
            for (op, deadline) in held {
                with_hold(all, *op, |hold| {
                    hold.end(at.min(*deadline));
                    hold.crashed = Some(at);
                });
            }
            let pending = all.iter_mut().filter(|a| a.client == *client && a.outcome == Outcome::Pending);
            for acquisition in pending {
                (acquisition.answered, acquisition.outcome) = (Some(at), Outcome::GivenUp);
            }
        }
        _ => {}
    }
}

fn answer(all: &mut [Acquisition], op: Op, at: BootTime, outcome: Outcome) {
    (all[op.0].answered, all[op.0].outcome) = (Some(at), outcome);
}

fn with_hold(all: &mut [Acquisition], op: Op, change: impl FnOnce(&mut Hold)) {
    if let Outcome::Granted(hold) = &mut all[op.0].outcome {
        change(hold);
    }
}

/// Facts about entries that are not yet assigned to acquisitions.
#[derive(Default)]
struct Entries {
    enqueued: BTreeMap<EntryId, (BootTime, BootTime)>,
    evicted: BTreeMap<(EntryId, FencingToken), BootTime>,
}

impl Entries {
    fn note(&mut self, event: &Event) {
        match event.what {
            EventKind::Enqueued { entry, sent } => {
                self.enqueued.entry(entry).or_insert((sent, event.at));
            }
            EventKind::Evicted { entry, token } => {
                self.evicted.entry((entry, token)).or_insert(event.at);
            }
            _ => {}
        }
    }

    fn complete(&self, hold: &mut Hold) {
        hold.enqueued = self.enqueued.get(&hold.entry).copied();
        hold.evicted = self.evicted.get(&(hold.entry, hold.token)).copied();
        if let Some(evicted) = hold.evicted {
            hold.end(evicted);
        }
    }
}
