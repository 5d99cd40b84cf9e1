//! Canonical states: states that differ only in details without any further effect become one, so that the number of states is finite and
//! small.

use super::{Call, Config, Guard, Id, Mutation, Phase, Place, Reply, SystemState, Token, Verb};

impl SystemState {
    /// Forgets what no request can change, sorts sets, and numbers entries and tokens without gaps.
    pub(crate) fn settle(&mut self, config: &Config) {
        let Self { store, clients, strays, written_off, .. } = self;
        strays.retain(|stray| match stray.verb {
            Verb::Create => store.row(stray.id).is_some() || !store.closed.contains(&stray.id),
            Verb::Again(token) | Verb::Renew { token, .. } => {
                store.row(stray.id).is_some_and(|row| row.token == token)
            }
            Verb::Leave { .. } => store.row(stray.id).is_some(),
        });
        store.closed.retain(|id| strays.iter().any(|stray| stray.id == *id && stray.verb == Verb::Create));
        for client in clients.iter_mut() {
            client.settle(config, store, strays);
        }
        written_off.retain(|id| store.row(*id).is_some() || strays.iter().any(|stray| stray.id == *id));
        self.number_entries();
        self.sort();
        self.number_tokens(config);
    }

    fn sort(&mut self) {
        self.strays.sort_unstable();
        self.store.closed.sort_unstable();
        self.written_off.sort_unstable();
        self.written_off.dedup();
        for client in &mut self.clients {
            client.pending_leaves.sort_unstable();
        }
    }

    /// The entry that a client is at is its number 0; the others follow in the order of the queue.
    fn number_entries(&mut self) {
        let current = self.clients.iter().filter_map(super::Client::id);
        let queued = self.store.rows.iter().map(|row| row.id);
        let late = self.strays.iter().map(|stray| stray.id);
        let mut known: Vec<Id> = Vec::with_capacity(8);
        for id in current.chain(queued).chain(late) {
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

    /// Without a history, only whether tokens of one client are the same counts: the queue is in their order.
    fn number_tokens(&mut self, config: &Config) {
        // In a counterexample, readers want to see tokens grow.
        let apart = !config.history && config.mutation.is_none();
        let of = |client| if apart { client } else { 0 };
        let counter = self.store.counter;
        let mut known = vec![(0, counter)];
        self.for_tokens(&mut |client, token| known.push((of(client), *token)));
        known.sort_unstable();
        known.dedup();
        let rank = |client: u8, token: Token| {
            let smaller =
                |(other, less): &&(u8, Token)| *other == of(client) && Token(0) < *less && *less < token;
            // There are only a few tokens in one state.
            Token(u8::from(token > Token(0)) + known.iter().filter(smaller).count() as u8)
        };
        let mut last = Token(0);
        self.for_tokens(&mut |client, token| {
            *token = rank(client, *token);
            last = last.max(*token);
        });
        // The next token will be larger than any known one.
        self.store.counter = if config.leaves_out(Mutation::C02) { rank(0, counter) } else { last };
    }

    fn for_ids(&mut self, each: &mut dyn FnMut(&mut Id)) {
        for client in &mut self.clients {
            match &mut client.phase {
                Phase::Idle => {}
                Phase::Seeking(Place { id, .. }) | Phase::Holding(Guard { id, .. }) => each(id),
            }
            client.pending_leaves.iter_mut().for_each(|pending| each(&mut pending.id));
        }
        self.store.rows.iter_mut().for_each(|row| each(&mut row.id));
        self.strays.iter_mut().for_each(|stray| each(&mut stray.id));
        self.store.closed.iter_mut().chain(&mut self.written_off).for_each(each);
    }

    fn for_tokens(&mut self, each: &mut dyn FnMut(u8, &mut Token)) {
        each(0, &mut self.returned);
        self.store.rows.iter_mut().for_each(|row| each(row.id.client, &mut row.token));
        self.strays.iter_mut().for_each(|stray| for_token_of(stray.id.client, &mut stray.verb, each));
        for (client, state) in (0..).zip(&mut self.clients) {
            match &mut state.phase {
                Phase::Idle => {}
                Phase::Seeking(place) => {
                    each(client, &mut place.asked_after);
                    place.token.iter_mut().chain(&mut place.hint).for_each(|token| each(client, token));
                    place.listening.iter_mut().for_each(|listening| each(client, &mut listening.token));
                    place.call.iter_mut().for_each(|call| for_tokens_of(client, call, each));
                }
                Phase::Holding(guard) => {
                    each(client, &mut guard.token);
                    guard.call.iter_mut().for_each(|call| for_tokens_of(client, call, each));
                }
            }
        }
    }
}

fn for_tokens_of(client: u8, call: &mut Call, each: &mut dyn FnMut(u8, &mut Token)) {
    for_token_of(client, &mut call.verb, each);
    if let Some(Reply::Admitted(token) | Reply::Waiting { token, .. }) = &mut call.reply {
        each(client, token);
    }
}

fn for_token_of(client: u8, verb: &mut Verb, each: &mut dyn FnMut(u8, &mut Token)) {
    if let Verb::Again(token) | Verb::Renew { token, .. } = verb {
        each(client, token);
    }
}
