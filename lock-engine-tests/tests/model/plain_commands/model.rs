//! [`PlainCommands`]: the actions of a system, for the checker.

use std::fmt;

use stateright::{Model, Property};

use super::{
    Config, Mutation, Promise,
    store::{Created, Entered, Store},
};
use crate::types::{Id, Ticks, name};

/// A model to check: a configuration, and its promises.
#[derive(Clone, Debug)]
pub(crate) struct PlainCommands {
    pub(crate) config: Config,
    pub(crate) promises: Vec<Promise>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct System {
    pub(crate) store: Store,
    pub(crate) clients: Vec<Client>,
    /// The largest token that a holder before the present one was told, and who that is, with its largest.
    told: (u8, Option<(Id, u8)>),
    pub(crate) seen: Seen,
    /// Whether a create has arrived after its connection was given up. For `SOMETIMES`.
    pub(crate) arrived_late: bool,
}

/// What must not happen, and whether it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    pub(crate) smaller_token: bool,
    pub(crate) false_loss: bool,
    pub(crate) stranded: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// How often it has acquired.
    lives: u8,
    pub(crate) phase: Phase,
    /// A create on a connection that was given up, which may still arrive.
    late: Option<Id>,
    /// The last one whose leave was answered.
    pub(crate) gone: Option<Id>,
}

/// An age is the time since the last request that proves the lease was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    #[default]
    Idle,
    /// The plain commands were sent; with their answer once they were carried out.
    Asked {
        age: Ticks,
        answer: Option<Created>,
    },
    /// The connection was given up before the answer.
    InDoubt,
    Waiting,
    Holding {
        age: Ticks,
        token: u8,
        has_waited: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Ask(u8),
    /// The server carries out the create.
    Create(u8),
    Receive(u8),
    /// The connection is given up.
    Disconnect(u8),
    CreateLate(u8),
    NeverCreate(u8),
    /// The script. Unanswered, it leaves the caller where it was.
    Enter {
        client: u8,
        answered: bool,
    },
    Renew(u8),
    Leave(u8),
    Crash(u8),
    Tick,
    ExpireQueue,
}

impl Model for PlainCommands {
    type State = System;
    type Action = Action;

    fn init_states(&self) -> Vec<System> {
        let clients = vec![Client::default(); usize::from(self.config.clients)];
        vec![System {
            store: Store::default(),
            clients,
            told: (0, None),
            seen: Seen::default(),
            arrived_late: false,
        }]
    }

    fn actions(&self, system: &System, actions: &mut Vec<Action>) {
        for (client, state) in (0..).zip(&system.clients) {
            let both = [true, false].map(|answered| Action::Enter { client, answered });
            match state.phase {
                Phase::Idle if state.lives < self.config.lives => actions.push(Action::Ask(client)),
                Phase::Idle => {}
                Phase::Asked { answer: None, .. } => {
                    actions.extend([Action::Create(client), Action::Disconnect(client)]);
                }
                Phase::Asked { .. } => actions.extend([Action::Receive(client), Action::Disconnect(client)]),
                Phase::InDoubt | Phase::Waiting => {
                    actions.extend(both);
                    actions.push(Action::Leave(client));
                }
                Phase::Holding { .. } => actions.extend([Action::Renew(client), Action::Leave(client)]),
            }
            if state.phase != Phase::Idle {
                actions.push(Action::Crash(client));
            }
            if state.late.is_some() {
                actions.extend([Action::CreateLate(client), Action::NeverCreate(client)]);
            }
        }
        actions.push(Action::Tick);
        if !system.store.queue.is_empty() && system.store.queue.iter().all(|waiter| waiter.left == 0) {
            actions.push(Action::ExpireQueue);
        }
    }

    fn next_state(&self, system: &System, action: Action) -> Option<System> {
        let mut next = system.clone();
        self.happen(&mut next, action);
        next.follow_tenure();
        next.number_tokens();
        (next != *system).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        self.promises.iter().map(|promise| promise()).collect()
    }
}

impl PlainCommands {
    fn happen(&self, system: &mut System, action: Action) {
        let config = &self.config;
        match action {
            Action::Ask(client) => {
                let client = system.client(client);
                client.lives += 1;
                client.phase = Phase::Asked { age: 0, answer: None };
            }
            Action::Create(client) => {
                let answer = system.store.create(system.id(client), config.ttl);
                if let Phase::Asked { answer: asked, .. } = &mut system.client(client).phase {
                    *asked = Some(answer);
                }
            }
            Action::Receive(client) => self.receive(system, client),
            Action::Disconnect(client) => {
                let id = system.id(client);
                let client = system.client(client);
                if matches!(client.phase, Phase::Asked { answer: None, .. }) {
                    client.late = Some(id);
                }
                client.phase = Phase::InDoubt;
            }
            Action::CreateLate(client) => {
                if let Some(id) = system.client(client).late.take() {
                    system.store.create(id, config.ttl);
                    system.arrived_late = true;
                }
            }
            Action::NeverCreate(client) => system.client(client).late = None,
            Action::Enter { client, answered } => {
                let creates = system.client(client).phase == Phase::InDoubt;
                self.enter(system, client, creates, answered);
            }
            Action::Renew(client) => {
                let id = system.id(client);
                let Phase::Holding { token, has_waited, .. } = system.client(client).phase else { return };
                let renewed = system.store.renew(config, id, token);
                system.seen.false_loss |= !renewed && system.store.has(id);
                system.client(client).phase =
                    if renewed { Phase::Holding { age: 0, token, has_waited } } else { Phase::Idle };
            }
            Action::Leave(client) => self.leave(system, client),
            Action::Crash(client) => system.client(client).phase = Phase::Idle,
            Action::Tick => self.tick(system),
            Action::ExpireQueue => system.store.expire_queue(),
        }
    }

    fn receive(&self, system: &mut System, client: u8) {
        let Phase::Asked { age, answer: Some(answer) } = system.client(client).phase else { return };
        let passes = !answer.queue_existed || self.config.leaves_out(Mutation::IgnoresQueue);
        if answer.set && passes && age < self.config.ttl {
            system.grant(client, answer.token, age, false);
        } else {
            self.enter(system, client, true, true);
        }
    }

    fn enter(&self, system: &mut System, client: u8, creates: bool, answered: bool) {
        let id = system.id(client);
        let entered = system.store.enter(&self.config, id, creates);
        // A tenure that ends within the script has ended before the next one is told its token.
        system.follow_tenure();
        if !answered {
            // It is not known whether it was carried out. Only a waiter knows its place.
            if system.client(client).phase != Phase::Waiting {
                system.client(client).phase = Phase::InDoubt;
            }
            return;
        }
        match entered {
            Entered::Granted(token) => system.grant(client, token, 0, !creates),
            Entered::Waits => system.client(client).phase = Phase::Waiting,
            Entered::Gone => system.client(client).phase = Phase::Idle,
        }
    }

    fn leave(&self, system: &mut System, client: u8) {
        let id = system.id(client);
        if !self.config.leaves_out(Mutation::LeavesWithoutBarrier) {
            system.client(client).late = None;
        }
        if matches!(system.client(client).phase, Phase::Holding { .. }) {
            system.store.release(&self.config, id);
        } else {
            system.store.leave(&self.config, id);
        }
        let waits = system.store.queue.iter().any(|waiter| waiter.left > 0);
        system.seen.stranded |= system.store.holder.is_none() && waits;
        *system.client(client) = Client { phase: Phase::Idle, gone: Some(id), ..*system.client(client) };
    }

    fn tick(&self, system: &mut System) {
        system.store.tick();
        for client in &mut system.clients {
            match &mut client.phase {
                Phase::Asked { age, .. } => *age = (*age + 1).min(self.config.ttl),
                Phase::Holding { age, .. } => {
                    *age += 1;
                    if *age >= self.config.ttl {
                        client.phase = Phase::Idle;
                    }
                }
                Phase::Idle | Phase::InDoubt | Phase::Waiting => {}
            }
        }
    }
}

impl System {
    pub(crate) fn holders(&self) -> usize {
        self.clients.iter().filter(|client| matches!(client.phase, Phase::Holding { .. })).count()
    }

    fn client(&mut self, client: u8) -> &mut Client {
        &mut self.clients[usize::from(client)]
    }

    fn id(&self, client: u8) -> Id {
        Id { client, n: self.clients[usize::from(client)].lives }
    }

    fn grant(&mut self, client: u8, token: u8, age: Ticks, has_waited: bool) {
        let id = self.id(client);
        if let (before, Some((present, told))) = &mut self.told
            && *present == id
        {
            self.seen.smaller_token |= token <= *before;
            *told = token.max(*told);
        }
        self.client(client).phase = Phase::Holding { age, token, has_waited };
    }

    /// Only the order of tokens counts: renumbered, the states are finite.
    fn number_tokens(&mut self) {
        let mut tokens: Vec<&mut u8> = vec![&mut self.told.0];
        tokens.extend(self.told.1.as_mut().map(|(_, told)| told));
        tokens.extend(self.store.holder.as_mut().and_then(|holder| holder.token.as_mut()));
        tokens.extend(self.store.queue.iter_mut().map(|waiter| &mut waiter.token));
        tokens.extend(self.clients.iter_mut().filter_map(|client| match &mut client.phase {
            Phase::Asked { answer: Some(answer), .. } => Some(&mut answer.token),
            Phase::Holding { token, .. } => Some(token),
            _ => None,
        }));
        let mut order: Vec<u8> = tokens.iter().map(|token| **token).filter(|token| *token > 0).collect();
        order.sort_unstable();
        order.dedup();
        for token in tokens {
            *token = order.partition_point(|other| *other < *token) as u8 + u8::from(*token > 0);
        }
        self.store.counter = order.len() as u8;
    }

    /// Notices that the lock has another holder than before.
    fn follow_tenure(&mut self) {
        let holder = self.store.holder.map(|holder| holder.id);
        let (before, present) = &mut self.told;
        if present.map(|(id, _)| id) != holder {
            let told = present.map_or(0, |(_, told)| told);
            *before = told.max(*before);
            *present = holder.map(|id| (id, 0));
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.store.holder {
            None => write!(f, "free")?,
            Some(holder) => {
                let token = holder.token.map_or("-".into(), |token| token.to_string());
                let mark = if holder.marked { "+" } else { ":" };
                write!(f, "{:?}{mark}{token} for {}", holder.id, holder.left)?;
            }
        }
        for waiter in &self.store.queue {
            write!(f, ", then {:?}:{} for {}", waiter.id, waiter.token, waiter.left)?;
        }
        for (client, state) in (0..).zip(&self.clients) {
            write!(f, " · {} {:?}", name(client), state.phase)?;
            if let Some(late) = state.late {
                write!(f, " ({late:?} may still arrive)")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ask(client) => write!(f, "{} sends a create", name(client)),
            Self::Create(client) => write!(f, "the create of {} is carried out", name(client)),
            Self::Receive(client) => write!(f, "{} gets its answer", name(client)),
            Self::Disconnect(client) => write!(f, "{} gives its connection up", name(client)),
            Self::CreateLate(client) => write!(f, "a create of {} arrives late", name(client)),
            Self::NeverCreate(client) => write!(f, "a create of {} can arrive no more", name(client)),
            Self::Enter { client, answered } => {
                let answered = if answered { "" } else { ", without an answer" };
                write!(f, "{} enters by the script{answered}", name(client))
            }
            Self::Renew(client) => write!(f, "{} renews", name(client)),
            Self::Leave(client) => write!(f, "{} leaves", name(client)),
            Self::Crash(client) => write!(f, "{} crashes", name(client)),
            Self::Tick => write!(f, "time goes by"),
            Self::ExpireQueue => write!(f, "the queue of the dead expires"),
        }
    }
}
