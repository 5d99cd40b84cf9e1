//! `handoff`: the time from the call of `release` until the next waiter has its guard, against the time from the call of
//! `PUBLISH` to the receipt, and on etcd to the answer to the read that has to follow; and hand-offs per second, against messages
//! that are sent on at once.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{Bench, Bound, Figure, Measurement, Outcome, Plan, RowSpec};
use crate::{
    contenders::Grant,
    counting_backend::CountingBackend,
    error::Result,
    samples::{Rounds, Samples},
    store::{ForwardingRound, MessageLatency, StoreKind},
    timestamp::Timestamp,
    worker::{Command, Reply},
    workers::Workers,
};

pub(super) struct HandOff {
    group: &'static str,
    /// In this process, or in so many others, between which the places in the queue alternate.
    processes: Option<usize>,
    waiters: &'static [usize],
    /// Whether the store is written to all the time.
    under_load: bool,
}

/// For latencies, how long a lock or a message is kept before it goes on: until all others wait again.
const HOLD: Duration = Duration::from_millis(3);

impl HandOff {
    pub(super) const IN_PROCESS: Self =
        Self { group: "handoff", processes: None, waiters: &[1, 10, 100, 1000], under_load: false };
    pub(super) const BETWEEN_PROCESSES: Self =
        Self { group: "handoff-processes", processes: Some(4), ..Self::IN_PROCESS };
    pub(super) const UNDER_LOAD: Self =
        Self { group: "handoff-busy", waiters: &[1], under_load: true, ..Self::IN_PROCESS };

    fn group(&self, waiters: usize) -> String {
        format!("{}.{waiters}", self.group)
    }

    /// How long a hand-off may take, as a multiple of its floor.
    fn bound(&self, store: StoreKind) -> Bound {
        if store.is_sqlite() {
            // SQLite has no messages to compare with.
            return Bound::ValueAtMost(2000.0);
        }
        Bound::RatioAtMost(match (store.is_etcd() || store.is_zk(), self.under_load) {
            (false, _) => 1.4,
            (true, false) => 1.3,
            (true, true) => 2.0,
        })
    }

    async fn measure(&self, bench: &Bench, waiters: usize) -> Result<Vec<Figure>> {
        let group = self.group(waiters);
        let mut workers = match self.processes {
            None => {
                Workers::in_process(Arc::clone(&bench.store), CountingBackend::new(bench.store.backend()?))
            }
            Some(processes) => Workers::start(&*bench.store, processes.min(waiters + 1))?,
        };
        set_up(&mut workers, &group, waiters).await?;
        // Connects, and makes scripts known.
        floor_and_ours(&mut workers, true, HOLD, Plan::ROUND / 2).await?;

        let (mut p50, mut rate, mut all) = (Rounds::default(), Rounds::default(), Rounds::default());
        let mut event = Rounds::default();
        let (mut latencies, mut floors) = (Samples::default(), Samples::default());
        for round in bench.rounds(&group) {
            let floor_first = round.is_multiple_of(2);
            let (floor, grants) = floor_and_ours(&mut workers, floor_first, HOLD, Plan::ROUND).await?;
            let ours = handed_over(&grants)?;
            // On a busy machine a round may end before the first hand-off.
            if ours.len() > 0 {
                let median = |floor: &Samples| (floor.len() > 0).then(|| floor.percentile(50.0));
                p50.push(ours.percentile(50.0), median(&floor.certain));
                event.push(ours.percentile(50.0), median(&floor.received));
                latencies.add(&ours);
                floors.add(&floor.certain);
            }
            let (floor, grants) =
                floor_and_ours(&mut workers, floor_first, Duration::ZERO, Plan::ROUND / 2).await?;
            if let Some((hand_offs, granted)) = per_second(&grants)? {
                let messages = floor.certain.len() as f64 / (Plan::ROUND / 2).as_secs_f64();
                let messages = (floor.certain.len() > 0).then_some(messages);
                rate.push(hand_offs, messages);
                all.push(granted, messages);
            }
        }
        if p50.is_empty() || rate.is_empty() {
            return Err(format!("{group}: nothing was handed over").into());
        }
        workers.tell_all(|_| Command::Finish).await?;
        Ok(vec![
            Figure::over(format!("{group}.p50"), &p50),
            Figure::over(format!("{group}.event"), &event),
            Figure::p99(format!("{group}.p99"), &latencies, &floors),
            Figure::over(format!("{group}.rate"), &rate),
            Figure::over(format!("{group}.grants"), &all),
        ])
    }
}

#[async_trait]
impl Measurement for HandOff {
    fn rows(&self, store: StoreKind) -> Vec<RowSpec> {
        let rows = |waiters: &usize| {
            let group = self.group(*waiters);
            let row = |what: &str, unit| RowSpec::new(format!("{group}.{what}"), unit);
            let mut rows = vec![row("p50", "us").bound(self.bound(store))];
            // Elsewhere the event is the floor.
            rows.extend(store.is_etcd().then(|| row("event", "us")));
            rows.extend([row("p99", "us"), row("rate", "handoffs/s"), row("grants", "grants/s")]);
            rows
        };
        self.waiters.iter().flat_map(rows).collect()
    }

    fn is_quick(&self) -> bool {
        true
    }

    async fn run(&self, bench: &Bench) -> Result<Outcome> {
        if self.processes.is_some() && bench.store.address().is_none() {
            return Ok(Outcome::NotPossible("other processes cannot reach this store"));
        }
        let writes = if self.under_load { bench.store.background_writes().await? } else { None };
        if self.under_load && writes.is_none() {
            return Ok(Outcome::NotPossible("what others write makes no difference to this store"));
        }
        let mut figures = Vec::new();
        for waiters in self.waiters.iter().copied() {
            if bench.plan.wants(&self.group(waiters)) {
                figures.extend(self.measure(bench, waiters).await?);
            }
        }
        Ok(Outcome::Measured(figures))
    }
}

/// A holder and so many waiters, whose places in the queue alternate between the processes; and a chain of messages
/// through the same processes.
async fn set_up(workers: &mut Workers, group: &str, waiters: usize) -> Result<()> {
    let size = workers.len();
    let channel = |i: usize| format!("bench:{group}:{}", i % size);
    workers.tell_all(|i| Command::Listen { from: channel(i), to: channel(i + 1) }).await?;
    workers.tell_all(|_| Command::Contend { name: format!("bench:{group}") }).await?;
    for contender in 0..=waiters {
        workers.tell(contender, Command::Join).await?;
    }
    Ok(())
}

/// How long the messages of one round took.
struct Floor {
    /// Until their receivers knew all that a waiter has to know.
    certain: Samples,
    /// Until they were received.
    received: Samples,
}

/// Measures the floor and our locks, alternately one or the other first.
async fn floor_and_ours(
    workers: &mut Workers,
    floor_first: bool,
    hold: Duration,
    length: Duration,
) -> Result<(Floor, Vec<Grant>)> {
    if floor_first {
        let floor = forward(workers, hold, length).await?;
        Ok((floor, contend(workers, hold, length).await?))
    } else {
        let ours = contend(workers, hold, length).await?;
        Ok((forward(workers, hold, length).await?, ours))
    }
}

async fn forward(workers: &mut Workers, hold: Duration, length: Duration) -> Result<Floor> {
    let until = Timestamp::now().plus(length);
    let replies =
        workers.tell_all(|i| Command::Forward(ForwardingRound { first: i == 0, hold, until })).await?;
    let latencies = replies.into_iter().map(|reply| match reply {
        Reply::Latencies(latencies) => Ok(latencies),
        other => Err(format!("a chain of messages was answered by {other:?}").into()),
    });
    let latencies: Vec<MessageLatency> =
        latencies.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    Ok(Floor {
        certain: latencies.iter().map(|latency| latency.certain).collect(),
        received: latencies.iter().map(|latency| latency.received).collect(),
    })
}

/// All grants of all processes, in the order of the queue.
async fn contend(workers: &mut Workers, hold: Duration, length: Duration) -> Result<Vec<Grant>> {
    let mut grants = Vec::new();
    for reply in workers.tell_all(|_| Command::Run { hold, length }).await? {
        match reply {
            Reply::Grants(some) => grants.extend(some),
            other => return Err(format!("contenders were answered by {other:?}").into()),
        }
    }
    grants.sort_by_key(|grant| grant.token);
    Ok(grants)
}

/// The latencies of hand-offs. A grant of a lock that was free is not a hand-off: its holder came late.
fn handed_over(grants: &[Grant]) -> Result<Samples> {
    let mut samples = Samples::default();
    for pair in grants.windows(2) {
        let [before, after] = pair else { continue };
        if after.granted < before.released {
            return Err(format!("tokens {} and {} held at once", before.token, after.token).into());
        }
        if after.handed {
            samples.record(after.granted.since(before.released));
        }
    }
    Ok(samples)
}

/// Hand-offs per second, and grants per second, which include grants of a lock that was free. `None` without a hand-off.
fn per_second(grants: &[Grant]) -> Result<Option<(f64, f64)>> {
    let handed = handed_over(grants)?.len();
    let (Some(first), Some(last)) = (grants.first(), grants.last()) else { return Ok(None) };
    let time = last.granted.since(first.released).as_secs_f64();
    let granted = (grants.len() - 1) as f64;
    Ok((handed > 0).then(|| (handed as f64 / time, granted / time)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(token: u64, granted: u64, released: u64) -> Grant {
        Grant { token, handed: true, granted: Timestamp(granted), released: Timestamp(released) }
    }

    #[test]
    fn a_hand_off_lasts_from_the_release_to_the_next_grant() {
        let samples = handed_over(&[grant(1, 0, 1_000), grant(2, 51_000, 60_000), grant(3, 110_000, 0)]);
        let samples = samples.unwrap();
        assert_eq!(samples.len(), 2);
        assert!((samples.percentile(50.0) - 50.0).abs() < 0.1);
    }

    #[test]
    fn a_lock_that_was_found_free_is_no_hand_off() {
        let found_free = Grant { handed: false, ..grant(2, 51_000, 60_000) };
        assert_eq!(handed_over(&[grant(1, 0, 1_000), found_free]).unwrap().len(), 0);
    }

    #[test]
    fn all_grants_are_counted_beside_those_that_were_handed_over() {
        let free = Grant { handed: false, ..grant(2, 200_000_000, 500_000_000) };
        let rates = per_second(&[grant(1, 0, 0), free, grant(3, 1_000_000_000, 0)]).unwrap();
        assert_eq!(rates, Some((1.0, 2.0)));
    }

    #[test]
    fn two_holders_at_once_are_not_taken_for_a_quick_hand_off() {
        let error = handed_over(&[grant(1, 0, 1_000), grant(2, 999, 2_000)]).unwrap_err();
        assert_eq!(error.to_string(), "tokens 1 and 2 held at once");
    }
}
