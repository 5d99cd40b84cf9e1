//! [`World`]: the store of one case, and everybody who uses it.

use std::{sync::Arc, time::Duration};

use lock_core::{AcquireOptions, Backend, Keeper};

use crate::{
    Case, Client, Harness, HintsOnly, MakeBug, Mode, Process, Proxy, ServerControl, Silent, Wire, bug::Buggy,
};

/// How often a waiter looks while no hint comes. Only in a mode that depends on it: short, for the sake of time.
const LOOKS: Duration = Duration::from_millis(15);

/// What a case is given: a store that is empty, and means to make clients of it.
#[derive(Clone, Debug)]
pub struct World {
    harness: Arc<dyn Harness>,
    case: &'static Case,
    mode: Mode,
    bug: Option<MakeBug>,
}

impl World {
    pub(crate) fn new(harness: Arc<dyn Harness>, case: &'static Case, mode: Mode) -> Self {
        Self { harness, case, mode, bug: None }
    }

    /// The same with a bug in every client.
    pub(crate) fn with_bug(mut self, bug: MakeBug) -> Self {
        self.bug = Some(bug);
        self
    }

    /// The options that clients have if the case says nothing else: a ttl of 10 s, so that no busy machine costs a lease
    /// that the case relies on, and a `wait` that ends in an error before the case as a whole is given up. Without
    /// polling the ttl is so long that no look to keep a place alive falls into the case.
    #[must_use]
    pub fn options(&self) -> AcquireOptions {
        let ttl = if self.mode == Mode::WithoutPolling { 120 } else { 10 };
        AcquireOptions::new().ttl(Duration::from_secs(ttl)).wait(Duration::from_secs(30))
    }

    /// How the clients learn of their turn.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// A new client with a keeper and connections of its own, as if in a process of its own.
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn client(&self) -> Client {
        self.client_through(|backend| backend).await
    }

    /// A new client whose backend is wrapped, as with [`Faulty`](crate::Faulty).
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn client_through(
        &self,
        wrap: impl FnOnce(Arc<dyn Backend>) -> Arc<dyn Backend> + Send,
    ) -> Client {
        self.client_on(Keeper::start().expect("a keeper's thread can be started"), wrap).await
    }

    /// A new client with a keeper of the caller's, as one with a clock of its own.
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn client_on(
        &self,
        keeper: Keeper,
        wrap: impl FnOnce(Arc<dyn Backend>) -> Arc<dyn Backend> + Send,
    ) -> Client {
        let mut backend = self.harness.connect(&keeper).await;
        if let Some(bug) = self.bug {
            backend = Arc::new(Buggy::new(backend, bug(&*self.harness)));
        }
        let backend: Arc<dyn Backend> = match self.mode {
            Mode::Both => backend,
            Mode::WithoutHints => Arc::new(Silent::looking_every(LOOKS, keeper.clone(), backend)),
            Mode::WithoutPolling => Arc::new(HintsOnly::new(backend)),
        };
        Client::new(wrap(backend), keeper, self.options())
    }

    /// The connection to the server.
    ///
    /// # Panics
    /// If the store has none: then the case is to be declared.
    #[must_use]
    pub fn wire(&self) -> &dyn Wire {
        self.harness.wire().expect("a store that declares no case of the wire has one")
    }

    /// A proxy in front of the server, for [`client_by`](Self::client_by).
    ///
    /// # Panics
    /// As [`wire`](Self::wire) does.
    #[must_use]
    pub fn proxy(&self) -> Proxy {
        Proxy::start(self.wire().server(), self.wire().carries_hints())
    }

    /// A new client that reaches the server by a proxy, wrapped.
    ///
    /// # Panics
    /// If it cannot be made, and as [`wire`](Self::wire) does.
    pub async fn client_by(
        &self,
        proxy: &Proxy,
        wrap: impl FnOnce(Arc<dyn Backend>) -> Arc<dyn Backend> + Send,
    ) -> Client {
        let keeper = Keeper::start().expect("a keeper's thread can be started");
        let backend = self.wire().connect_by(&keeper, proxy.address()).await;
        Client::new(wrap(backend), keeper, self.options())
    }

    /// A client in a process of its own, which can be killed.
    ///
    /// # Panics
    /// If it cannot be started.
    pub async fn process(&self) -> Process {
        match self.harness.address() {
            Some(address) => Process::start(&address).await,
            None => Process::stand_in(self.client().await).await,
        }
    }

    /// A name that nobody else uses in this store, with `tag` in it.
    #[must_use]
    pub fn name(&self, tag: &str) -> String {
        format!("{}/{tag}", self.case.name)
    }

    /// The server side of the store.
    #[must_use]
    pub fn server(&self) -> &dyn ServerControl {
        self.harness.server()
    }
}
