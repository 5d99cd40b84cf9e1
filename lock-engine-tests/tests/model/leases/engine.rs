//! How a client reacts to answers and hints: the wait engine and the keeper.

use super::{
    Config, Guard, Hinting, Listening, Mutation, Phase, Place, Reply, Request, SystemState, Verb,
    system_state::third,
};
use crate::leases::Call;

impl SystemState {
    /// Asks for the lock.
    pub(crate) fn acquire(&mut self, client: u8) {
        let place = Place::new(self.fresh_id(client), self.returned);
        self.client_mut(client).phase = Phase::Seeking(place);
    }

    /// Enters, or looks again.
    pub(crate) fn enter(&mut self, config: &Config, client: u8) {
        let Phase::Seeking(place) = &mut self.client_mut(client).phase else { return };
        let creates = config.leaves_out(Mutation::Pr03);
        let verb = place.token.filter(|_| !creates).map_or(Verb::Create, Verb::Again);
        if config.leaves_out(Mutation::Pr02) {
            place.sent = config.ttl(client);
        }
        place.call = Some(Call { verb, age: 0, reply: None });
    }

    /// The keeper renews a lock that is held.
    pub(crate) fn renew(&mut self, config: &Config, client: u8) {
        let Phase::Holding(guard) = &mut self.client_mut(client).phase else { return };
        let verb = Verb::Renew { token: guard.token, meant: config.ttl(client) };
        guard.call = Some(Call { verb, age: 0, reply: None });
    }

    /// The request that a client waits for, if it has not been carried out.
    pub(crate) fn asked(&self, client: u8) -> Option<Request> {
        let state = self.client(client);
        let call = state.call().filter(|call| call.reply.is_none())?;
        Some(Request { id: state.id()?, verb: call.verb })
    }

    /// The answer reaches the client.
    pub(crate) fn receive(&mut self, config: &Config, client: u8) {
        let Some(call) = self.client_mut(client).call_mut().take() else { return };
        let Some(reply) = call.reply else { return };
        let ttl = config.ttl(client);
        // Counted from the time when the answered request was sent.
        let age = if config.leaves_out(Mutation::B01) { 0 } else { call.age };
        let valid = ttl - age;
        match &mut self.client_mut(client).phase {
            Phase::Idle => {}
            Phase::Holding(guard) => match reply {
                // A proof that comes after the deadline proves nothing.
                Reply::Renewed if guard.valid > 0 => guard.valid = guard.valid.max(valid),
                Reply::Lost => self.client_mut(client).abandon(),
                _ => {}
            },
            Phase::Seeking(place) => match reply {
                Reply::Admitted(token) => {
                    place.token = Some(token);
                    place.look_now();
                    if valid > 0 {
                        self.grant(config, client, valid);
                    }
                }
                Reply::Waiting { token, look_again } => {
                    place.token = Some(token);
                    let sleep = if config.leaves_out(Mutation::Pr13) { look_again } else { third(ttl) };
                    let look = if place.changed { 0 } else { sleep.saturating_sub(age) };
                    place.listening = Some(Listening { token, valid, look });
                    place.changed = false;
                    if place.given_up {
                        self.start_over(client);
                    }
                }
                Reply::Mismatch => self.client_mut(client).abandon(),
                _ => {
                    place.token = None;
                    self.start_over(client);
                }
            },
        }
    }

    /// A request was not answered in time, or the connection broke. Returns the request if it may still arrive.
    pub(crate) fn give_up(&mut self, client: u8) -> Option<Request> {
        let asked = self.asked(client);
        let call = self.client_mut(client).call_mut().take()?;
        if let Phase::Seeking(place) = &mut self.client_mut(client).phase {
            place.in_doubt |= call.verb == Verb::Create;
            place.look_now();
        }
        asked
    }

    /// A hint reaches a client that waits for it.
    pub(crate) fn take(&mut self, config: &Config, client: u8) {
        let Phase::Seeking(place) = &mut self.client_mut(client).phase else { return };
        let (Some(hint), Some(listening)) = (place.hint.take(), place.listening) else { return };
        // PR03: the token says which life of the entry was admitted.
        let mine = hint == listening.token || config.leaves_out(Mutation::Pr03);
        let valid = if config.leaves_out(Mutation::Pr02) { place.sent } else { listening.valid };
        if mine && valid > third(config.ttl(client)) {
            self.grant(config, client, valid);
        } else {
            place.look_now();
        }
    }

    /// A grant, which counts only if the keeper has not given up the place meanwhile.
    fn grant(&mut self, config: &Config, client: u8, valid: u8) {
        let Phase::Seeking(place) = &self.client(client).phase else { return };
        if place.given_up && !config.leaves_out(Mutation::GivenUp) {
            return self.start_over(client);
        }
        let Some(token) = place.token else { return };
        let guard = Guard { id: place.id, token, in_doubt: place.in_doubt, valid, call: None };
        if config.history {
            self.disorder |= token <= place.asked_after;
            self.returned = self.returned.max(token);
        }
        self.client_mut(client).phase = Phase::Holding(guard);
    }

    /// Joins the queue at its end with another entry.
    fn start_over(&mut self, client: u8) {
        let Some(asked_after) = self.client(client).place().map(|place| place.asked_after) else { return };
        self.client_mut(client).abandon();
        let place = Place::new(self.fresh_id(client), asked_after);
        self.client_mut(client).phase = Phase::Seeking(place);
    }

    /// The keeper sees that a lease has ended, and removes the entry.
    pub(crate) fn lapse(&mut self, client: u8) {
        let client = self.client_mut(client);
        match &mut client.phase {
            Phase::Seeking(place) => {
                place.given_up = true;
                let (id, in_doubt) = (place.id, place.in_doubt);
                client.schedule_leave(id, in_doubt);
            }
            _ => client.abandon(),
        }
    }

    /// Whether there is an ended lease for the keeper to see.
    pub(crate) fn is_over(&self, client: u8) -> bool {
        match &self.client(client).phase {
            Phase::Idle => false,
            Phase::Seeking(place) => {
                !place.given_up && place.listening.is_some_and(|listening| listening.valid == 0)
            }
            Phase::Holding(guard) => guard.valid == 0,
        }
    }

    /// The process ends, and another one starts in its place.
    pub(crate) fn crash(&mut self, client: u8) {
        let old = std::mem::take(self.client_mut(client));
        self.written_off.extend(old.id());
        self.written_off.extend(old.pending_leaves.iter().map(|pending| pending.id));
    }

    /// The subscription of a client breaks, and all hints in flight are lost.
    pub(crate) fn unsubscribe(&mut self, client: u8) {
        self.client_mut(client).deaf = true;
        self.lose_hint(client);
    }

    pub(crate) fn lose_hint(&mut self, client: u8) {
        if let Phase::Seeking(place) = &mut self.client_mut(client).phase {
            place.hint = None;
        }
    }

    /// PR14: on a new subscription, every waiter looks again.
    pub(crate) fn subscribe(&mut self, config: &Config, client: u8) {
        debug_assert_eq!(config.hints, Hinting::Subscribed, "nothing else breaks");
        let state = self.client_mut(client);
        state.deaf = false;
        if let Phase::Seeking(place) = &mut state.phase
            && !config.leaves_out(Mutation::Pr14)
        {
            place.look_now();
            place.changed = place.call.is_some();
        }
    }
}
