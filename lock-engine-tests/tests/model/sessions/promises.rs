//! [`Promise`]: properties that hold in every state, and states that have to be reached for that to mean anything.

use lock_core::admission;
use stateright::Property;

use super::{Config, Phase, Sessions, SystemState};

/// A property of states.
pub(crate) type Promise = fn() -> Property<Sessions>;

pub(crate) const ALWAYS: [Promise; 3] = [EXCLUSION, NOBODYS_ENTRY, WOKEN];

pub(crate) const SOMETIMES: [Promise; 2] = [ANNOUNCED, LOST];

/// The clients that believe that they hold the lock fit its limit.
pub(crate) const EXCLUSION: Promise =
    || Property::always("those who hold the lock fit together", |m, w| fit_together(&m.config, w));

/// No entry stays forever: while a session is kept alive, its client tracks each of its entries.
pub(crate) const NOBODYS_ENTRY: Promise = || {
    Property::always("every entry has an owner", |_, w: &SystemState| {
        w.keys.iter().all(|key| w.client(key.client).session == 0 || w.client(key.client).knows(*key))
    })
};

/// A waiter that fits has an event in flight. It also has a timer, which does not count here.
pub(crate) const WOKEN: Promise =
    || Property::always("a waiter that fits is woken", |m, w| all_woken(&m.config, w));

pub(crate) const TOGETHER: Promise = || {
    Property::sometimes("two hold the lock", |_, w: &SystemState| {
        w.clients.iter().filter(|client| client.holds()).count() > 1
    })
};

const ANNOUNCED: Promise = || {
    Property::sometimes("a departure is announced", |_, w: &SystemState| {
        let told =
            |phase: &Phase| matches!(phase, Phase::Seeking { watch: Some(w), .. } if !w.events.is_empty());
        w.clients.iter().any(|client| told(&client.phase))
    })
};

const LOST: Promise = || {
    Property::sometimes("a lock is lost", |_, w: &SystemState| {
        w.clients.iter().any(|client| matches!(client.phase, Phase::Holding { valid: 0, .. }))
    })
};

pub(crate) const ORPHAN: Promise = || {
    Property::sometimes("a crashed client keeps others out", |_, w: &SystemState| {
        w.keys.len() > 1 && w.keys.first().is_some_and(|key| !w.client(key.client).knows(*key))
    })
};

fn fit_together(config: &Config, system: &SystemState) -> bool {
    let holders = system.clients.iter().filter(|client| client.holds()).filter_map(super::Client::id);
    let claims: Vec<_> = holders.map(|id| config.claim(id)).collect();
    admission::admitted(claims.iter().copied()) == claims.len()
}

fn all_woken(config: &Config, system: &SystemState) -> bool {
    let fit = admission::admitted(system.keys.iter().map(|key| config.claim(*key)));
    system.keys.iter().take(fit).all(|key| match &system.client(key.client).phase {
        Phase::Seeking { id, watch: Some(watch) } if id == key => !watch.events.is_empty(),
        _ => true,
    })
}
