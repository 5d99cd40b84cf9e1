//! [`Analysis`]: what the tenures of all contenders for one lock tell: hand-offs, fairness and overlaps.

use std::{collections::BTreeMap, time::Duration};

use crate::drivers::{
    PERMITS,
    protocol::{Grant, Kind},
};

/// The tenures of all processes, in the order in which they began.
#[derive(Debug)]
pub(crate) struct Analysis {
    tenures: Vec<Tenure>,
    contenders: usize,
}

#[derive(Clone, Copy, Debug)]
struct Tenure {
    task: u32,
    asked: u64,
    acquired: u64,
    released: u64,
    shared: bool,
}

/// How evenly the contenders got the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fairness {
    /// Jain's index, divided by the largest one that is possible with so many tenures: 1 if the counts of any two contenders differ
    /// by one at most, 1/n if one of n contenders got every tenure.
    pub(crate) jain: f64,
    /// The most contenders that asked later than another one but got the lock before it.
    pub(crate) overtaken: usize,
    /// The percentage of releases after which the same contender got the lock again.
    pub(crate) own: f64,
    /// Contenders that never got the lock.
    pub(crate) starved: usize,
}

impl Analysis {
    pub(crate) fn new(grants: &[Grant], contenders: usize) -> Self {
        let tenure = |&Grant(task, asked, acquired, released, shared): &Grant| Tenure {
            task,
            asked,
            acquired,
            released,
            shared: shared != 0,
        };
        let mut tenures: Vec<Tenure> = grants.iter().map(tenure).collect();
        tenures.sort_by_key(|tenure| (tenure.acquired, tenure.released));
        Self { tenures, contenders }
    }

    pub(crate) fn len(&self) -> usize {
        self.tenures.len()
    }

    /// How many tenures began while others that exclude them were going on. A tenure lasts from the return of its acquire to
    /// the call of its release, so that an overlap is certain.
    pub(crate) fn overlaps(&self, kind: Kind) -> usize {
        let mut going_on: Vec<Tenure> = Vec::new();
        let mut overlaps = 0;
        for &tenure in &self.tenures {
            going_on.retain(|other| other.released > tenure.acquired);
            let allowed = match kind {
                Kind::Mutex => going_on.is_empty(),
                Kind::Rw => going_on.iter().all(|other| other.shared && tenure.shared),
                Kind::Semaphore => going_on.len() < PERMITS,
            };
            overlaps += usize::from(!allowed);
            going_on.push(tenure);
        }
        overlaps
    }

    /// The times from the call of a release until another contender, which was waiting by then, had the lock.
    pub(crate) fn hand_offs(&self) -> Vec<Duration> {
        let handed = |pair: &[Tenure]| match pair {
            [before, after] if after.task != before.task && after.asked < before.released => {
                Some(Duration::from_nanos(after.acquired.saturating_sub(before.released)))
            }
            _ => None,
        };
        self.tenures.windows(2).filter_map(handed).collect()
    }

    /// How often per second the lock went to another contender. `None` if it never did.
    pub(crate) fn changes_per_second(&self) -> Option<f64> {
        let changes = self.tenures.windows(2).filter(|pair| pair[0].task != pair[1].task).count();
        let time = self.tenures.last()?.acquired.saturating_sub(self.tenures.first()?.acquired);
        (changes > 0 && time > 0).then(|| changes as f64 / Duration::from_nanos(time).as_secs_f64())
    }

    pub(crate) fn fairness(&self) -> Fairness {
        let mut tenures = BTreeMap::<u32, f64>::new();
        for tenure in &self.tenures {
            *tenures.entry(tenure.task).or_default() += 1.0;
        }
        let squares: f64 = tenures.values().map(|n| n * n).sum();
        let pairs = self.tenures.len().saturating_sub(1).max(1);
        let own = self.tenures.windows(2).filter(|pair| pair[0].task == pair[1].task).count();
        Fairness {
            jain: if squares > 0.0 { self.fewest_squares() / squares } else { 0.0 },
            overtaken: self.overtaken(),
            own: 100.0 * own as f64 / pairs as f64,
            starved: self.contenders.saturating_sub(tenures.len()),
        }
    }

    /// The smallest possible sum of squares for so many tenures. It is not that of equal shares, because the time mostly ends
    /// within a lap of the queue. Jain's index is proportional to one over the sum of squares, so this is enough to compare two.
    fn fewest_squares(&self) -> f64 {
        let (each, more) = (self.tenures.len() / self.contenders, self.tenures.len() % self.contenders);
        ((self.contenders - more) * each * each + more * (each + 1) * (each + 1)) as f64
    }

    fn overtaken(&self) -> usize {
        let mut asked: Vec<u64> = Vec::with_capacity(self.tenures.len());
        let mut worst = 0;
        for tenure in &self.tenures {
            let earlier = asked.partition_point(|&other| other <= tenure.asked);
            worst = worst.max(asked.len() - earlier);
            asked.insert(earlier, tenure.asked);
        }
        worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: u8 = 1;

    fn analysis(grants: &[Grant]) -> Analysis {
        Analysis::new(grants, 2)
    }

    #[test]
    fn two_holders_overlap_but_not_with_a_hand_off_at_the_same_moment() {
        let first = Grant(0, 0, 10, 20, 0);
        for (acquired, overlaps) in [(19, 1), (20, 0), (21, 0)] {
            // In any order.
            let second = Grant(1, 0, acquired, 30, 0);
            assert_eq!(analysis(&[first, second]).overlaps(Kind::Mutex), overlaps);
            assert_eq!(analysis(&[second, first]).overlaps(Kind::Mutex), overlaps);
        }
    }

    #[test]
    fn an_overlap_is_seen_over_tenures_that_lie_between() {
        let long = Grant(0, 0, 10, 100, 0);
        let (short, later) = (Grant(1, 0, 20, 30, 0), Grant(2, 0, 40, 50, 0));
        assert_eq!(analysis(&[long, short, later]).overlaps(Kind::Mutex), 2);
    }

    #[test]
    fn readers_overlap_with_readers_but_not_with_writers() {
        let reader = |task, acquired| Grant(task, 0, acquired, acquired + 10, SHARED);
        assert_eq!(analysis(&[reader(0, 10), reader(1, 12)]).overlaps(Kind::Rw), 0);
        assert_eq!(analysis(&[reader(0, 10), Grant(1, 0, 19, 25, 0)]).overlaps(Kind::Rw), 1);
        assert_eq!(analysis(&[Grant(1, 0, 5, 11, 0), reader(0, 10)]).overlaps(Kind::Rw), 1);
        assert_eq!(analysis(&[reader(0, 10), Grant(1, 0, 20, 25, 0)]).overlaps(Kind::Rw), 0);
    }

    #[test]
    fn a_semaphore_has_so_many_permits_and_not_one_more() {
        let holders = |n: u32| (0..n).map(|task| Grant(task, 0, 10, 20, SHARED)).collect::<Vec<_>>();
        let permits = u32::try_from(PERMITS).unwrap();
        assert_eq!(analysis(&holders(permits)).overlaps(Kind::Semaphore), 0);
        assert_eq!(analysis(&holders(permits + 1)).overlaps(Kind::Semaphore), 1);
    }

    #[test]
    fn a_hand_off_goes_to_another_contender_that_was_waiting() {
        let first = Grant(0, 0, 10, 1_000, 0);
        let waited = Grant(1, 5, 1_300, 2_000, 0);
        assert_eq!(analysis(&[first, waited]).hand_offs(), [Duration::from_nanos(300)]);
        let came_late = Grant(1, 1_001, 1_300, 2_000, 0);
        let again = Grant(0, 1_001, 1_300, 2_000, 0);
        for other in [came_late, again] {
            assert!(analysis(&[first, other]).hand_offs().is_empty());
        }
    }

    #[test]
    fn a_contender_that_keeps_the_lock_to_itself_is_seen() {
        let turns = |tasks: [u32; 4]| {
            let grant = |(i, &task): (usize, &u32)| Grant(task, 0, 10 * i as u64, 10 * i as u64 + 5, 0);
            analysis(&tasks.iter().enumerate().map(grant).collect::<Vec<_>>()).fairness()
        };
        let (fair, alone) = (turns([0, 1, 0, 1]), turns([0, 0, 0, 0]));
        assert_eq!((fair.jain, fair.own, fair.starved), (1.0, 0.0, 0));
        assert_eq!((alone.jain, alone.own, alone.starved), (0.5, 100.0, 1));
    }

    #[test]
    fn a_last_lap_that_was_not_finished_is_not_unfair() {
        let jain = |tasks: &[u32]| {
            analysis(&tasks.iter().map(|&task| Grant(task, 0, 0, 0, 0)).collect::<Vec<_>>()).fairness().jain
        };
        assert_eq!((jain(&[0, 1, 0]), jain(&[0]), jain(&[])), (1.0, 1.0, 0.0));
        assert!((jain(&[0, 1, 0, 0, 0]) - 13.0 / 17.0).abs() < 1e-9);
    }

    #[test]
    fn a_contender_that_later_ones_pass_is_overtaken() {
        let grants = [
            Grant(0, 50, 60, 70, 0),
            Grant(1, 55, 80, 90, 0),
            Grant(0, 52, 95, 99, 0),
            Grant(1, 1, 100, 110, 0),
        ];
        assert_eq!(analysis(&grants).fairness().overtaken, 3);
        assert_eq!(analysis(&grants[..2]).fairness().overtaken, 0);
    }
}
