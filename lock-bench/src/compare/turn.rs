//! [`run_turn`]: one turn of one system, and [`TurnResult`]: what was measured.

use std::time::Duration;

use super::{
    analysis::Analysis,
    results::Figures,
    scenario::{Schedule, Work},
};
use crate::{
    drivers::{
        DriverProcess, PairsTaken, now,
        protocol::{Contend, Grant, Kind, Pairs, Request, Response},
    },
    error::Result,
    samples::Samples,
};

/// The figures of a turn, and what was wrong.
#[derive(Debug, Default)]
pub(crate) struct TurnResult {
    pub(crate) figures: Figures,
    pub(crate) latencies: Samples,
    pub(crate) marks: Vec<String>,
}

/// How long a holder keeps the lock where the latency of hand-offs is measured: until all others wait.
const HOLD: Duration = Duration::from_millis(1);

/// The contenders of [`Work::Shared`], and how many of them write.
const SHARERS: usize = 32;
const WRITERS: usize = 2;

/// How contenders contend for one lock: its kind, their number, and how long a holder keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContentionRules {
    pub(crate) kind: Kind,
    pub(crate) contenders: usize,
    pub(crate) hold: Duration,
}

/// Runs one turn of a scenario that is run in rounds.
pub(crate) async fn run_turn(
    work: Work,
    team: &mut [DriverProcess],
    name: &str,
    schedule: &Schedule,
) -> Result<TurnResult> {
    match work {
        Work::Pairs { tasks } => pairs(team, name, tasks, schedule).await,
        Work::HandOff { contenders, .. } => {
            let rules = ContentionRules { kind: Kind::Mutex, contenders, hold: HOLD };
            let mut turn = contend(team, name, rules, schedule).await?;
            // The rate is that of holders that do not keep the lock.
            let quick = ContentionRules { hold: Duration::ZERO, ..rules };
            let rate = contend(team, &format!("{name}-rate"), quick, schedule).await?;
            turn.figures.extend(rate.figures.into_iter().filter(|(figure, _)| figure == "per_s"));
            turn.marks.extend(rate.marks);
            Ok(turn)
        }
        Work::Shared { kind } => {
            contend(team, name, ContentionRules { kind, contenders: SHARERS, hold: HOLD }, schedule).await
        }
        Work::Costs { .. } | Work::Takeover | Work::Held { .. } => Err("it is not done in rounds".into()),
    }
}

async fn pairs(
    team: &mut [DriverProcess],
    name: &str,
    tasks: usize,
    schedule: &Schedule,
) -> Result<TurnResult> {
    let run_ms = u64::try_from(schedule.turn.as_millis())?;
    let request = Request::Pairs(Pairs { name: name.to_owned(), tasks, run_ms, count: 0 });
    let driver = team.first_mut().ok_or("no driver runs")?;
    let response = driver.ask(&request, schedule.turn + schedule.grace).await?;
    let PairsTaken { latencies, per_s, .. } = PairsTaken::of(response)?;
    let mut figures = percentiles(&latencies);
    figures.insert("per_s".to_owned(), per_s);
    Ok(TurnResult { figures, latencies, marks: Vec::new() })
}

/// All processes of a system contend for one lock.
pub(crate) async fn contend(
    team: &mut [DriverProcess],
    name: &str,
    rules: ContentionRules,
    schedule: &Schedule,
) -> Result<TurnResult> {
    let processes = team.len();
    // By then all drivers have their request and have made their locks.
    let start = Duration::from_millis(60) + Duration::from_micros(500) * u32::try_from(rules.contenders)?;
    let start_ns = now() + u64::try_from(start.as_nanos())?;
    let until_ns = start_ns + u64::try_from(schedule.turn.as_nanos())?;
    for (process, driver) in team.iter_mut().enumerate() {
        driver
            .tell(&Request::Contend(Contend {
                name: name.to_owned(),
                kind: rules.kind,
                tasks: rules.contenders / processes + usize::from(process < rules.contenders % processes),
                writers: WRITERS,
                process,
                processes,
                hold_us: u64::try_from(rules.hold.as_micros())?,
                start_ns,
                until_ns,
            }))
            .await?;
    }
    let (mut grants, mut passed, mut lost) = (Vec::new(), Samples::default(), 0);
    for driver in team {
        match driver.response(start + schedule.turn + schedule.grace).await? {
            Response::Contended { grants: some, lost: of_them } => {
                grants.extend(some);
                lost += of_them;
            }
            Response::Passed { latencies, .. } => passed.0.extend(latencies),
            _ => return Err("its driver did not answer with tenures".into()),
        }
    }
    Ok(if passed.len() == 0 { lock_turn(&grants, rules, lost) } else { message_turn(passed, schedule) })
}

/// The figures of a floor: of its messages.
fn message_turn(latencies: Samples, schedule: &Schedule) -> TurnResult {
    let mut figures = percentiles(&latencies);
    figures.insert("per_s".to_owned(), latencies.len() as f64 / schedule.turn.as_secs_f64());
    figures.insert("tenures".to_owned(), latencies.len() as f64);
    TurnResult { figures, latencies, marks: Vec::new() }
}

/// The figures of a lock.
fn lock_turn(grants: &[Grant], rules: ContentionRules, lost: u64) -> TurnResult {
    let analysis = Analysis::new(grants, rules.contenders);
    let latencies: Samples = analysis.hand_offs().into_iter().filter(|_| rules.kind == Kind::Mutex).collect();
    let mut figures = percentiles(&latencies);
    let fairness = analysis.fairness();
    let mut put = |name: &str, value: f64| figures.insert(name.to_owned(), value);
    put("tenures", analysis.len() as f64);
    put("jain", fairness.jain);
    put("overtaken", fairness.overtaken as f64);
    put("own_percent", fairness.own);
    put("starved", fairness.starved as f64);
    if let Some(rate) = analysis.changes_per_second() {
        put("per_s", rate);
    }
    let mut marks = Vec::new();
    if analysis.overlaps(rules.kind) > 0 {
        marks.push("OVERLAP: two had it at once who may not".to_owned());
    }
    if lost > 0 {
        marks.push("LOST a lock that was held".to_owned());
    }
    TurnResult { figures, latencies, marks }
}

fn percentiles(latencies: &Samples) -> Figures {
    let at = latencies.distribution(&[50.0, 99.0]);
    at.into_iter().zip(["p50_us", "p99_us"]).map(|((_, value), name)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_in_which_two_hold_a_lock_at_once_is_marked() {
        let rules = ContentionRules { kind: Kind::Mutex, contenders: 2, hold: HOLD };
        let clean = [Grant(0, 0, 10, 1_000, 0), Grant(1, 5, 1_500, 2_000, 0)];
        let turn = lock_turn(&clean, rules, 0);
        assert_eq!((turn.latencies.0.as_slice(), turn.marks.len()), ([500].as_slice(), 0));
        let overlapping = [Grant(0, 0, 10, 1_000, 0), Grant(1, 5, 999, 2_000, 0)];
        assert!(lock_turn(&overlapping, rules, 0).marks[0].starts_with("OVERLAP"));
        assert!(lock_turn(&clean, rules, 1).marks[0].starts_with("LOST"));
    }
}
