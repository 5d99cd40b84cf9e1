//! [`Leases`]: the actions of a system, for the checker.

use stateright::{Model, Property};

use super::{Clocks, Config, Hinting, Mutation, Phase, Promise, Request, SystemState, Verb};

/// A model to check: a configuration, and its promises.
#[derive(Clone, Debug)]
pub(crate) struct Leases {
    pub(crate) config: Config,
    pub(crate) promises: Vec<Promise>,
}

/// An action. `late`: a request that the client gives up may still arrive; otherwise it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Acquire(u8, Trip),
    Enter(u8, Trip),
    Renew(u8, Trip),
    /// The store carries out the request that the client waits for.
    Serve(u8),
    Answer(u8),
    GiveUp {
        client: u8,
        late: bool,
    },
    /// The future or the guard is dropped.
    Drop {
        client: u8,
        late: bool,
    },
    Lapse(u8),
    /// The keeper leaves. A leave that is not confirmed is tried again.
    Leave {
        client: u8,
        pending: usize,
        fate: Fate,
    },
    Crash(u8),
    Arrive(Request),
    Hint(u8),
    LoseHint(u8),
    Unsubscribe(u8),
    Subscribe(u8),
    /// Time goes by; the clocks in `still` stand still.
    Tick {
        still: u8,
    },
}

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trip {
    Answered,
    RequestLost,
    ReplyLost,
    /// It is answered, and will be carried out once more.
    Repeated,
    /// It is slow, and so is its answer later.
    Slow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Confirmed,
    Unanswered,
    Late,
}

impl Model for Leases {
    type State = SystemState;
    type Action = Action;

    fn init_states(&self) -> Vec<SystemState> {
        vec![SystemState::new(&self.config)]
    }

    fn actions(&self, system: &SystemState, actions: &mut Vec<Action>) {
        for client in self.config.clients() {
            self.actions_of(system, client, actions);
        }
        actions.extend(system.strays.iter().map(|&stray| Action::Arrive(stray)));
        let still = if self.config.clocks == Clocks::True { 1 } else { 1 << self.config.claims.len() };
        actions.extend((0..still).map(|still| Action::Tick { still }));
    }

    fn next_state(&self, system: &SystemState, action: Action) -> Option<SystemState> {
        let mut next = system.clone();
        self.happen(&mut next, action);
        next.settle(&self.config);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        self.promises.iter().map(|promise| promise.property()).collect()
    }

    fn within_boundary(&self, system: &SystemState) -> bool {
        let pending: usize = system.clients.iter().map(|client| client.pending_leaves.len()).sum();
        let calls = system.clients.iter().filter(|client| client.call().is_some()).count();
        pending <= self.config.pending_leaves
            && system.strays.len() + calls <= self.config.wire
            && system.written_off.len() <= self.config.crashes
    }
}

impl Leases {
    fn actions_of(&self, system: &SystemState, client: u8, actions: &mut Vec<Action>) {
        let state = system.client(client);
        let lates: &[bool] =
            if self.config.late && system.asked(client).is_some() { &[false, true] } else { &[false] };
        match &state.phase {
            Phase::Idle if !self.config.hurried && !state.pending_leaves.is_empty() => {}
            Phase::Idle => actions.extend(self.trips(true).map(|trip| Action::Acquire(client, trip))),
            Phase::Seeking(place) if place.is_due() => {
                actions.extend(self.trips(place.token.is_none()).map(|trip| Action::Enter(client, trip)));
            }
            Phase::Holding(guard)
                if guard.call.is_none() && (1..self.config.ttl(client)).contains(&guard.valid) =>
            {
                actions.extend(self.trips(false).map(|trip| Action::Renew(client, trip)));
            }
            _ => {}
        }
        if let Some(place) = state.place().filter(|place| place.hint.is_some()) {
            if place.call.is_none() && place.listening.is_some() {
                actions.push(Action::Hint(client));
            }
            if self.config.hints == Hinting::Lossy {
                actions.push(Action::LoseHint(client));
            }
        }
        if let Some(call) = state.call() {
            if call.reply.is_some() {
                actions.push(Action::Answer(client));
            } else {
                actions.push(Action::Serve(client));
            }
            actions.extend(lates.iter().map(|&late| Action::GiveUp { client, late }));
        }
        if state.phase != Phase::Idle {
            actions.extend(lates.iter().map(|&late| Action::Drop { client, late }));
        }
        if system.is_over(client) {
            actions.push(Action::Lapse(client));
        }
        for pending in 0..state.pending_leaves.len() {
            let fates = [Fate::Confirmed, Fate::Unanswered, Fate::Late];
            let fates = &fates[..if self.config.late { 3 } else { 2 }];
            actions.extend(fates.iter().map(|&fate| Action::Leave { client, pending, fate }));
        }
        if self.config.crashes > 0 && *state != super::Client::default() {
            actions.push(Action::Crash(client));
        }
        if self.config.hints == Hinting::Subscribed {
            actions.push(if state.deaf { Action::Subscribe(client) } else { Action::Unsubscribe(client) });
        }
    }

    /// The possible fates of a request. A creating request is repeated only by its client, which knows of the repetition.
    fn trips(&self, creates: bool) -> impl Iterator<Item = Trip> + use<> {
        let repeats = self.config.late && (!creates || self.config.leaves_out(Mutation::Repeats));
        let slow = self.config.wire > 0;
        let quick = [Trip::Answered, Trip::RequestLost, Trip::ReplyLost];
        quick.into_iter().chain((slow && repeats).then_some(Trip::Repeated)).chain(slow.then_some(Trip::Slow))
    }

    fn travel(&self, system: &mut SystemState, client: u8, trip: Trip) {
        let asked = system.asked(client);
        if matches!(trip, Trip::Answered | Trip::ReplyLost | Trip::Repeated) {
            system.serve_call(&self.config, client);
        }
        match trip {
            Trip::Answered | Trip::Repeated => system.receive(&self.config, client),
            Trip::RequestLost | Trip::ReplyLost => {
                system.give_up(client);
            }
            Trip::Slow => {}
        }
        system.strays.extend(asked.filter(|_| trip == Trip::Repeated));
    }

    fn happen(&self, system: &mut SystemState, action: Action) {
        let config = &self.config;
        match action {
            Action::Acquire(client, trip) => {
                system.acquire(client);
                system.enter(config, client);
                self.travel(system, client, trip);
            }
            Action::Enter(client, trip) => {
                system.enter(config, client);
                self.travel(system, client, trip);
            }
            Action::Renew(client, trip) => {
                system.renew(config, client);
                self.travel(system, client, trip);
            }
            Action::Serve(client) => system.serve_call(config, client),
            Action::Answer(client) => system.receive(config, client),
            Action::GiveUp { client, late } => {
                let asked = system.give_up(client);
                system.strays.extend(asked.filter(|_| late));
            }
            Action::Drop { client, late } => {
                let asked = system.asked(client).filter(|_| late);
                system.client_mut(client).abandon();
                system.strays.extend(asked);
            }
            Action::Lapse(client) => system.lapse(client),
            Action::Leave { client, pending, fate } => {
                let leave = system.client(client).pending_leaves[pending];
                let request = Request { id: leave.id, verb: Verb::leave(leave.creates()) };
                if fate == Fate::Late {
                    system.strays.push(request);
                } else {
                    system.serve(config, request);
                }
                if fate == Fate::Confirmed {
                    system.client_mut(client).pending_leaves.remove(pending);
                }
            }
            Action::Crash(client) => system.crash(client),
            Action::Arrive(stray) => {
                system.strays.retain(|other| *other != stray);
                system.serve(config, stray);
            }
            Action::Hint(client) => system.take(config, client),
            Action::LoseHint(client) => system.lose_hint(client),
            Action::Unsubscribe(client) => system.unsubscribe(client),
            Action::Subscribe(client) => system.subscribe(config, client),
            Action::Tick { still } => system.tick(config, still),
        }
    }
}
