//! [`TestServer`]: the server of a test, for itself or with others.

use std::{process::Command, sync::Arc};

use async_trait::async_trait;
use lock_conformance::{
    Control, Data, Footprint, Links, NOTHING_IS_EVICTED, Proxy, ServerControl, ServerProcess, Unsupported,
    unique,
};
use lock_core::{FencingToken, LockName};
use lock_test_servers::{java, proxy};
use tokio::sync::OnceCell;

use super::{Admin, TICK, ZkServer, declared::TOKENS_ARE_TRANSACTIONS};

/// Why a server is not ended or paused.
const IS_SHARED: &str = "other cases use the server, too: this one needs one of its own";

/// The shared server of all tests that do not disturb it. It ends with this process, and its files are removed then.
static SHARED: OnceCell<Arc<ZkServer>> = OnceCell::const_new();

/// The same, which keeps empty containers.
static KEEPING: OnceCell<Arc<ZkServer>> = OnceCell::const_new();

/// What a server does with empty containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Containers {
    /// It removes them immediately. Then the next create fails, and creates the container first, which takes one more answer.
    Removed,
    /// It keeps them for as long as a test takes: one request is enough to join a queue.
    Kept,
}

/// A store of one server, and a node on it that nobody else uses.
#[derive(Debug)]
pub(crate) struct TestServer {
    admin: Admin,
    /// Between the server and the clients of this test, for tests that cut them off.
    proxy: Option<Proxy>,
    member: Arc<ZkServer>,
    shared: bool,
}

impl TestServer {
    /// A node on the server that the tests of this process share if they do not disturb it. The first of them starts it.
    pub(crate) async fn shared() -> Self {
        Self::shared_with(Containers::Removed).await
    }

    /// The same on a server that treats containers in this way.
    pub(crate) async fn shared_with(containers: Containers) -> Self {
        let cell = if containers == Containers::Kept { &KEEPING } else { &SHARED };
        let start = || async { Arc::new(ZkServer::start(|member| member.treats(containers)).await) };
        Self::at(Arc::clone(cell.get_or_init(start).await))
    }

    /// A server that this test may do anything to. Dropping it ends the server.
    pub(crate) async fn own() -> Self {
        Self::own_with(|_| {}).await
    }

    /// The same with these settings.
    pub(crate) async fn own_with(settings: impl Fn(&mut ZkServer)) -> Self {
        Self::on(Arc::new(ZkServer::start(settings).await), false)
    }

    /// A node on a server that others use, too.
    pub(crate) fn at(member: Arc<ZkServer>) -> Self {
        Self::on(member, true)
    }

    fn on(member: Arc<ZkServer>, shared: bool) -> Self {
        let admin = Admin::new(&member.address(), &format!("case-{}", unique()));
        Self { admin, proxy: None, member, shared }
    }

    /// The same server, behind a proxy that can cut the clients of this test off.
    pub(crate) fn behind_proxy(mut self) -> Self {
        self.proxy = Some(proxy(self.member.address()));
        self
    }

    /// Where clients find it: `host:port`.
    pub(crate) fn address(&self) -> String {
        self.proxy.as_ref().map_or_else(|| self.member.address(), |proxy| proxy.address().to_string())
    }

    /// How clients reach it.
    pub(crate) fn url(&self) -> String {
        self.url_for("", &self.address())
    }

    /// How clients reach it by these addresses.
    pub(crate) fn url_by(&self, addresses: &str) -> String {
        self.url_for("", addresses)
    }

    /// How clients reach it past its proxy.
    pub(crate) fn direct_url(&self) -> String {
        self.url_for("", &self.member.address())
    }

    /// How clients who are `user` reach it: see [`Admin::user`].
    pub(crate) fn url_of(&self, user: &str) -> String {
        self.url_for(user, &self.address())
    }

    fn url_for(&self, user: &str, address: &str) -> String {
        format!("zk://{user}{address}{}?tick={}ms", self.admin.chroot(), TICK.as_millis())
    }

    /// An operator's access to it.
    pub(crate) fn admin(&self) -> &Admin {
        &self.admin
    }

    /// Sets how many nodes the server has created below the node of a lock. Only while the server does not run.
    ///
    /// # Panics
    /// If its data cannot be changed.
    pub(crate) fn set_children_made(&self, name: &LockName, made: i32) {
        let changed = Command::new(java::program())
            .args(java::SHORT_RUN)
            .args([
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                "-cp",
                java::client_classes(),
                "Children",
            ])
            .arg(self.own_member().data())
            .args([self.admin.folder(name), made.to_string()])
            .status();
        assert!(changed.is_ok_and(|status| status.success()), "the data of the server cannot be changed");
    }

    /// The network between the server and its clients.
    pub(crate) fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("the server stands behind a proxy")
    }

    /// The process, which is this test's alone.
    fn own_member(&self) -> &ZkServer {
        self.alone().unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    fn alone(&self) -> Result<&ZkServer, Unsupported> {
        if self.shared { Err(Unsupported(IS_SHARED)) } else { Ok(&self.member) }
    }
}

#[async_trait]
impl ServerControl for TestServer {
    async fn kill(&self) -> Control {
        self.alone()?.process().kill();
        Ok(())
    }

    async fn stop(&self) -> Control {
        self.alone()?.process().stop("TERM").await;
        Ok(())
    }

    async fn start(&self, data: Data) -> Control {
        let member = self.alone()?;
        if data == Data::Lost {
            member.wipe();
        }
        member.launch();
        while !member.answers().await {
            // A process that took the port in the meantime may give it back.
            member.launch();
        }
        Ok(())
    }

    async fn pause(&self) -> Control {
        self.alone()?.process().running(ServerProcess::pause);
        Ok(())
    }

    async fn resume(&self) -> Control {
        self.alone()?.process().running(ServerProcess::resume);
        Ok(())
    }

    async fn delete(&self, name: &LockName) -> Control {
        self.admin.delete(name).await;
        Ok(())
    }

    async fn flush(&self) -> Control {
        self.admin.flush().await;
        Ok(())
    }

    /// The server may remove a container whenever it is empty.
    async fn forget(&self) -> Control {
        self.admin.reap().await;
        Ok(())
    }

    async fn fill(&self) -> Control {
        self.admin.limit_to_what_there_is().await;
        Ok(())
    }

    async fn make_room(&self) -> Control {
        self.admin.lift_limit().await;
        Ok(())
    }

    async fn evict(&self) -> Control {
        Err(Unsupported(NOTHING_IS_EVICTED))
    }

    async fn lock_out(&self) -> Control {
        self.admin.allow_user(false).await;
        self.proxy().reset(Links::All);
        Ok(())
    }

    async fn let_in(&self) -> Control {
        self.admin.allow_user(true).await;
        Ok(())
    }

    async fn put_foreign(&self, name: &LockName) -> Control {
        self.admin.put_foreign(name).await;
        Ok(())
    }

    async fn has_foreign(&self, name: &LockName) -> Result<bool, Unsupported> {
        Ok(self.admin.has_foreign(name).await)
    }

    async fn raise_tokens(&self, _name: &LockName, _last: FencingToken) -> Control {
        Err(Unsupported(TOKENS_ARE_TRANSACTIONS))
    }

    async fn footprint(&self) -> Result<Footprint, Unsupported> {
        Ok(if self.shared { self.admin.footprint().await } else { self.admin.whole_footprint().await })
    }

    /// Watches share the connection with everything else: all of it breaks.
    async fn cut_notifications(&self) -> Control {
        self.proxy().reset(Links::All);
        Ok(())
    }
}
