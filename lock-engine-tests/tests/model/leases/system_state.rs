//! [`SystemState`]: the state of the store, the clients, and the messages between them.

use super::{Client, Config, Guard, Id, Mutation, Phase, Place, Reply, Request, Store, Ticks, Token, Verb};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SystemState {
    pub(crate) store: Store,
    pub(crate) clients: Vec<Client>,
    /// Requests that no client waits for any more, but that may still arrive.
    pub(crate) strays: Vec<Request>,
    /// Entries of clients that have crashed since.
    pub(crate) written_off: Vec<Id>,
    /// The largest token that was returned to any client.
    pub(crate) returned: Token,
    /// A grant was returned whose token is not larger than one that was returned before the grant was requested.
    pub(crate) disorder: bool,
}

impl SystemState {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            store: Store::default(),
            clients: vec![Client::default(); config.claims.len()],
            strays: Vec::new(),
            written_off: Vec::new(),
            returned: Token(0),
            disorder: false,
        }
    }

    pub(crate) fn client(&self, client: u8) -> &Client {
        &self.clients[usize::from(client)]
    }

    pub(crate) fn client_mut(&mut self, client: u8) -> &mut Client {
        &mut self.clients[usize::from(client)]
    }

    /// An id that is not in use.
    pub(crate) fn fresh_id(&self, client: u8) -> Id {
        let mut ids = (0..u8::MAX).map(|n| Id { client, n });
        ids.find(|&id| !self.remembers(id)).expect("few are remembered")
    }

    fn remembers(&self, id: Id) -> bool {
        self.client(id.client).knows(id) || self.is_abroad(id)
    }

    /// Whether the store or a request in flight knows the entry.
    fn is_abroad(&self, id: Id) -> bool {
        self.store.row(id).is_some()
            || self.strays.iter().any(|stray| stray.id == id)
            || self.store.closed.contains(&id)
    }

    /// The store carries out a request, and sends hints.
    pub(crate) fn serve(&mut self, config: &Config, request: Request) -> Reply {
        let (reply, hints) = self.store.serve(config, request);
        for hint in hints {
            let heir = self.client_mut(hint.id.client);
            match &mut heir.phase {
                Phase::Seeking(place) if place.id == hint.id && !heir.deaf => {
                    // C6: the stream is live before the standing is judged.
                    let missed = config.leaves_out(Mutation::C06) && place.call.is_some();
                    place.hint = (!missed).then_some(hint.token).or(place.hint);
                }
                _ => {}
            }
        }
        reply
    }

    /// The store carries out the request that a client waits for.
    pub(crate) fn serve_call(&mut self, config: &Config, client: u8) {
        let Some(request) = self.asked(client) else { return };
        let reply = self.serve(config, request);
        if let Some(call) = self.client_mut(client).call_mut() {
            call.reply = Some(reply);
        }
    }

    /// Time goes by, but not on the clocks that stand still.
    pub(crate) fn tick(&mut self, config: &Config, still: u8) {
        self.store.tick(config);
        for client in config.clients().filter(|client| still & (1 << client) == 0) {
            self.client_mut(client).tick(config.ttl(client));
        }
        if config.leaves_out(Mutation::Pr04) {
            for verb in self.verbs_mut() {
                if let Verb::Renew { meant, .. } = verb {
                    *meant = meant.saturating_sub(1);
                }
            }
        }
    }

    fn verbs_mut(&mut self) -> impl Iterator<Item = &mut Verb> {
        let calls = self.clients.iter_mut().filter_map(|client| match &mut client.phase {
            Phase::Seeking(Place { call: Some(call), .. })
            | Phase::Holding(Guard { call: Some(call), .. }) => Some(&mut call.verb),
            _ => None,
        });
        calls.chain(self.strays.iter_mut().map(|stray| &mut stray.verb))
    }
}

/// A third of a ttl, and at least a tick.
pub(crate) const fn third(ttl: Ticks) -> Ticks {
    if ttl < 6 { 1 } else { ttl / 3 }
}
