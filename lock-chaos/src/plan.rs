//! [`Plan`]: what goes wrong, and when. A function of the seed.

use std::time::Duration;

use lock_core::testing::SeededEntropy;

use crate::{
    fault::{ClientFault, Cut, Fault, ServerFault, Side, Target},
    store_kind::StoreKind,
};

/// What goes wrong with servers and networks, and beside it what goes wrong with clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) servers: Vec<Step>,
    pub(crate) clients: Vec<Step>,
}

/// A fault, how long nothing goes wrong before it, and how long it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) pause: Duration,
    pub(crate) fault: Fault,
    pub(crate) lasts: Duration,
}

/// Some faults are over before the shortest lease ends, and some last longer than the longest one.
const SHORTEST: Duration = Duration::from_millis(300);
const LONGEST: Duration = Duration::from_secs(9);
const PAUSE: Duration = Duration::from_secs(5);

/// By how many seconds a clock is set at the most. Redis counts leases on it: set forward by that much, it ends all of them, and set back by
/// that much twice in a row, it prolongs them by less than the checkers allow for.
const FORWARD_ON_REDIS: u32 = 8;
const BACK_ON_REDIS: u32 = 4;
const ELSEWHERE: u32 = 3600;

const CUTS: [Cut; 4] = [Cut::Both, Cut::Requests, Cut::Replies, Cut::Refuse];

impl Plan {
    /// What goes wrong within `length`, for so many clients.
    pub(crate) fn new(seed: u64, store: StoreKind, seats: usize, length: Duration) -> Self {
        let entropy = SeededEntropy::new(seed);
        let draw = |kinds: &[Fault]| Draw { entropy: entropy.branch(), store, seats }.steps(kinds, length);
        let clients = [ClientFault::Kill, ClientFault::Pause].map(|fault| Fault::Client(fault, 0));
        Self { servers: draw(&server_faults(store)), clients: draw(&clients) }
    }
}

/// Each fault that the servers and networks of a store can have. Its target is drawn each time, unless the target is the leader or all.
fn server_faults(store: StoreKind) -> Vec<Fault> {
    use ServerFault::{Depose, Fill, FillDisk, Isolate, Kill, Pause, SetClock};
    let (leader, member) = (Target::Leader, Target::Member(0));
    let (forward, back) = (SetClock(1), SetClock(-1));
    let of_servers: Vec<_> = match store {
        StoreKind::Redis => {
            let faults = [Kill, Pause, Fill, FillDisk, forward, back];
            faults.map(|fault| (fault, leader)).into()
        }
        StoreKind::Etcd | StoreKind::Zookeeper => {
            let mut faults = vec![(Kill, Target::All)];
            for target in [leader, member] {
                faults.extend([(Kill, target), (Pause, target), (Isolate, target)]);
            }
            // The program of etcd asks only the kernel for the time, so its clock cannot be set without that of the machine.
            faults.extend(if store == StoreKind::Etcd {
                vec![(Depose, leader), (Fill, leader)]
            } else {
                vec![(FillDisk, leader), (FillDisk, member), (forward, member), (back, member)]
            });
            faults
        }
        StoreKind::Sqlite => [Pause, FillDisk, forward, back].map(|fault| (fault, leader)).into(),
    };
    let cuts: &[Cut] = if store.members() == 0 { &[] } else { &CUTS };
    let cuts = cuts.iter().map(|cut| Fault::Cut(Side::Client(0), *cut));
    of_servers.into_iter().map(|(fault, target)| Fault::Server(fault, target)).chain(cuts).collect()
}

struct Draw {
    entropy: SeededEntropy,
    store: StoreKind,
    seats: usize,
}

impl Draw {
    /// Each kind comes once before one comes again.
    fn steps(&self, kinds: &[Fault], length: Duration) -> Vec<Step> {
        let (mut steps, mut bag, mut time) = (Vec::new(), Vec::new(), Duration::ZERO);
        loop {
            if bag.is_empty() {
                bag.extend_from_slice(kinds);
            }
            let fault = self.befalls(bag.swap_remove(self.below(bag.len())));
            let pause = Duration::from_secs(1) + self.entropy.up_to(PAUSE);
            let lasts = SHORTEST + self.entropy.up_to(LONGEST);
            time += pause + lasts;
            if time > length {
                return steps;
            }
            steps.push(Step { pause, fault, lasts });
        }
    }

    /// The same fault, with a target that is drawn.
    fn befalls(&self, fault: Fault) -> Fault {
        match fault {
            Fault::Server(ServerFault::SetClock(by), target) => {
                let seconds = i64::from(1 + self.entropy.below(self.furthest(by).into()) as u32);
                Fault::Server(ServerFault::SetClock(by.signum() * seconds), self.aims_at(target))
            }
            Fault::Server(fault, target) => Fault::Server(fault, self.aims_at(target)),
            Fault::Cut(_, cut) if self.entropy.chance(500) => {
                Fault::Cut(Side::Member(self.below(self.store.members())), cut)
            }
            Fault::Cut(_, cut) => Fault::Cut(Side::Client(self.below(self.seats)), cut),
            Fault::Client(fault, _) => Fault::Client(fault, self.below(self.seats)),
        }
    }

    fn aims_at(&self, target: Target) -> Target {
        match target {
            Target::Member(_) => Target::Member(self.below(self.store.members())),
            Target::Leader | Target::All => target,
        }
    }

    /// By how many seconds a clock is set at the most, in the direction of `by`.
    fn furthest(&self, by: i64) -> u32 {
        match self.store {
            StoreKind::Redis if by < 0 => BACK_ON_REDIS,
            StoreKind::Redis => FORWARD_ON_REDIS,
            StoreKind::Etcd | StoreKind::Zookeeper | StoreKind::Sqlite => ELSEWHERE,
        }
    }

    fn below(&self, end: usize) -> usize {
        self.entropy.below(end as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::ValueEnum;

    use super::*;

    const TEN_MINUTES: Duration = Duration::from_secs(600);

    fn plan(seed: u64, store: StoreKind) -> Plan {
        Plan::new(seed, store, 3, TEN_MINUTES)
    }

    #[test]
    fn a_seed_repeats_its_plan_and_another_has_another() {
        for store in StoreKind::value_variants() {
            assert_eq!(plan(1, *store), plan(1, *store));
            assert_ne!(plan(1, *store), plan(2, *store));
        }
    }

    #[test]
    fn in_ten_minutes_everything_goes_wrong_that_can() {
        use StoreKind::{Etcd, Redis, Sqlite, Zookeeper};
        for (store, kinds) in [(Redis, 12), (Etcd, 12), (Zookeeper, 13), (Sqlite, 6)] {
            let plan = plan(1, store);
            let steps = plan.servers.iter().chain(&plan.clients);
            let found: BTreeSet<_> = steps.map(|step| step.fault.kind()).collect();
            assert_eq!(found.len(), kinds, "{store:?}: {found:?}");
        }
    }

    #[test]
    fn clocks_are_set_both_ways_and_on_redis_by_seconds_only() {
        let settings = |store| {
            let steps = (0..20).flat_map(move |seed| plan(seed, store).servers);
            let by = |step: Step| match step.fault {
                Fault::Server(ServerFault::SetClock(by), _) => Some(by),
                _ => None,
            };
            steps.filter_map(by).collect::<BTreeSet<i64>>()
        };
        let redis = settings(StoreKind::Redis);
        assert_eq!((redis.first(), redis.last()), (Some(&-4), Some(&8)));
        assert!(!redis.contains(&0), "{redis:?}");
        for store in [StoreKind::Zookeeper, StoreKind::Sqlite] {
            let settings = settings(store);
            assert!(settings.first() < Some(&-60) && settings.last() > Some(&60), "{store:?}: {settings:?}");
        }
        assert!(settings(StoreKind::Etcd).is_empty(), "its clock is that of the machine");
    }

    #[test]
    fn a_plan_ends_in_time_and_befalls_only_those_there_are() {
        for seed in 0..100 {
            let plan = plan(seed, StoreKind::Etcd);
            for steps in [&plan.servers, &plan.clients] {
                assert!(steps.iter().map(|step| step.pause + step.lasts).sum::<Duration>() <= TEN_MINUTES);
                for Step { fault, .. } in steps {
                    let (Fault::Server(_, Target::Member(number))
                    | Fault::Cut(Side::Client(number) | Side::Member(number), _)
                    | Fault::Client(_, number)) = fault
                    else {
                        continue;
                    };
                    assert!(*number < 3, "{fault}");
                }
            }
        }
    }
}
