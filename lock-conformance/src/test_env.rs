//! [`TestEnv`]: the store of one case, and the means to create clients of it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use lock_core::{AcquireOptions, Backend, Keeper};

use crate::{
    Case, Client, ClientProcess, Harness, HintsOnly, Layer, Layered, MakeBug, Mode, NoHints, Proxy, Relay,
    ServerControl, Wire, audit::LONG, client_registry::ClientRegistry,
};

/// How often a waiter looks in the mode without hints: short, to save time.
const LOOKS: Duration = Duration::from_millis(15);

/// What a harness says about its store before the store exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreInfo {
    /// Its name: see [`Harness::store`].
    pub(crate) store: &'static str,
    /// See [`Harness::notifications`].
    pub(crate) notifications: bool,
}

/// What a case gets: an empty store, and the means to create clients of it.
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
    /// The store of a case, with its declarations, the bug of its clients, if any, and a registry of all clients.
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

    /// The default options of clients. The ttl is [`LONG`]: a busy machine loses no lease that the case relies on, leftovers stay until
    /// they are found, and no waiter has to look to keep its place. The `wait` ends in an error before the case is given up.
    #[must_use]
    pub fn options(&self) -> AcquireOptions {
        AcquireOptions::new().ttl(LONG).wait(Duration::from_secs(30))
    }

    /// How clients learn of a grant.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The steps in which deadlines move for this ttl: see [`Harness::deadline_step`].
    #[must_use]
    pub fn deadline_step(&self, ttl: Duration) -> Duration {
        self.harness.deadline_step(ttl)
    }

    /// A new client with its own keeper and connections, as another process would have.
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn client(&self) -> Client {
        self.client_through(&[]).await
    }

    /// A new client behind layers such as [`ScriptedFaults`](crate::ScriptedFaults). The first is next to the store.
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn client_through(&self, layers: &[Arc<dyn Layer>]) -> Client {
        self.client_on(Keeper::start().expect("a keeper's thread can be started"), layers).await
    }

    /// A new client on this keeper, for example one with another clock.
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn client_on(&self, keeper: Keeper, layers: &[Arc<dyn Layer>]) -> Client {
        let store = self.harness.connect(&keeper).await;
        self.registered(store, keeper, layers)
    }

    /// A client behind the bug, if there is one, the layer of the mode, and those layers.
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
    /// If the store has none. The message names the labels to declare.
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

    /// A relay that sends every request to the server twice.
    ///
    /// # Panics
    /// As [`wire`](Self::wire) does.
    #[must_use]
    pub fn doubling_relay(&self) -> Relay {
        Relay::doubling(self.wire().server(), self.wire().framing())
    }

    /// A new client that connects to the address of a proxy or a relay, behind a layer.
    ///
    /// # Panics
    /// If it cannot be made, and as [`wire`](Self::wire) does.
    pub async fn client_by(&self, address: SocketAddr, layer: Arc<dyn Layer>) -> Client {
        let keeper = Keeper::start().expect("a keeper's thread can be started");
        let backend = self.wire().connect_by(&keeper, address).await;
        self.registry.mark_cut_off();
        self.registered(backend, keeper, &[layer])
    }

    /// A client in another process, which can be killed.
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

    /// A name that ends in `tag`, and that no other case uses.
    #[must_use]
    pub fn name(&self, tag: &str) -> String {
        format!("{}/{tag}", self.case.name)
    }

    /// The name of the store, as [`Harness::store`] gives it.
    pub(crate) fn store(&self) -> &'static str {
        self.info.store
    }

    /// The group and the name of the case.
    pub(crate) fn case(&self) -> String {
        format!("{}::{}", self.case.group, self.case.name)
    }

    /// Crashes all clients so far, whatever they are doing: their entries stay until their leases end.
    pub(crate) fn give_up(&self) {
        self.registry.crash_all();
    }

    /// The server side of the store.
    #[must_use]
    pub fn server(&self) -> &dyn ServerControl {
        self.harness.server()
    }
}
