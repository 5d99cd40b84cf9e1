//! [`Plan`]: what a seed decides before the run begins.

use std::{collections::BTreeSet, time::Duration};

use lock_core::{
    Claim, LockName,
    testing::{Faults, SeededEntropy},
};

use crate::history::{AcquireMode, Event, History};

/// After this time there are no more faults.
pub(super) const CALM: Duration = Duration::from_secs(12);

/// The clients, their acquisitions, and the faults.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) faults: Faults,
    /// Whether entries live as long as the session of their client, and not only for their ttl.
    pub(super) sessions: bool,
    pub(super) locks: Vec<PlannedLock>,
    pub(super) clients: Vec<PlannedClient>,
    /// Ordered by time.
    pub(super) disturbances: Vec<(Duration, Disturbance)>,
}

/// A name and the claims that are used for it. The first one claims the whole lock.
#[derive(Clone, Debug)]
pub(super) struct PlannedLock {
    pub(super) name: String,
    pub(super) claims: Vec<Claim>,
}

#[derive(Debug)]
pub(super) struct PlannedClient {
    pub(super) fast_by: i32,
    pub(super) workers: Vec<Vec<Attempt>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Disturbance {
    Block(usize),
    Unblock(usize),
    Crash(usize),
    /// An operator evicts the first holder of this lock.
    Evict(usize),
}

/// One acquisition, and what to do with its guard.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) pause: Duration,
    pub(super) lock: usize,
    pub(super) claim: Claim,
    pub(super) ttl: Duration,
    pub(super) mode: AcquireMode,
    pub(super) cancel_after: Option<Duration>,
    /// Whether to wait through outages of the store.
    pub(super) patient: bool,
    pub(super) renew: bool,
    pub(super) max_hold: Option<Duration>,
    pub(super) hold: Duration,
    pub(super) end: Ending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Release,
    Drop,
    /// The guard is leaked. It is not renewed forever, so that the lock becomes free eventually.
    Leak,
}

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// One of several values, drawn at random.
fn one<T: Clone>(entropy: &SeededEntropy, of: &[T]) -> T {
    // The position is below the length.
    of[entropy.below(of.len() as u64) as usize].clone()
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let entropy = SeededEntropy::new(seed).branch();
        let sessions = entropy.chance(250);
        let per_mille = if entropy.chance(250) { 0 } else { 1 + entropy.below(300) as u32 };
        let faults = Faults {
            per_mille,
            latency: entropy.up_to(ms(3)),
            late: one(&entropy, &[ms(300), ms(1_500), ms(5_000)]),
            limit: one(&entropy, &[ms(200), ms(1_000), ms(3_000)]),
            // A create that is repeated after its answer would leave an entry forever where no ttl ends it.
            repeats: !sessions,
        };
        let locks: Vec<_> = (0..=entropy.below(3)).map(|number| lock(&entropy, number)).collect();
        let clients: Vec<_> = (0..2 + entropy.below(7)).map(|_| client(&entropy, &locks)).collect();
        let disturbances = disturbances(&entropy, clients.len(), locks.len());
        Self { faults, sessions, locks, clients, disturbances }
    }

    pub(super) fn names(&self) -> Vec<LockName> {
        let name = |lock: &PlannedLock| LockName::new(&lock.name).expect("names of a plan are names");
        self.locks.iter().map(name).collect()
    }

    pub(super) fn history(&self, events: Vec<Event>) -> History {
        // Two latencies for the leave, two for the next enter, the least time between two looks, and the ticks of timers.
        let swift = ms(30) + 6 * self.faults.latency;
        History {
            events,
            faultless: self.faults.per_mille == 0,
            sessions: self.sessions,
            late: self.faults.late + self.faults.limit,
            swift,
        }
    }

    /// The clients that crash.
    pub(super) fn crashed(&self) -> BTreeSet<usize> {
        let crashed = |(_, disturbance): &(_, Disturbance)| match disturbance {
            Disturbance::Crash(client) => Some(*client),
            _ => None,
        };
        self.disturbances.iter().filter_map(crashed).collect()
    }

    /// One acquisition of each whole lock, without a bound for waiting.
    pub(super) fn last_round(&self) -> Vec<Attempt> {
        let whole = |(number, lock): (usize, &PlannedLock)| Attempt {
            pause: Duration::ZERO,
            lock: number,
            claim: lock.claims[0],
            ttl: ms(1_000),
            mode: AcquireMode::Wait,
            cancel_after: None,
            patient: true,
            renew: true,
            max_hold: None,
            hold: Duration::ZERO,
            end: Ending::Release,
        };
        self.locks.iter().enumerate().map(whole).collect()
    }
}

fn lock(entropy: &SeededEntropy, number: u64) -> PlannedLock {
    let claims = match entropy.below(3) {
        0 => vec![Claim::mutex()],
        1 => vec![Claim::writer(), Claim::reader()],
        _ => {
            let limit = 2 + entropy.below(4) as u32;
            let portion = |permits| Claim::semaphore(permits, limit).ok();
            (1..=limit).rev().filter_map(portion).collect()
        }
    };
    PlannedLock { name: format!("lock-{number}"), claims }
}

fn client(entropy: &SeededEntropy, locks: &[PlannedLock]) -> PlannedClient {
    let fast_by = one(entropy, &[-10_000, -3_000, 0, 0, 3_000, 10_000]);
    let worker = |_| (0..2 + entropy.below(4)).map(|_| attempt(entropy, locks)).collect();
    PlannedClient { fast_by, workers: (0..=entropy.below(2)).map(worker).collect() }
}

fn attempt(entropy: &SeededEntropy, locks: &[PlannedLock]) -> Attempt {
    let number = entropy.below(locks.len() as u64) as usize;
    let ttl = one(entropy, &[ms(300), ms(600), ms(1_000), ms(2_000), ms(3_000)]);
    let end = one(entropy, &[Ending::Release, Ending::Release, Ending::Release, Ending::Drop, Ending::Leak]);
    let renew = entropy.chance(800);
    let bounded = entropy.chance(150) || (end == Ending::Leak && renew);
    Attempt {
        pause: entropy.up_to(ms(800)),
        lock: number,
        claim: one(entropy, &locks[number].claims),
        ttl,
        mode: match entropy.below(4) {
            0 => AcquireMode::Try,
            1 => AcquireMode::WaitFor(ms(50) + entropy.up_to(ms(2_000))),
            _ => AcquireMode::Wait,
        },
        cancel_after: entropy.chance(150).then(|| entropy.up_to(ms(1_500))),
        patient: entropy.chance(500),
        renew,
        max_hold: bounded.then(|| ms(100) + entropy.up_to(ms(1_500))),
        hold: entropy.up_to(ms(1_200)),
        end,
    }
}

fn disturbances(entropy: &SeededEntropy, clients: usize, locks: usize) -> Vec<(Duration, Disturbance)> {
    let mut all = Vec::new();
    let sometime = || entropy.up_to(ms(8_000));
    for client in 0..clients {
        if entropy.chance(250) {
            let from = sometime();
            // It runs again before the faults end.
            let to = from + ms(100) + entropy.up_to(CALM.saturating_sub(from + ms(200)).min(ms(4_000)));
            all.extend([(from, Disturbance::Block(client)), (to, Disturbance::Unblock(client))]);
        } else if client > 0 && entropy.chance(150) {
            all.push((sometime(), Disturbance::Crash(client)));
        }
    }
    if entropy.chance(150) {
        all.extend((0..3).map(|_| (sometime(), Disturbance::Evict(entropy.below(locks as u64) as usize))));
    }
    all.sort_by_key(|(at, _)| *at);
    all
}
