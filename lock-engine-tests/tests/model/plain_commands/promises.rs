//! [`Promise`]: what holds in every state, and states that have to be reached for that to mean anything.

use stateright::Property;

use super::{
    PlainCommands,
    model::{Phase, System},
};

/// A property of states.
pub(crate) type Promise = fn() -> Property<PlainCommands>;

pub(crate) const ALWAYS: [Promise; 5] = [EXCLUSION, ORDER, LEFT_BEHIND, LOSS, STRANDED];

pub(crate) const SOMETIMES: [Promise; 3] = [HANDED_OVER, GAVE_BACK, ARRIVED_LATE];

pub(crate) const EXCLUSION: Promise =
    || Property::always("one client at most holds the lock", |_, system: &System| system.holders() <= 1);

pub(crate) const ORDER: Promise =
    || Property::always("tokens grow from holder to holder", |_, system: &System| !system.seen.smaller_token);

/// After a leave that was answered, nothing of it is there, or comes back.
pub(crate) const LEFT_BEHIND: Promise = || {
    Property::always("a leave leaves nothing behind", |_, system: &System| {
        system.clients.iter().all(|client| client.gone.is_none_or(|id| !system.store.has(id)))
    })
};

pub(crate) const LOSS: Promise =
    || Property::always("what is held is not called lost", |_, system: &System| !system.seen.false_loss);

pub(crate) const STRANDED: Promise =
    || Property::always("a release passes the lock on", |_, system: &System| !system.seen.stranded);

const HANDED_OVER: Promise = || {
    Property::sometimes("a waiter is granted the lock", |_, system: &System| {
        system.clients.iter().any(|client| matches!(client.phase, Phase::Holding { has_waited: true, .. }))
    })
};

const GAVE_BACK: Promise = || {
    Property::sometimes("a create that passed the queue is undone", |_, system: &System| {
        system.store.gave_back
    })
};

const ARRIVED_LATE: Promise = || {
    Property::sometimes("a create arrives after its connection was given up", |_, system: &System| {
        system.arrived_late
    })
};
