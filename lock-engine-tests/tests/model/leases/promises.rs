//! [`Promise`]: properties that hold in every state, and states that have to be reached for that to mean anything.

use lock_core::{Kind, admission};
use stateright::Property;

use super::{Client, Config, Leases, Place, Reply, SystemState, Verb};

/// A property of states.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) name: &'static str,
    always: bool,
    holds: fn(&Leases, &SystemState) -> bool,
}

/// The promises that hold while the clocks are correct.
pub(crate) const ALWAYS: [Promise; 6] =
    [EXCLUSION, TOKEN_ORDER, NOBODYS_ENTRY, FAIRNESS, PROMOTION, PROGRESS];

/// The clients that believe that they hold the lock fit its limit.
pub(crate) const EXCLUSION: Promise =
    Promise::always("those who hold the lock fit together", |m, w| fit_together(&m.config, w));

/// If one grant was returned before another was requested, its token is smaller.
pub(crate) const TOKEN_ORDER: Promise = Promise::always("tokens order the grants", |_, w| !w.disorder);

/// No entry stays forever: its client renews or removes it, or has crashed.
pub(crate) const NOBODYS_ENTRY: Promise = Promise::always("every entry has an owner", |_, w| all_known(w));

/// No entry is admitted past a live waiter.
pub(crate) const FAIRNESS: Promise = Promise::always("no entry passes a waiter", |_, w| is_prefix(w));

/// A verb that makes room admits every entry that fits.
pub(crate) const PROMOTION: Promise =
    Promise::always("every entry that fits is admitted", |_, w| !w.store.forgot);

/// A waiter that fits has a grant, a hint in flight, or a look that is due before its lease ends.
pub(crate) const PROGRESS: Promise = Promise::always("a waiter that fits is on its way", |m, w| {
    waiters(w).all(|waiter| !waiter.fits(&m.config) || waiter.is_on_its_way())
});

/// A waiter that was admitted has a hint in flight or a look that is due now, or knows that hints were lost.
pub(crate) const TOLD: Promise = Promise::always("a waiter that was admitted is told", |_, w| {
    waiters(w).all(|waiter| !waiter.is_admitted() || waiter.is_told())
});

pub(crate) const OVERLAP: Promise =
    Promise::sometimes("two clients overlap", |m, w| !fit_together(&m.config, w));

/// The hint for the next holder is in flight, and no other message is.
pub(crate) const HAND_OFF: Promise = Promise::sometimes("the lock is handed on", |_, w| {
    w.clients.iter().all(|client| !client.holds())
        && waiters(w).any(|waiter| waiter.is_hinted() && waiter.place.call.is_none())
});

pub(crate) const LOSS: Promise = Promise::sometimes("a lock is lost", |_, w| {
    w.clients.iter().any(|client| client.guard().is_some_and(|guard| guard.valid == 0))
});

pub(crate) const OVERTAKEN: Promise =
    Promise::sometimes("a leave overtakes a create", |_, w| is_overtaken(w));

/// The keeper gives up the place of a waiter that would still look again.
pub(crate) const GIVEN_UP: Promise =
    Promise::sometimes("a place is given up", |_, w| waiters(w).any(|waiter| waiter.place.given_up));

pub(crate) const GONE: Promise = Promise::sometimes("a place is gone", |_, w| is_answered(w, Reply::Gone));

pub(crate) const MISMATCH: Promise =
    Promise::sometimes("another kind is refused", |_, w| is_answered(w, Reply::Mismatch));

pub(crate) const LATE_GRANT: Promise = Promise::sometimes("a grant comes too late", |m, w| {
    waiters(w).any(|waiter| waiter.is_granted_too_late(&m.config))
});

pub(crate) const TOGETHER: Promise = Promise::sometimes("two hold the lock", |_, w| {
    w.clients.iter().filter(|client| client.holds()).count() > 1
});

/// The entry of a client that has crashed keeps a live one out.
pub(crate) const ORPHAN: Promise = Promise::sometimes("a crashed client keeps others out", |_, w| {
    waiters(w).any(|waiter| !waiter.is_admitted() && waiter.place.token.is_some())
        && w.store.rows.iter().any(|row| row.admitted && row.lease > 0 && w.written_off.contains(&row.id))
});

impl Promise {
    const fn always(name: &'static str, holds: fn(&Leases, &SystemState) -> bool) -> Self {
        Self { name, always: true, holds }
    }

    const fn sometimes(name: &'static str, holds: fn(&Leases, &SystemState) -> bool) -> Self {
        Self { name, always: false, holds }
    }

    /// For the checker.
    pub(super) fn property(self) -> Property<Leases> {
        let property = if self.always { Property::always } else { Property::sometimes };
        property(self.name, self.holds)
    }
}

fn fit_together(config: &Config, system: &SystemState) -> bool {
    let holders = || {
        let holders = system.clients.iter().zip(&config.claims).filter(|(client, _)| client.holds());
        holders.map(|(_, &claim)| claim)
    };
    let Some(first) = holders().next() else { return true };
    let sum: u64 = holders().map(|claim| u64::from(claim.permits())).sum();
    holders().all(|claim| claim.agrees_with(&first))
        && (sum <= u64::from(first.limit()) && (first.kind() != Kind::Mutex || sum == 1))
}

fn all_known(system: &SystemState) -> bool {
    let known = |id: super::Id| system.client(id.client).knows(id) || system.written_off.contains(&id);
    system.store.rows.iter().all(|row| known(row.id))
}

fn is_prefix(system: &SystemState) -> bool {
    let mut live = system.store.rows.iter().filter(|row| row.lease > 0).skip_while(|row| row.admitted);
    live.all(|row| !row.admitted)
}

fn is_overtaken(system: &SystemState) -> bool {
    system.strays.iter().any(|stray| {
        let pending =
            system.client(stray.id.client).pending_leaves.iter().any(|pending| pending.id == stray.id);
        stray.verb == Verb::Create && pending && system.store.row(stray.id).is_none()
    })
}

fn is_answered(system: &SystemState, reply: Reply) -> bool {
    system.clients.iter().any(|client| client.call().is_some_and(|call| call.reply == Some(reply)))
}

/// The clients whose futures wait.
struct Waiter<'a> {
    system: &'a SystemState,
    client: &'a Client,
    place: &'a Place,
}

fn waiters(system: &SystemState) -> impl Iterator<Item = Waiter<'_>> {
    system.clients.iter().filter_map(move |client| Some(Waiter { system, client, place: client.place()? }))
}

impl Waiter<'_> {
    fn is_admitted(&self) -> bool {
        self.system.store.row(self.place.id).is_some_and(|row| row.admitted && row.lease > 0)
    }

    /// Whether it fits behind the live entries ahead of it, whether or not a verb has noticed.
    fn fits(&self, config: &Config) -> bool {
        let claim = |row: &super::store::Row| config.claim(row.id.client);
        let live = || self.system.store.rows.iter().filter(|row| row.lease > 0);
        let fit = admission::admitted(live().map(claim));
        live().take(fit).any(|row| row.id == self.place.id)
    }

    fn is_hinted(&self) -> bool {
        let life = self.system.store.row(self.place.id).map(|row| row.token);
        life.is_some() && self.place.hint == life
    }

    fn is_on_its_way(&self) -> bool {
        let in_time = self.place.listening.is_none_or(|listening| listening.look <= listening.valid);
        self.place.call.is_some() || self.is_hinted() || self.place.given_up || in_time
    }

    fn is_told(&self) -> bool {
        let due = self.place.is_due() || self.place.changed;
        // An answer "admitted" is as good as a hint; another answer is followed by a hint.
        let asking = self.place.call.is_some_and(|call| !matches!(call.reply, Some(Reply::Waiting { .. })));
        self.is_hinted() || due || asking || self.client.deaf || self.place.given_up
    }

    fn is_granted_too_late(&self, config: &Config) -> bool {
        let late = |call: super::Call| {
            matches!(call.reply, Some(Reply::Admitted(_))) && call.age == config.ttl(self.place.id.client)
        };
        self.place.call.is_some_and(late)
    }
}
