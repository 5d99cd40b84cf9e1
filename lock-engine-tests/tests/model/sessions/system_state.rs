//! [`SystemState`]: the store, and what each client knows.

use std::fmt;

use lock_core::admission;

use super::{Config, Mutation};
use crate::types::{Id, Ticks, name};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SystemState {
    /// The entries, in the order of their creation.
    pub(crate) keys: Vec<Id>,
    /// What is left of the session of each client, as the store has it.
    pub(crate) leases: Vec<Ticks>,
    pub(crate) clients: Vec<Client>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// How long the session may be relied on.
    pub(crate) session: Ticks,
    pub(crate) phase: Phase,
    /// Forgotten entries, and when the keeper will remove them.
    pub(crate) forgotten: Vec<(Id, Ticks)>,
    /// Entries that the keeper has to remove.
    pub(crate) pending_leaves: Vec<Id>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Seeking {
        id: Id,
        watch: Option<Watch>,
    },
    Holding {
        id: Id,
        valid: Ticks,
        /// How long the lock was still relied on when an operator deleted its entry.
        evicted: Option<Ticks>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Watch {
    /// The blockers and the waiter's own entry.
    pub(crate) keys: Vec<Id>,
    /// By how much the entries ahead at the last look and the waiter's own exceed the limit.
    pub(crate) over: i64,
    /// Events of deletions in flight, in their order.
    pub(crate) events: Vec<Id>,
}

impl SystemState {
    pub(crate) fn new(config: &Config) -> Self {
        let n = config.claims.len();
        Self { keys: Vec::new(), leases: vec![0; n], clients: vec![Client::default(); n] }
    }

    pub(crate) fn client(&self, client: u8) -> &Client {
        &self.clients[usize::from(client)]
    }

    pub(crate) fn client_mut(&mut self, client: u8) -> &mut Client {
        &mut self.clients[usize::from(client)]
    }

    pub(crate) fn lease(&mut self, client: u8) -> &mut Ticks {
        &mut self.leases[usize::from(client)]
    }

    pub(crate) fn fresh_id(&self, client: u8) -> Id {
        let watched = |id: Id, phase: &Phase| match phase {
            Phase::Seeking { watch: Some(watch), .. } => watch.keys.contains(&id),
            _ => false,
        };
        let known = |id: Id| {
            self.keys.contains(&id)
                || self.client(client).knows(id)
                || self.clients.iter().any(|client| watched(id, &client.phase))
        };
        (0..u8::MAX).map(|n| Id { client, n }).find(|&id| !known(id)).expect("few are known")
    }

    /// The entry that a client is at is its number 0; the others follow in the order of the queue.
    pub(crate) fn number_entries(&mut self) {
        let current = self.clients.iter().filter_map(Client::id);
        let mut known: Vec<Id> = Vec::with_capacity(8);
        let watches = self.clients.iter().flat_map(|client| match &client.phase {
            Phase::Seeking { watch: Some(watch), .. } => watch.keys.clone(),
            _ => Vec::new(),
        });
        for id in current.chain(self.keys.iter().copied()).chain(watches) {
            if !known.contains(&id) {
                known.push(id);
            }
        }
        self.for_ids(&mut |id| {
            let same = known.iter().filter(|other| other.client == id.client);
            // A client has only a few entries.
            id.n = same.take_while(|other| *other != id).count() as u8;
        });
    }

    fn for_ids(&mut self, each: &mut dyn FnMut(&mut Id)) {
        self.keys.iter_mut().for_each(&mut *each);
        for client in &mut self.clients {
            client.pending_leaves.iter_mut().for_each(&mut *each);
            client.forgotten.iter_mut().for_each(|(id, _)| each(id));
            match &mut client.phase {
                Phase::Idle => {}
                Phase::Holding { id, .. } | Phase::Seeking { id, watch: None } => each(id),
                Phase::Seeking { id, watch: Some(watch) } => {
                    each(id);
                    watch.keys.iter_mut().chain(&mut watch.events).for_each(&mut *each);
                }
            }
        }
    }

    /// Asks for the lock, over a new session if there is none.
    pub(crate) fn acquire(&mut self, config: &Config, client: u8) {
        if self.client(client).session == 0 {
            self.client_mut(client).session = config.ttl;
            *self.lease(client) = config.ttl;
        }
        let id = self.fresh_id(client);
        self.client_mut(client).phase = Phase::Seeking { id, watch: None };
    }

    /// Creates the entry if the first look was not answered, and looks which entries are ahead.
    pub(crate) fn look(&mut self, config: &Config, client: u8, answered: bool) {
        let Phase::Seeking { id, watch } = self.client(client).phase.clone() else { return };
        let found = self.keys.contains(&id);
        if *self.lease(client) == 0 {
            if answered {
                self.lose_session(client);
            }
            return;
        }
        if !found && watch.is_none() {
            self.keys.push(id);
        }
        if answered {
            self.judge(config, id, found && watch.is_none());
        }
    }

    fn judge(&mut self, config: &Config, id: Id, was_there: bool) {
        let Some(place) = self.keys.iter().position(|key| *key == id) else {
            return self.start_over(id.client);
        };
        let mut ahead = self.keys[..place].to_vec();
        // PR17: entries behind the client's own are not ahead of it.
        if was_there && config.leaves_out(Mutation::Pr17) {
            ahead = self.keys.iter().copied().filter(|key| *key != id).collect();
        }
        let claim = config.claim(id);
        let sum: i64 = ahead.iter().map(|key| i64::from(config.claim(*key).permits())).sum();
        if admission::fits(sum.unsigned_abs(), claim) {
            return self.grant(config, id);
        }
        let nearest = ahead.iter().rev().map(|key| config.claim(*key));
        // PR15: the nearest entries ahead that keep it out, and no fewer.
        let blockers = admission::blockers(claim, nearest).unwrap_or(0);
        let blockers = if config.leaves_out(Mutation::Pr15) { 1 } else { blockers };
        let mut keys: Vec<Id> = ahead.into_iter().rev().take(blockers).collect();
        keys.push(id);
        let over = sum + i64::from(claim.permits()) - i64::from(claim.limit());
        let watch = Some(Watch { keys, over, events: Vec::new() });
        self.client_mut(id.client).phase = Phase::Seeking { id, watch };
    }

    fn grant(&mut self, config: &Config, id: Id) {
        // An operator has deleted the entry, and the event is in flight.
        let deleted = !self.keys.contains(&id);
        let client = self.client_mut(id.client);
        // PR01: for as long as the session was proved alive.
        let valid = if config.leaves_out(Mutation::Pr01) { config.ttl } else { client.session };
        client.phase = if valid == 0 {
            client.pending_leaves.push(id);
            Phase::Idle
        } else {
            Phase::Holding { id, valid, evicted: deleted.then_some(valid) }
        };
    }

    /// An event of the watch: a grant if no read is needed, otherwise a reason to look again.
    pub(crate) fn event(&mut self, config: &Config, client: u8) {
        let Phase::Seeking { id, watch: Some(watch) } = &mut self.client_mut(client).phase else { return };
        let (id, gone) = (*id, watch.events.remove(0));
        if gone == id {
            return self.start_over(client);
        }
        watch.over -= i64::from(config.claim(gone).permits());
        // PR16: computed from what the look has seen.
        if watch.over <= 0 || config.leaves_out(Mutation::Pr16) {
            self.grant(config, id);
        } else {
            self.judge(config, id, false);
        }
    }

    pub(crate) fn keep_alive(&mut self, config: &Config, client: u8, answered: bool) {
        if *self.lease(client) == 0 {
            if answered {
                self.lose_session(client);
            }
            return;
        }
        *self.lease(client) = config.ttl;
        if !answered {
            return;
        }
        self.client_mut(client).session = config.ttl;
        let keys = self.keys.clone();
        if let Phase::Holding { id, valid, .. } = &mut self.client_mut(client).phase {
            // PR18: the entry itself has to be seen, too.
            if keys.contains(id) || config.leaves_out(Mutation::Pr18) {
                *valid = if *valid > 0 { config.ttl } else { 0 };
            } else {
                *valid = 0;
            }
        }
    }

    /// The store reports that the session is over, and with it all entries.
    fn lose_session(&mut self, client: u8) {
        let seeks = matches!(self.client(client).phase, Phase::Seeking { .. });
        *self.client_mut(client) = Client::default();
        if seeks {
            let id = self.fresh_id(client);
            self.client_mut(client).phase = Phase::Seeking { id, watch: None };
        }
    }

    fn start_over(&mut self, client: u8) {
        self.client_mut(client).phase = Phase::Idle;
        let id = self.fresh_id(client);
        self.client_mut(client).phase = Phase::Seeking { id, watch: None };
    }

    pub(crate) fn delete(&mut self, id: Id) {
        if !self.keys.contains(&id) {
            return;
        }
        self.keys.retain(|key| *key != id);
        for client in &mut self.clients {
            if let Phase::Seeking { watch: Some(watch), .. } = &mut client.phase
                && watch.keys.contains(&id)
                // An entry that was created again since is behind the waiter's own.
                && !watch.events.contains(&id)
            {
                watch.events.push(id);
            }
        }
    }

    /// The store ends a session.
    pub(crate) fn end_session(&mut self, client: u8) {
        *self.lease(client) = 0;
        let theirs: Vec<Id> = self.keys.iter().copied().filter(|key| key.client == client).collect();
        for key in theirs {
            self.delete(key);
        }
    }

    pub(crate) fn evict(&mut self, key: Id) {
        self.delete(key);
        if let Phase::Holding { id, valid, evicted } = &mut self.client_mut(key.client).phase
            && *id == key
        {
            *evicted = Some(*valid);
        }
    }

    pub(crate) fn tick(&mut self, config: &Config) {
        for client in config.clients() {
            let lease = self.lease(client);
            *lease = lease.saturating_sub(1);
            if *lease == 0 {
                self.end_session(client);
            }
            let client = self.client_mut(client);
            client.session = client.session.saturating_sub(1);
            client.forgotten.iter_mut().for_each(|(_, timer)| *timer = timer.saturating_sub(1));
            if let Phase::Holding { valid, evicted, .. } = &mut client.phase {
                *valid = valid.saturating_sub(1);
                *evicted = evicted.map(|left| left.saturating_sub(1));
            }
        }
    }
}

impl Client {
    pub(crate) fn id(&self) -> Option<Id> {
        match self.phase {
            Phase::Idle => None,
            Phase::Seeking { id, .. } | Phase::Holding { id, .. } => Some(id),
        }
    }

    pub(crate) fn knows(&self, id: Id) -> bool {
        self.id() == Some(id)
            || self.pending_leaves.contains(&id)
            || self.forgotten.iter().any(|(key, _)| *key == id)
    }

    /// Whether it believes that it holds the lock, and no operator has just taken it away.
    pub(crate) fn holds(&self) -> bool {
        matches!(self.phase, Phase::Holding { valid: 1.., evicted: None | Some(0), .. })
    }
}

/// One line: the entries, and each client.
impl fmt::Display for SystemState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue {:?}", self.keys)?;
        for (client, state) in (0..).zip(&self.clients) {
            let lease = self.leases[usize::from(client)];
            write!(f, " · {} (session {lease}, known {})", name(client), state.session)?;
            match &state.phase {
                Phase::Idle => f.write_str(" idle")?,
                Phase::Seeking { id, watch: None } => write!(f, " seeks with {id:?}")?,
                Phase::Seeking { id, watch: Some(watch) } => {
                    write!(f, " waits with {id:?} for {:?}", watch.keys)?;
                    write!(f, " events {:?}", watch.events)?;
                }
                Phase::Holding { id, valid, .. } => write!(f, " HOLDS with {id:?} for {valid}")?,
            }
            if !(state.pending_leaves.is_empty() && state.forgotten.is_empty()) {
                write!(f, " owes {:?}, forgot {:?}", state.pending_leaves, state.forgotten)?;
            }
        }
        Ok(())
    }
}
