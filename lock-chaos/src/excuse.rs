//! [`Excuses`]: when a store may break a promise, as `docs/guarantees.md` says, and no more.

use std::time::Duration;

use lock_core::{BootTime, margin};

use crate::{record::MOVED, store_kind::StoreKind};

/// What was done to a store for which it may break a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// The clock of a server was set forward by so many seconds, or back, at some time between these.
    SetClock { from: BootTime, until: BootTime, by: i64 },
    /// The server that led stood still.
    PausedLeader { from: BootTime, until: BootTime },
}

/// A lock that was granted, as far as its client knows it.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) ttl: Duration,
    pub(crate) granted: BootTime,
    /// Until when it is good, and when that was first known.
    pub(crate) until: BootTime,
    pub(crate) known: BootTime,
    /// When it was lost or given back.
    pub(crate) over: Option<BootTime>,
    /// Whether the store has confirmed that it was held until it was released.
    pub(crate) confirmed: bool,
}

impl Lease {
    /// Its deadline was read again.
    pub(crate) fn prolong(&mut self, until: BootTime, at: BootTime) {
        if until > self.until + MOVED {
            self.known = at;
        }
        self.until = self.until.max(until);
    }
}

/// How long after a leader has gone on leases may be over for it. The guarantees speak of milliseconds; on a busy machine it takes longer until
/// the client has been told.
const TOLD: Duration = Duration::from_secs(1);

/// The excuses of one run.
#[derive(Debug)]
pub(crate) struct Excuses {
    /// What the clock on which leases are counted has shown, one after the other.
    clock: Vec<Setting>,
    /// When leaders stood still that may end leases when they go on.
    pauses: Vec<(BootTime, BootTime)>,
}

/// By how many seconds the clock of the server was ahead, from when at the earliest, and until when at the latest.
#[derive(Clone, Copy, Debug)]
struct Setting {
    ahead: i64,
    from: BootTime,
    until: BootTime,
}

impl Excuses {
    /// | store | deed | what may end before its deadline |
    /// |---|---|---|
    /// | Redis | its clock is set forward | what was not renewed since, by as much earlier |
    /// | etcd | a leader goes on that stood still for more than two thirds of a ttl | leases of that ttl, soon after that |
    ///
    /// Nothing else excuses two holders.
    pub(crate) fn new(store: StoreKind, deeds: &[Deed]) -> Self {
        let right = Setting { ahead: 0, from: BootTime::new(Duration::ZERO), until: BootTime::FAR_FUTURE };
        let mut excuses = Self { clock: vec![right], pauses: Vec::new() };
        for deed in deeds {
            match (store, *deed) {
                (StoreKind::Redis, Deed::SetClock { from, until, by }) => excuses.set_clock(from, until, by),
                (StoreKind::Etcd, Deed::PausedLeader { from, until }) => excuses.pauses.push((from, until)),
                _ => {}
            }
        }
        excuses
    }

    fn set_clock(&mut self, from: BootTime, until: BootTime, by: i64) {
        let mut ahead = by;
        if let Some(before) = self.clock.last_mut() {
            before.until = until;
            ahead += before.ahead;
        }
        self.clock.push(Setting { ahead, from, until: BootTime::FAR_FUTURE });
    }

    /// The first instant before its deadline at which a lease may have ended in the store. None if it may not have.
    pub(crate) fn ended(&self, lease: &Lease) -> Option<BootTime> {
        if lease.confirmed {
            return None;
        }
        [self.by_clock(lease), self.by_leader(lease)].into_iter().flatten().min()
    }

    /// When the clock of the server has first got as far as the end of the lease. The last renewal counts: a lease that had ended before is
    /// not renewed.
    fn by_clock(&self, lease: &Lease) -> Option<BootTime> {
        let sent = lease.until + margin(lease.ttl) - lease.ttl;
        // The request was carried out between its sending and its answer.
        let is_meanwhile = |setting: &&Setting| setting.from <= lease.known && setting.until >= sent;
        let begun = self.clock.iter().filter(is_meanwhile).map(|setting| setting.ahead).min()?;
        let end = |setting: &Setting| {
            let early = u64::try_from(setting.ahead - begun).ok()?;
            let end = (lease.until - Duration::from_secs(early)).max(setting.from).max(sent);
            (end <= setting.until).then_some(end)
        };
        self.clock.iter().filter_map(end).min().filter(|end| *end < lease.until)
    }

    /// When a leader went on that stood still for too long, if the lease was over soon after that.
    fn by_leader(&self, lease: &Lease) -> Option<BootTime> {
        let over = lease.over?;
        let may_end = |(from, until): &&(BootTime, BootTime)| {
            until.since(*from) * 3 > lease.ttl * 2 && *until <= over && over <= *until + TOLD
        };
        self.pauses.iter().find(may_end).map(|(_, until)| *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> BootTime {
        BootTime::new(Duration::from_secs_f64(seconds))
    }

    /// Asked for at this time, answered a little later, and good for 5 s less the margin.
    fn lease(sent: f64) -> Lease {
        let ttl = Duration::from_secs(5);
        let known = at(sent + 0.1);
        let until = at(sent) + ttl - margin(ttl);
        Lease { ttl, granted: known, until, known, over: None, confirmed: false }
    }

    fn clock(settings: &[(f64, i64)]) -> Excuses {
        let deed = |&(when, by): &(f64, i64)| Deed::SetClock { from: at(when), until: at(when + 0.01), by };
        Excuses::new(StoreKind::Redis, &settings.iter().map(deed).collect::<Vec<_>>())
    }

    /// To the millisecond.
    fn ended(excuses: &Excuses, lease: &Lease) -> Option<u128> {
        excuses.ended(lease).map(|end| end.since_start().as_millis())
    }

    #[test]
    fn a_clock_set_forward_ends_a_lease_by_as_much_earlier_but_not_before() {
        // Good until 14.95.
        let lease = lease(10.0);
        assert_eq!(ended(&clock(&[(11.0, 3)]), &lease), Some(11_950));
        assert_eq!(ended(&clock(&[(11.0, 8)]), &lease), Some(11_000));
        assert_eq!(ended(&clock(&[(14.0, 3)]), &lease), Some(14_000));
        assert_eq!(ended(&clock(&[(11.0, 1), (12.0, 2)]), &lease), Some(12_000));
        assert_eq!(ended(&clock(&[(11.0, 1), (14.5, 2)]), &lease), Some(13_950));
    }

    #[test]
    fn what_was_asked_for_after_the_clock_was_set_ends_at_its_deadline() {
        for settings in [vec![], vec![(9.9, 8)], vec![(15.0, 8)], vec![(11.0, -4)], vec![(9.0, -4)]] {
            assert_eq!(ended(&clock(&settings), &lease(10.0)), None, "{settings:?}");
        }
        // Set back first, and then right again.
        assert_eq!(ended(&clock(&[(11.0, -4), (12.0, 4)]), &lease(10.0)), None);
        assert_eq!(ended(&clock(&[(9.0, -4), (12.0, 4)]), &lease(10.0)), Some(12_000));
    }

    #[test]
    fn a_request_under_way_when_the_clock_was_set_came_before_or_after() {
        assert_eq!(ended(&clock(&[(10.05, 3)]), &lease(10.0)), Some(11_950));
        assert_eq!(ended(&clock(&[(10.05, -4), (12.0, 4)]), &lease(10.0)), Some(12_000));
    }

    #[test]
    fn a_lease_that_was_renewed_or_released_since_is_not_excused() {
        let excuses = clock(&[(11.0, 8)]);
        let mut renewed = lease(10.0);
        renewed.prolong(lease(11.5).until, at(11.6));
        assert_eq!(ended(&excuses, &renewed), None);
        let mut released = lease(10.0);
        released.confirmed = true;
        assert_eq!(ended(&excuses, &released), None);
    }

    #[test]
    fn on_other_stores_no_clock_excuses_anything() {
        let deed = Deed::SetClock { from: at(11.0), until: at(11.0), by: 8 };
        for store in [StoreKind::Etcd, StoreKind::Zookeeper, StoreKind::Sqlite] {
            assert_eq!(ended(&Excuses::new(store, &[deed]), &lease(10.0)), None, "{store:?}");
        }
    }

    #[test]
    fn a_leader_ends_leases_only_soon_after_it_goes_on_and_after_a_long_pause() {
        let over = |store, paused: f64, over: f64| {
            let deed = Deed::PausedLeader { from: at(20.0 - paused), until: at(20.0) };
            let lease = Lease { over: Some(at(over)), ..lease(18.0) };
            ended(&Excuses::new(store, &[deed]), &lease)
        };
        assert_eq!(over(StoreKind::Etcd, 4.0, 20.1), Some(20_000));
        assert_eq!(over(StoreKind::Etcd, 4.0, 21.5), None, "long after");
        assert_eq!(over(StoreKind::Etcd, 4.0, 19.9), None, "before");
        assert_eq!(over(StoreKind::Etcd, 3.0, 20.1), None, "two thirds of the lease are 3.3 s");
        assert_eq!(over(StoreKind::Zookeeper, 4.0, 20.1), None);
        let deed = Deed::PausedLeader { from: at(16.0), until: at(20.0) };
        assert_eq!(ended(&Excuses::new(StoreKind::Etcd, &[deed]), &lease(18.0)), None, "never told");
    }
}
