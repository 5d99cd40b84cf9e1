//! [`Store`]: the queue of one name, in a store whose entries have leases of their own.

use lock_core::{Creates, admission};

use super::{Config, Id, Mutation, Purging, Ticks, Token};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    /// In the order of creation. Dead entries stay until a verb removes them.
    pub(crate) rows: Vec<Row>,
    /// The last token that was issued.
    pub(crate) counter: Token,
    /// Tombstones: entries whose creates may still be in flight, and must not be carried out.
    pub(crate) closed: Vec<Id>,
    /// Only without PR19: how long the data that the entries share lives on.
    pub(crate) shared: Option<Ticks>,
    /// A verb has not admitted an entry that fits.
    pub(crate) forgot: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) id: Id,
    pub(crate) token: Token,
    pub(crate) lease: Ticks,
    pub(crate) admitted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Request {
    pub(crate) id: Id,
    pub(crate) verb: Verb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Verb {
    Create,
    Again(Token),
    /// `meant`: what is left of the requested lease. Always the ttl, except without PR04.
    Renew {
        token: Token,
        meant: Ticks,
    },
    Leave {
        in_doubt: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Admitted(Token),
    /// `look_again`: when a lease ends that keeps the entry out. Only without PR13, when waiters rely on it alone.
    Waiting {
        token: Token,
        look_again: Ticks,
    },
    Gone,
    Mismatch,
    Renewed,
    Lost,
    Left,
}

/// The hint "you hold it": the entry and its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Hint {
    pub(crate) id: Id,
    pub(crate) token: Token,
}

impl Verb {
    pub(crate) fn leave(creates: Creates) -> Self {
        Self::Leave { in_doubt: creates == Creates::InDoubt }
    }
}

impl Store {
    /// Carries out one verb. Returns the answer, and hints for the entries that it admitted.
    pub(crate) fn serve(&mut self, config: &Config, request: Request) -> (Reply, Vec<Hint>) {
        let Request { id, verb } = request;
        let ttl = config.ttl(id.client);
        // PR06: first judge the expiry of its own entry.
        if !config.leaves_out(Mutation::Pr06) {
            self.rows.retain(|row| row.id != id || row.lease > 0);
        }
        if config.purging == Purging::Eager || verb == Verb::Create {
            self.rows.retain(|row| row.lease > 0 || row.id == id);
        }
        let known = self.row(id).map(|row| row.token);
        let reply = match verb {
            Verb::Create if known.is_none() => self.create(config, id),
            Verb::Create => self.refresh(config, id, ttl).and(known).map(Reply::Admitted),
            Verb::Again(token) if known == Some(token) => {
                self.refresh(config, id, ttl);
                Some(Reply::Admitted(token))
            }
            Verb::Renew { token, meant } if known == Some(token) => {
                self.refresh(config, id, meant);
                Some(Reply::Renewed)
            }
            Verb::Renew { .. } => Some(Reply::Lost),
            Verb::Again(_) => Some(Reply::Gone),
            Verb::Leave { in_doubt } => return (Reply::Left, self.leave(config, id, in_doubt)),
        };
        let hints = self.settle(config, id, false);
        match reply {
            Some(Reply::Admitted(token)) => (self.standing(config, id, token), hints),
            reply => (reply.unwrap_or(Reply::Gone), hints),
        }
    }

    /// `Admitted` means only that the entry exists; whether it is admitted is decided when the queue is settled.
    fn create(&mut self, config: &Config, id: Id) -> Option<Reply> {
        let claim = config.claim(id.client);
        let agrees = |row: &Row| config.claim(row.id.client).agrees_with(&claim);
        if self.closed.contains(&id) {
            return Some(Reply::Gone);
        }
        if !config.leaves_out(Mutation::Pr07) && !self.rows.iter().all(agrees) {
            return Some(Reply::Mismatch);
        }
        self.counter = Token(self.counter.0 + 1);
        let held = self.rows.iter().filter(|row| row.admitted && row.lease > 0);
        let free = held.map(|row| u64::from(config.claim(row.id.client).permits())).sum();
        self.push(config, id, self.counter);
        // PR12: but no entry passes a queue.
        if config.leaves_out(Mutation::Pr12) && admission::fits(free, claim) {
            self.rows.last_mut()?.admitted = true;
        }
        Some(Reply::Admitted(self.counter))
    }

    fn push(&mut self, config: &Config, id: Id, token: Token) {
        let lease = config.ttl(id.client);
        self.rows.push(Row { id, token, lease, admitted: false });
        self.wrote(config, lease);
    }

    /// PR04: a lease never shrinks.
    fn refresh(&mut self, config: &Config, id: Id, lease: Ticks) -> Option<()> {
        let row = self.rows.iter_mut().find(|row| row.id == id)?;
        row.lease = if config.leaves_out(Mutation::Pr04) { lease } else { row.lease.max(lease) };
        self.wrote(config, lease);
        Some(())
    }

    /// PR19: the data that the entries share lives as long as the longest lease; without the rule it does not.
    fn wrote(&mut self, config: &Config, lease: Ticks) {
        if config.leaves_out(Mutation::Pr19) {
            self.shared = Some(lease);
        }
    }

    fn leave(&mut self, config: &Config, id: Id, in_doubt: bool) -> Vec<Hint> {
        let place = self.rows.iter().position(|row| row.id == id);
        let place =
            if config.leaves_out(Mutation::B05) { place.or(self.rows.first().map(|_| 0)) } else { place };
        let held = place.map(|place| self.rows.remove(place)).is_some_and(|row| row.admitted);
        // PR08: refuses creates that are still in flight.
        if in_doubt && !config.leaves_out(Mutation::Pr08) && !self.closed.contains(&id) {
            self.closed.push(id);
        }
        self.settle(config, id, held)
    }

    /// PR11, the last step of every verb: admits all entries that now fit, and sends a hint to each, except the one that is answered.
    fn settle(&mut self, config: &Config, served: Id, holder_left: bool) -> Vec<Hint> {
        let everyone = !config.leaves_out(Mutation::Pr11) || holder_left;
        let live = self.rows.iter().filter(|row| row.lease > 0).map(|row| config.claim(row.id.client));
        let admitted = admission::admitted(live);
        let mut hints = Vec::new();
        for row in self.rows.iter_mut().filter(|row| row.lease > 0).take(admitted) {
            if row.admitted || !(everyone || row.id == served) {
                continue;
            }
            row.admitted = true;
            if row.id != served {
                hints.push(Hint { id: row.id, token: row.token });
            }
        }
        let mut live = self.rows.iter().filter(|row| row.lease > 0);
        self.forgot |= live.by_ref().take(admitted).any(|row| !row.admitted);
        if self.rows.is_empty() {
            self.shared = None;
            if config.leaves_out(Mutation::C02) {
                self.counter = Token(0);
            }
        }
        hints
    }

    fn standing(&self, config: &Config, id: Id, token: Token) -> Reply {
        match self.row(id) {
            Some(row) if row.admitted => Reply::Admitted(token),
            Some(_) if config.leaves_out(Mutation::Pr13) => {
                Reply::Waiting { token, look_again: self.look_again(config, id) }
            }
            Some(_) => Reply::Waiting { token, look_again: 0 },
            None => Reply::Gone,
        }
    }

    /// When the first of the leases ends that keep an entry out.
    fn look_again(&self, config: &Config, id: Id) -> Ticks {
        let nearest = || self.rows.iter().rev().skip_while(|row| row.id != id).skip(1);
        let claims = nearest().map(|row| config.claim(row.id.client));
        let blockers = admission::blockers(config.claim(id.client), claims).unwrap_or(0);
        nearest().take(blockers).map(|row| row.lease).min().unwrap_or(0)
    }

    pub(crate) fn tick(&mut self, config: &Config) {
        for row in &mut self.rows {
            row.lease = row.lease.saturating_sub(1);
        }
        if config.purging == Purging::Eager {
            // Every verb would do it before anything else.
            self.rows.retain(|row| row.lease > 0);
        }
        self.shared = self.shared.map(|left| left.saturating_sub(1));
        if self.shared == Some(0) {
            self.rows.clear();
            self.shared = None;
        }
    }

    pub(crate) fn row(&self, id: Id) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }
}
