//! [`Client`]: what the wait engine and the keeper of one process know.

use lock_core::Creates;

use super::{Config, Id, Mutation, Reply, Request, Store, Ticks, Token, Verb};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// Entries that the keeper has to remove, until the leave is confirmed.
    pub(crate) pending_leaves: Vec<PendingLeave>,
    /// Only with [`Hinting::Subscribed`](super::Hinting::Subscribed): the subscription is broken.
    pub(crate) deaf: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Seeking(Place),
    Holding(Guard),
}

/// A pending acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) id: Id,
    pub(crate) token: Option<Token>,
    /// A creating request was not answered.
    pub(crate) in_doubt: bool,
    pub(crate) call: Option<Call>,
    pub(crate) listening: Option<Listening>,
    /// The hint "you hold it", in flight or not yet read. A second hint replaces the first, which is lost.
    pub(crate) hint: Option<Token>,
    /// The keeper has given up the place, because its lease ended before it was refreshed.
    pub(crate) given_up: bool,
    /// There is a `Changed` in the stream of hints, after the look in flight.
    pub(crate) changed: bool,
    /// The largest token that had been returned when the lock was requested.
    pub(crate) asked_after: Token,
    /// Only without PR02: what is left of the lease, as counted from the last request that was sent.
    pub(crate) sent: Ticks,
}

/// The result of the last answered look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Listening {
    pub(crate) token: Token,
    /// How long the store keeps the place without a refresh.
    pub(crate) valid: Ticks,
    /// When to look again.
    pub(crate) look: Ticks,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Guard {
    pub(crate) id: Id,
    pub(crate) token: Token,
    pub(crate) in_doubt: bool,
    /// How long the lock may be relied on; it is lost at 0.
    pub(crate) valid: Ticks,
    /// A renewal in flight.
    pub(crate) call: Option<Call>,
}

/// A request that has not been answered to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    /// How long ago it was sent, up to the ttl.
    pub(crate) age: Ticks,
    /// The answer, if it is in flight.
    pub(crate) reply: Option<Reply>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PendingLeave {
    pub(crate) id: Id,
    pub(crate) in_doubt: bool,
}

impl Client {
    pub(crate) fn place(&self) -> Option<&Place> {
        match &self.phase {
            Phase::Seeking(place) => Some(place),
            _ => None,
        }
    }

    pub(crate) fn guard(&self) -> Option<&Guard> {
        match &self.phase {
            Phase::Holding(guard) => Some(guard),
            _ => None,
        }
    }

    /// Whether the client believes that it holds the lock.
    pub(crate) fn holds(&self) -> bool {
        self.guard().is_some_and(|guard| guard.valid > 0)
    }

    /// The entry of its wait or hold.
    pub(crate) fn id(&self) -> Option<Id> {
        self.place().map(|place| place.id).or(self.guard().map(|guard| guard.id))
    }

    /// Whether it still renews the entry, enters again with it, or removes it.
    pub(crate) fn knows(&self, id: Id) -> bool {
        self.id() == Some(id) || self.pending_leaves.iter().any(|pending| pending.id == id)
    }

    pub(crate) fn call(&self) -> Option<&Call> {
        match &self.phase {
            Phase::Seeking(place) => place.call.as_ref(),
            Phase::Holding(guard) => guard.call.as_ref(),
            Phase::Idle => None,
        }
    }

    pub(crate) fn call_mut(&mut self) -> &mut Option<Call> {
        match &mut self.phase {
            Phase::Seeking(place) => &mut place.call,
            Phase::Holding(guard) => &mut guard.call,
            Phase::Idle => unreachable!("an idle client has no call"),
        }
    }

    pub(crate) fn schedule_leave(&mut self, id: Id, in_doubt: bool) {
        match self.pending_leaves.iter_mut().find(|pending| pending.id == id) {
            Some(pending) => pending.in_doubt |= in_doubt,
            None => self.pending_leaves.push(PendingLeave { id, in_doubt }),
        }
    }

    /// Gives up the place or the guard, and leaves what may be in the store to the keeper.
    pub(crate) fn abandon(&mut self) {
        match std::mem::take(&mut self.phase) {
            Phase::Idle => {}
            Phase::Seeking(place) => {
                let creating = place.call.is_some() && place.token.is_none();
                if place.token.is_some() || place.in_doubt || place.call.is_some() {
                    self.schedule_leave(place.id, place.in_doubt || creating);
                }
            }
            Phase::Holding(guard) => self.schedule_leave(guard.id, guard.in_doubt),
        }
    }

    /// Forgets details that make no difference any more. A doubt matters while a create may still arrive, or the life of the entry is not
    /// known; a pending leave matters while there is an entry, or such a create.
    pub(crate) fn settle(&mut self, config: &Config, store: &Store, strays: &[Request]) {
        let late = |id: Id| strays.iter().any(|stray| stray.id == id && stray.verb == Verb::Create);
        match &mut self.phase {
            Phase::Idle => {}
            Phase::Seeking(place) => {
                let unknown = store.row(place.id).is_some_and(|row| Some(row.token) != place.token);
                place.in_doubt &= late(place.id) || unknown;
            }
            Phase::Holding(guard) => guard.in_doubt &= late(guard.id),
        }
        let matters = |id: Id| late(id) || store.row(id).is_some() || config.leaves_out(Mutation::B05);
        self.pending_leaves.retain(|pending| matters(pending.id));
        for pending in &mut self.pending_leaves {
            pending.in_doubt &= late(pending.id);
        }
        self.pending_leaves.sort_unstable();
    }

    pub(crate) fn tick(&mut self, ttl: Ticks) {
        match &mut self.phase {
            Phase::Idle => {}
            Phase::Seeking(place) => {
                place.sent = place.sent.saturating_sub(1);
                if let Some(listening) = &mut place.listening {
                    listening.valid = listening.valid.saturating_sub(1);
                    listening.look = listening.look.saturating_sub(1);
                }
            }
            Phase::Holding(guard) => guard.valid = guard.valid.saturating_sub(1),
        }
        if let Phase::Seeking(Place { call: Some(call), .. })
        | Phase::Holding(Guard { call: Some(call), .. }) = &mut self.phase
        {
            call.age = ttl.min(call.age + 1);
        }
    }
}

impl Place {
    pub(crate) fn new(id: Id, asked_after: Token) -> Self {
        Self {
            id,
            token: None,
            in_doubt: false,
            call: None,
            listening: None,
            hint: None,
            given_up: false,
            changed: false,
            asked_after,
            sent: 0,
        }
    }

    /// Whether a look is due.
    pub(crate) fn is_due(&self) -> bool {
        self.call.is_none() && self.listening.is_none_or(|listening| listening.look == 0)
    }

    pub(crate) fn look_now(&mut self) {
        if let Some(listening) = &mut self.listening {
            listening.look = 0;
        }
    }
}

impl PendingLeave {
    pub(crate) fn creates(self) -> Creates {
        if self.in_doubt { Creates::InDoubt } else { Creates::Answered }
    }
}
