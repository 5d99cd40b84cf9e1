//! [`Turn`]: what one system did in one turn.

use std::{collections::BTreeMap, time::Duration};

use super::{
    contest::Contest,
    driver::now,
    peer::Peer,
    protocol::{Contend, Grant, Kind, Order, Pairs, Reply},
    record::Figures,
    scenario::{Schedule, Work},
};
use crate::Result;

/// Figures, and what was seen on the way.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub(crate) figures: Figures,
    /// In nanoseconds.
    pub(crate) latencies: Vec<u64>,
    pub(crate) marks: Vec<String>,
}

/// So long everybody keeps the lock where the latency of hand-offs is measured, so that all others wait by then.
const HOLD: Duration = Duration::from_millis(1);

/// Of so many contenders of [`Work::Shared`]; the first of them write.
const SHARERS: usize = 32;
const WRITERS: usize = 2;

/// A contest for one lock: what, among whom, and how long everybody keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) kind: Kind,
    pub(crate) contenders: usize,
    pub(crate) hold: Duration,
}

/// One turn of those kinds of work that are done in rounds.
pub(crate) async fn turn(work: Work, team: &mut [Peer], name: &str, schedule: &Schedule) -> Result<Turn> {
    match work {
        Work::Pairs { tasks } => pairs(team, name, tasks, schedule).await,
        Work::HandOff { contenders, .. } => {
            let rules = Rules { kind: Kind::Mutex, contenders, hold: HOLD };
            let mut turn = contest(team, name, rules, schedule).await?;
            // Their rate, where nobody keeps it.
            let quick = Rules { hold: Duration::ZERO, ..rules };
            let rate = contest(team, &format!("{name}-rate"), quick, schedule).await?;
            turn.figures.extend(rate.figures.into_iter().filter(|(figure, _)| figure == "per_s"));
            turn.marks.extend(rate.marks);
            Ok(turn)
        }
        Work::Shared { kind } => {
            contest(team, name, Rules { kind, contenders: SHARERS, hold: HOLD }, schedule).await
        }
        Work::Costs { .. } | Work::Takeover | Work::Held { .. } => Err("it is not done in rounds".into()),
    }
}

async fn pairs(team: &mut [Peer], name: &str, tasks: usize, schedule: &Schedule) -> Result<Turn> {
    let run_ms = u64::try_from(schedule.turn.as_millis())?;
    let order = Order::Pairs(Pairs { name: name.to_owned(), tasks, run_ms, count: 0 });
    let peer = team.first_mut().ok_or("nobody there")?;
    let Reply::Pairs { count, ns, latencies } = peer.ask(&order, schedule.turn + schedule.patience).await?
    else {
        return Err("its driver answered something else than pairs".into());
    };
    let per_s = count as f64 / Duration::from_nanos(ns.max(1)).as_secs_f64();
    let mut figures = percentiles(&latencies);
    figures.insert("per_s".to_owned(), per_s);
    Ok(Turn { figures, latencies, marks: Vec::new() })
}

/// All processes of a system contend for one lock.
pub(crate) async fn contest(
    team: &mut [Peer],
    name: &str,
    rules: Rules,
    schedule: &Schedule,
) -> Result<Turn> {
    let processes = team.len();
    // Until all know their order, and have made their locks.
    let start = Duration::from_millis(60) + Duration::from_micros(500) * u32::try_from(rules.contenders)?;
    let start_ns = now() + u64::try_from(start.as_nanos())?;
    let until_ns = start_ns + u64::try_from(schedule.turn.as_nanos())?;
    for (process, peer) in team.iter_mut().enumerate() {
        peer.tell(&Order::Contend(Contend {
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
    let (mut grants, mut passed, mut lost) = (Vec::new(), Vec::new(), 0);
    for peer in team {
        match peer.reply(start + schedule.turn + schedule.patience).await? {
            Reply::Contended { grants: some, lost: of_them } => {
                grants.extend(some);
                lost += of_them;
            }
            Reply::Passed { latencies } => passed.extend(latencies),
            _ => return Err("its driver answered something else than tenures".into()),
        }
    }
    if passed.is_empty() { Ok(judged(&grants, rules, lost)) } else { Ok(relayed(passed, schedule)) }
}

/// A floor's messages.
fn relayed(latencies: Vec<u64>, schedule: &Schedule) -> Turn {
    let mut figures = percentiles(&latencies);
    figures.insert("per_s".to_owned(), latencies.len() as f64 / schedule.turn.as_secs_f64());
    figures.insert("tenures".to_owned(), latencies.len() as f64);
    Turn { figures, latencies, marks: Vec::new() }
}

fn judged(grants: &[Grant], rules: Rules, lost: u64) -> Turn {
    let contest = Contest::new(grants, rules.contenders);
    let hand_offs = contest.hand_offs().into_iter().filter_map(|one| u64::try_from(one.as_nanos()).ok());
    let latencies: Vec<u64> = if rules.kind == Kind::Mutex { hand_offs.collect() } else { Vec::new() };
    let mut figures = percentiles(&latencies);
    let fairness = contest.fairness();
    let mut put = |name: &str, value: f64| figures.insert(name.to_owned(), value);
    put("tenures", contest.len() as f64);
    put("jain", fairness.jain);
    put("overtaken", fairness.overtaken as f64);
    put("own_percent", fairness.own);
    put("starved", fairness.starved as f64);
    if let Some(rate) = contest.changes_per_second() {
        put("per_s", rate);
    }
    let mut marks = Vec::new();
    if contest.overlaps(rules.kind) > 0 {
        marks.push("OVERLAP: two had it at once who may not".to_owned());
    }
    if lost > 0 {
        marks.push("LOST a lock that was held".to_owned());
    }
    Turn { figures, latencies, marks }
}

fn percentiles(latencies: &[u64]) -> Figures {
    let at = distribution(latencies, &[50.0, 99.0]);
    at.into_iter()
        .zip(["p50_us", "p99_us"])
        .map(|((_, value), name)| (name.to_owned(), value))
        .collect::<BTreeMap<_, _>>()
}

/// Of nanoseconds, in microseconds: so many percent are no longer. Empty if there are none.
pub(crate) fn distribution(latencies: &[u64], percents: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    let Some(last) = sorted.len().checked_sub(1) else { return Vec::new() };
    let at = |percent: f64| {
        let place = (percent / 100.0 * last as f64).round();
        #[allow(clippy::cast_sign_loss, reason = "percents are not negative")]
        let value = sorted[(place as usize).min(last)];
        (percent, value as f64 / 1000.0)
    };
    percents.iter().copied().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_in_which_two_hold_a_lock_at_once_is_marked() {
        let rules = Rules { kind: Kind::Mutex, contenders: 2, hold: HOLD };
        let clean = [Grant(0, 0, 10, 1_000, 0), Grant(1, 5, 1_500, 2_000, 0)];
        let turn = judged(&clean, rules, 0);
        assert_eq!((turn.latencies.as_slice(), turn.marks.len()), ([500].as_slice(), 0));
        let overlapping = [Grant(0, 0, 10, 1_000, 0), Grant(1, 5, 999, 2_000, 0)];
        assert!(judged(&overlapping, rules, 0).marks[0].starts_with("OVERLAP"));
        assert!(judged(&clean, rules, 1).marks[0].starts_with("LOST"));
    }

    #[test]
    fn a_distribution_is_in_microseconds_and_empty_without_latencies() {
        let latencies: Vec<u64> = (0..=100).map(|i| i * 1000).collect();
        assert_eq!(distribution(&latencies, &[0.0, 50.0, 100.0]), [(0.0, 0.0), (50.0, 50.0), (100.0, 100.0)]);
        assert!(distribution(&[], &[50.0]).is_empty());
    }
}
