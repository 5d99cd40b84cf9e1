//! [`Sessions`]: the actions of a system, for the checker.

use std::fmt;

use stateright::{Model, Property};

use super::{Client, Config, Mutation, Phase, Promise, SystemState};
use crate::types::{Id, name};

/// A model to check: a configuration, and its promises.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    pub(crate) config: Config,
    pub(crate) promises: Vec<Promise>,
}

/// An action. A request that is not answered may have been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Acquire(u8),
    Look {
        client: u8,
        answered: bool,
    },
    Event(u8),
    KeepAlive {
        client: u8,
        answered: bool,
    },
    /// The future or the guard is dropped.
    Drop(u8),
    /// The future is not polled any more, or the guard is leaked.
    Forget(u8),
    /// The keeper sees that a deadline has passed.
    Lapse(u8),
    Leave {
        client: u8,
        answered: bool,
    },
    /// A session that is not relied on any more is ended.
    Revoke(u8),
    Crash(u8),
    Evict(Id),
    Tick,
}

impl Model for Sessions {
    type State = SystemState;
    type Action = Action;

    fn init_states(&self) -> Vec<SystemState> {
        vec![SystemState::new(&self.config)]
    }

    fn actions(&self, system: &SystemState, actions: &mut Vec<Action>) {
        for client in self.config.clients() {
            self.actions_of(system, client, actions);
        }
        if self.config.evictions {
            actions.extend(system.keys.iter().map(|key| Action::Evict(*key)));
        }
        actions.push(Action::Tick);
    }

    fn next_state(&self, system: &SystemState, action: Action) -> Option<SystemState> {
        let mut next = system.clone();
        self.happen(&mut next, action);
        for client in &mut next.clients {
            client.pending_leaves.retain(|id| next.keys.contains(id));
            client.forgotten.retain(|(id, _)| next.keys.contains(id));
        }
        next.number_entries();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        self.promises.iter().map(|promise| promise()).collect()
    }

    fn within_boundary(&self, system: &SystemState) -> bool {
        let left: usize =
            system.clients.iter().map(|client| client.pending_leaves.len() + client.forgotten.len()).sum();
        left <= self.config.left_behind
            && system.keys.len() <= self.config.claims.len() + self.config.left_behind
    }
}

impl Sessions {
    fn actions_of(&self, system: &SystemState, client: u8, actions: &mut Vec<Action>) {
        let state = system.client(client);
        let lease = system.leases[usize::from(client)];
        let both = [true, false];
        match &state.phase {
            // A new process waits until the session of its predecessor is over, which reduces the number of states.
            Phase::Idle if state.session > 0 || lease == 0 => actions.push(Action::Acquire(client)),
            Phase::Seeking { watch: None, .. } if state.session > 0 => {
                actions.extend(both.map(|answered| Action::Look { client, answered }));
            }
            Phase::Seeking { watch: None, .. } if lease == 0 => actions.push(Action::Acquire(client)),
            Phase::Seeking { watch: Some(watch), .. } if !watch.events.is_empty() => {
                actions.push(Action::Event(client));
            }
            Phase::Holding { valid: 0, .. } => actions.push(Action::Lapse(client)),
            _ => {}
        }
        if (1..self.config.ttl).contains(&state.session) {
            actions.extend(both.map(|answered| Action::KeepAlive { client, answered }));
        }
        if state.session == 0 && lease > 0 {
            actions.push(Action::Revoke(client));
        }
        if state.phase != Phase::Idle {
            actions.extend([Action::Drop(client), Action::Forget(client)]);
        }
        if state.forgotten.iter().any(|(_, timer)| *timer == 0) {
            actions.push(Action::Lapse(client));
        }
        if !state.pending_leaves.is_empty() {
            actions.extend(both.map(|answered| Action::Leave { client, answered }));
        }
        if self.config.crashes && *state != Client::default() {
            actions.push(Action::Crash(client));
        }
    }

    fn happen(&self, system: &mut SystemState, action: Action) {
        let config = &self.config;
        match action {
            Action::Acquire(client) => system.acquire(config, client),
            Action::Look { client, answered } => system.look(config, client, answered),
            Action::Event(client) => system.event(config, client),
            Action::KeepAlive { client, answered } => system.keep_alive(config, client, answered),
            Action::Drop(client) => {
                let state = system.client_mut(client);
                state.pending_leaves.extend(state.id());
                state.phase = Phase::Idle;
            }
            Action::Forget(client) => {
                let state = system.client_mut(client);
                let id = state.id().filter(|_| !config.leaves_out(Mutation::Pr09));
                state.forgotten.extend(id.map(|id| (id, config.ttl)));
                state.phase = Phase::Idle;
            }
            Action::Lapse(client) => {
                let state = system.client_mut(client);
                if let Phase::Holding { id, valid: 0, .. } = state.phase {
                    state.pending_leaves.push(id);
                    state.phase = Phase::Idle;
                }
                let (over, left) = state.forgotten.iter().partition(|(_, timer)| *timer == 0);
                let _: &Vec<(Id, u8)> = &over;
                state.pending_leaves.extend(over.into_iter().map(|(id, _)| id));
                state.forgotten = left;
            }
            Action::Leave { client, answered } => {
                let id = system.client(client).pending_leaves[0];
                system.delete(id);
                if answered {
                    system.client_mut(client).pending_leaves.remove(0);
                }
            }
            Action::Revoke(client) => system.end_session(client),
            Action::Crash(client) => *system.client_mut(client) = Client::default(),
            Action::Evict(id) => system.evict(id),
            Action::Tick => system.tick(config),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = |answered| if answered { "" } else { ": done, the answer is lost" };
        match *self {
            Self::Acquire(c) => write!(f, "{} asks for the lock", name(c)),
            Self::Look { client, answered } => write!(f, "{} looks{}", name(client), lost(answered)),
            Self::Event(c) => write!(f, "{} gets the event of a departure", name(c)),
            Self::KeepAlive { client, answered } => {
                write!(f, "{} keeps its session alive{}", name(client), lost(answered))
            }
            Self::Drop(c) => write!(f, "{} drops its future or guard", name(c)),
            Self::Forget(c) => write!(f, "{} forgets its future or guard", name(c)),
            Self::Lapse(c) => write!(f, "the keeper of {} sees that a deadline has passed", name(c)),
            Self::Leave { client, answered } => {
                write!(f, "the keeper of {} leaves{}", name(client), lost(answered))
            }
            Self::Revoke(c) => write!(f, "{} ends its session", name(c)),
            Self::Crash(c) => write!(f, "{} crashes, and starts again", name(c)),
            Self::Evict(id) => write!(f, "an operator deletes {id:?}"),
            Self::Tick => f.write_str("time goes by"),
        }
    }
}
