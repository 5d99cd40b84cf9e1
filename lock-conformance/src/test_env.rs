//! [`TestEnv`]: the store of one case, and everybody who uses it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use lock_core::{AcquireOptions, Backend, Keeper};

use crate::{
    Case, Client, ClientProcess, Harness, HintsOnly, Layer, Layered, MakeBug, Mode, NoHints, Proxy, Relay,
    ServerControl, Wire, audit::LONG, client_registry::ClientRegistry,
};

/// How often a waiter looks while no hint comes. Only in a mode that depends on it: short, for the sake of time.
const LOOKS: Duration = Duration::from_millis(15);

/// What a harness says of its store before there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreInfo {
    /// Its name: see [`Harness::store`].
    pub(crate) store: &'static str,
    /// See [`Harness::notifications`].
    pub(crate) notifications: bool,
}

/// What a case is given: a store that is empty, and means to make clients of it.
#[derive(Clone, Debug)]
pub struct TestEnv {
    info: StoreInfo,
    harness: Arc<dyn Harness>,
    case: &'static Case,
    mode: Mode,
    bug: Option<MakeBug>,
    registry: Arc<ClientRegistry>,
}

impl TestEnv {
    /// The store of a case, with what is said of it, a bug in every client if there is one, and a registry of all who use it.
    pub(crate) fn new(
        info: StoreInfo,
        harness: Arc<dyn Harness>,
        case: &'static Case,
        mode: Mode,
        bug: Option<MakeBug>,
        registry: Arc<ClientRegistry>,
    ) -> Self {
        Self { info, harness, case, mode, bug, registry }
    }

    /// See [`Harness::client_logs`].
    pub(crate) fn client_logs(&self) -> Option<&'static str> {
        self.harness.client_logs()
    }

    /// The options that clients have if the case says nothing else: a ttl of [`LONG`], so that no busy machine costs a lease
    /// that the case relies on, what stays behind stays until it is found, and no look to keep a place alive falls into the
    /// case; and a `wait` that ends in an error before the case as a whole is given up.
    #[must_use]
    pub fn options(&self) -> AcquireOptions {
        AcquireOptions::new().ttl(LONG).wait(Duration::from_secs(30))
    }

    /// How the clients learn of their turn.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// In which steps the deadlines of leases move that were granted this ttl: see [`Harness::deadline_step`].
    #[must_use]
    pub fn deadline_step(&self, ttl: Duration) -> Duration {
        self.harness.deadline_step(ttl)
    }

    /// A new client with a keeper and connections of its own, as if in a process of its own.
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn client(&self) -> Client {
        self.client_through(&[]).await
    }

    /// A new client that sees the store through layers, as [`Faulty`](crate::Faulty). The first is the nearest to the store.
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn client_through(&self, layers: &[Arc<dyn Layer>]) -> Client {
        self.client_on(Keeper::start().expect("a keeper's thread can be started"), layers).await
    }

    /// A new client with a keeper of the caller's, as one with a clock of its own.
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn client_on(&self, keeper: Keeper, layers: &[Arc<dyn Layer>]) -> Client {
        let store = self.harness.connect(&keeper).await;
        self.registered(store, keeper, layers)
    }

    /// A client of a store that sees it through the bug, if there is one, through the mode, and through those layers.
    fn registered(&self, store: Arc<dyn Backend>, keeper: Keeper, layers: &[Arc<dyn Layer>]) -> Client {
        let polls = store.guarantees().polls;
        assert!(
            polls.is_none() == self.info.notifications,
            "`Harness::notifications` is {}, and `Guarantees::polls` {polls:?}: one of them is wrong",
            self.info.notifications
        );
        let record = self.registry.add();
        let mut between = vec![Arc::clone(&record) as Arc<dyn Layer>];
        between.extend(self.bug.map(|bug| bug(&*self.harness)));
        match self.mode {
            Mode::Both if !self.case.is_about_hints() => {}
            Mode::WithoutHints => between.push(Arc::new(NoHints::looking_every(LOOKS, keeper.clone()))),
            Mode::Both | Mode::WithoutPolling => between.push(Arc::new(HintsOnly)),
        }
        between.extend_from_slice(layers);
        let through = |store, layer| Arc::new(Layered::new(store, layer)) as Arc<dyn Backend>;
        Client::new(between.into_iter().fold(store, through), keeper, self.options(), record)
    }

    /// Whether there is a connection to a server.
    pub(crate) fn has_wire(&self) -> bool {
        self.harness.wire().is_some()
    }

    /// The connection to the server.
    ///
    /// # Panics
    /// If the store has none: it says which labels are to be declared then.
    #[must_use]
    pub fn wire(&self) -> &dyn Wire {
        self.harness.wire().unwrap_or_else(|| {
            let labels = self.case.ids.join(", ");
            panic!("`Harness::wire` gives none, which {} needs: give one, or declare {labels}", self.case())
        })
    }

    /// A proxy in front of the server, for [`client_by`](Self::client_by).
    ///
    /// # Panics
    /// As [`wire`](Self::wire) does.
    #[must_use]
    pub fn proxy(&self) -> Proxy {
        Proxy::start(self.wire().server(), self.wire().carries_hints())
    }

    /// A relay in front of the server, for [`client_by`](Self::client_by).
    ///
    /// # Panics
    /// As [`wire`](Self::wire) does.
    #[must_use]
    pub fn relay(&self) -> Relay {
        Relay::start(self.wire().server(), self.wire().framing())
    }

    /// The same, by which every request reaches the server twice.
    ///
    /// # Panics
    /// As [`wire`](Self::wire) does.
    #[must_use]
    pub fn doubling_relay(&self) -> Relay {
        Relay::doubling(self.wire().server(), self.wire().framing())
    }

    /// A new client that reaches the server by the address of a proxy or a relay, and sees it through a layer.
    ///
    /// # Panics
    /// If it cannot be made, and as [`wire`](Self::wire) does.
    pub async fn client_by(&self, address: SocketAddr, layer: Arc<dyn Layer>) -> Client {
        let keeper = Keeper::start().expect("a keeper's thread can be started");
        let backend = self.wire().connect_by(&keeper, address).await;
        self.registry.mark_cut_off();
        self.registered(backend, keeper, &[layer])
    }

    /// A client in a process of its own, which can be killed.
    ///
    /// # Panics
    /// If it cannot be started.
    pub async fn process(&self) -> ClientProcess {
        match self.harness.address() {
            Some(address) => {
                self.registry.mark_process();
                ClientProcess::start(&address).await
            }
            None => ClientProcess::stand_in(self.client().await).await,
        }
    }

    /// A name that nobody else uses in this store, with `tag` in it.
    #[must_use]
    pub fn name(&self, tag: &str) -> String {
        format!("{}/{tag}", self.case.name)
    }

    /// The name of the store, as [`Harness::store`] gives it.
    pub(crate) fn store(&self) -> &'static str {
        self.info.store
    }

    /// The case that this is for, with its group.
    pub(crate) fn case(&self) -> String {
        format!("{}::{}", self.case.group, self.case.name)
    }

    /// Gives up all clients until now, in the middle of whatever they do: what they have stays until its lease ends.
    pub(crate) fn give_up(&self) {
        self.registry.crash_all();
    }

    /// The server side of the store.
    #[must_use]
    pub fn server(&self) -> &dyn ServerControl {
        self.harness.server()
    }
}
