//! `handoff`: the time from the call of `release` until the next waiter has its guard, against the time from the call of
//! `PUBLISH` to the receipt, and on etcd to the answer to the read that has to follow; and hand-offs per second, against messages
//! that are sent on at once.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::{Bench, Bound, Measurement, Outcome, Plan, RowFigures, RowSpec};
use crate::{
    drivers::{
        Driver, DriverProcess, LONG_TTL,
        protocol::{Request, Response, Tenure},
    },
    error::Result,
    samples::Samples,
    store::StoreKind,
    timestamp::Timestamp,
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

    async fn team(&self, bench: &Bench, waiters: usize) -> Result<Team> {
        let mut team = Team(Vec::new());
        match self.processes {
            None => team.0.push(Box::new(bench.ours()?)),
            Some(processes) => {
                for _ in 0..processes.min(waiters + 1) {
                    team.0.push(Box::new(DriverProcess::own(&*bench.store, LONG_TTL).await?));
                }
            }
        }
        Ok(team)
    }

    async fn measure(&self, bench: &Bench, waiters: usize, figures: &mut RowFigures) -> Result<()> {
        let group = self.group(waiters);
        let [p50, event, rate, grants] =
            ["p50", "event", "rate", "grants"].map(|row| format!("{group}.{row}"));
        let mut team = self.team(bench, waiters).await?;
        team.set_up(&group, waiters).await?;
        // Connects, and makes scripts known.
        team.floor_and_ours(true, HOLD, Plan::ROUND / 2).await?;

        for round in bench.rounds(&group) {
            let floor_first = round.is_multiple_of(2);
            let (floor, tenures) = team.floor_and_ours(floor_first, HOLD, Plan::ROUND).await?;
            let ours = handed_over(&tenures)?;
            // On a busy machine a round may end before the first hand-off.
            if ours.len() > 0 {
                figures.latencies(&group, &ours, Some(&floor.certain));
                let received = (floor.received.len() > 0).then(|| floor.received.percentile(50.0));
                figures.value(&event, ours.percentile(50.0), received);
            }
            let (floor, tenures) = team.floor_and_ours(floor_first, Duration::ZERO, Plan::ROUND / 2).await?;
            if let Some((hand_offs, granted)) = per_second(&tenures)? {
                let messages = floor.certain.len() as f64 / (Plan::ROUND / 2).as_secs_f64();
                let messages = Some(messages).filter(|messages| *messages > 0.0);
                figures.value(&rate, hand_offs, messages);
                figures.value(&grants, granted, messages);
            }
        }
        if figures.find(&p50).is_none() || figures.find(&rate).is_none() {
            return Err(format!("{group}: nothing was handed over").into());
        }
        team.ask_all(|_| Request::Disband {}).await?;
        Ok(())
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

    async fn run(&self, bench: &Bench) -> Result<Outcome> {
        if self.processes.is_some() && bench.store.address().is_none() {
            return Ok(Outcome::NotPossible("other processes cannot reach this store"));
        }
        let writes = if self.under_load { bench.store.background_writes().await? } else { None };
        if self.under_load && writes.is_none() {
            return Ok(Outcome::NotPossible("what others write makes no difference to this store"));
        }
        let mut figures = RowFigures::default();
        for waiters in self.waiters.iter().copied() {
            if bench.plan.wants(&self.group(waiters)) {
                self.measure(bench, waiters, &mut figures).await?;
            }
        }
        Ok(Outcome::Measured(figures))
    }
}

/// The drivers of all processes.
struct Team(Vec<Box<dyn Driver>>);

/// How long the messages of one round took.
#[derive(Default)]
struct Messages {
    /// Until their receivers knew all that a waiter has to know.
    certain: Samples,
    /// Until they were received.
    received: Samples,
}

impl Team {
    /// A holder and so many waiters, whose places in the queue alternate between the processes; and a chain of messages
    /// through the same processes.
    async fn set_up(&mut self, group: &str, waiters: usize) -> Result<()> {
        let size = self.0.len();
        let channel = |i: usize| format!("bench:{group}:{}", i % size);
        self.ask_all(|i| Request::Listen { from: channel(i), to: channel(i + 1) }).await?;
        for contender in 0..=waiters {
            self.0[contender % size].handle(Request::Join { name: format!("bench:{group}") }).await?;
        }
        Ok(())
    }

    /// Measures the floor and our locks, alternately one or the other first.
    async fn floor_and_ours(
        &mut self,
        floor_first: bool,
        hold: Duration,
        length: Duration,
    ) -> Result<(Messages, Vec<Tenure>)> {
        if floor_first {
            let floor = self.pass_on(hold, length).await?;
            Ok((floor, self.take_turns(hold, length).await?))
        } else {
            let ours = self.take_turns(hold, length).await?;
            Ok((self.pass_on(hold, length).await?, ours))
        }
    }

    async fn pass_on(&mut self, hold: Duration, length: Duration) -> Result<Messages> {
        let (hold_us, Timestamp(until_ns)) = (hold.as_micros() as u64, Timestamp::now().plus(length));
        let mut messages = Messages::default();
        for response in self.ask_all(|i| Request::PassOn { first: i == 0, hold_us, until_ns }).await? {
            let Response::Passed { latencies, received } = response else {
                return Err("a driver does not tell how long its messages took".into());
            };
            messages.certain.0.extend(latencies);
            messages.received.0.extend(received);
        }
        Ok(messages)
    }

    /// All tenures of all processes, in the order of the queue.
    async fn take_turns(&mut self, hold: Duration, length: Duration) -> Result<Vec<Tenure>> {
        let (hold_us, run_ms) = (hold.as_micros() as u64, length.as_millis() as u64);
        let mut tenures = Vec::new();
        for response in self.ask_all(|_| Request::TakeTurns { hold_us, run_ms }).await? {
            let Response::Tenures(some) = response else {
                return Err("a driver does not tell when its contenders had the lock".into());
            };
            tenures.extend(some);
        }
        tenures.sort_by_key(|tenure| tenure.token);
        Ok(tenures)
    }

    /// Sends each a request of its own, all at once.
    async fn ask_all(&mut self, request: impl Fn(usize) -> Request) -> Result<Vec<Response>> {
        try_join_all(self.0.iter_mut().enumerate().map(|(i, driver)| driver.handle(request(i)))).await
    }
}

/// The latencies of hand-offs. A grant of a lock that was free is not a hand-off: its holder came late.
fn handed_over(tenures: &[Tenure]) -> Result<Samples> {
    let mut samples = Samples::default();
    for pair in tenures.windows(2) {
        let [before, after] = pair else { continue };
        if after.granted_ns < before.released_ns {
            return Err(format!("tokens {} and {} held at once", before.token, after.token).into());
        }
        if after.handed {
            samples.0.push(after.granted_ns - before.released_ns);
        }
    }
    Ok(samples)
}

/// Hand-offs per second, and grants per second, which include grants of a lock that was free. `None` without a hand-off.
fn per_second(tenures: &[Tenure]) -> Result<Option<(f64, f64)>> {
    let handed = handed_over(tenures)?.len();
    let (Some(first), Some(last)) = (tenures.first(), tenures.last()) else { return Ok(None) };
    let time = Timestamp(last.granted_ns).since(Timestamp(first.released_ns)).as_secs_f64();
    let granted = (tenures.len() - 1) as f64;
    Ok((handed > 0).then(|| (handed as f64 / time, granted / time)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenure(token: u64, granted_ns: u64, released_ns: u64) -> Tenure {
        Tenure { token, handed: true, granted_ns, released_ns }
    }

    #[test]
    fn a_hand_off_lasts_from_the_release_to_the_next_grant() {
        let samples = handed_over(&[tenure(1, 0, 1_000), tenure(2, 51_000, 60_000), tenure(3, 110_000, 0)]);
        let samples = samples.unwrap();
        assert_eq!(samples.len(), 2);
        assert!((samples.percentile(50.0) - 50.0).abs() < 0.1);
    }

    #[test]
    fn a_lock_that_was_found_free_is_no_hand_off() {
        let found_free = Tenure { handed: false, ..tenure(2, 51_000, 60_000) };
        assert_eq!(handed_over(&[tenure(1, 0, 1_000), found_free]).unwrap().len(), 0);
    }

    #[test]
    fn all_grants_are_counted_beside_those_that_were_handed_over() {
        let free = Tenure { handed: false, ..tenure(2, 200_000_000, 500_000_000) };
        let rates = per_second(&[tenure(1, 0, 0), free, tenure(3, 1_000_000_000, 0)]).unwrap();
        assert_eq!(rates, Some((1.0, 2.0)));
    }

    #[test]
    fn two_holders_at_once_are_not_taken_for_a_quick_hand_off() {
        let error = handed_over(&[tenure(1, 0, 1_000), tenure(2, 999, 2_000)]).unwrap_err();
        assert_eq!(error.to_string(), "tokens 1 and 2 held at once");
    }
}
