//! [`OwnServer`]: a server that can be treated badly, because it is ours alone.

use std::process::Command;

use async_trait::async_trait;
use lock_conformance::{Control, Data, Footprint, Links, Proxy, ServerControl, Unsupported};
use lock_core::{FencingToken, LockName};

use super::{Admin, Member, java};

/// Why no token can be chosen.
pub(crate) const TOKENS_ARE_TRANSACTIONS: &str =
    "tokens are numbers of transactions of the store, which nobody can set";

/// Why nothing can be thrown out.
pub(crate) const NOTHING_IS_EVICTED: &str =
    "a store without room refuses writes, and never throws anything out";

/// Why nothing is sent twice: `tests/duplicates.rs` shows it.
pub(crate) const NOTHING_COMES_TWICE: &str = "a session has one connection, where TCP lets nothing come twice; a copy of a request \
                                              on another one ends the first";

/// A store of one server. Dropping it ends the server.
#[derive(Debug)]
pub(crate) struct OwnServer {
    admin: Admin,
    /// Between the server and all its clients, for cases that cut them off.
    proxy: Option<Proxy>,
    member: Member,
}

impl OwnServer {
    /// Starts a server, and returns when it answers. Its locks stand below `/<chroot>`.
    pub(crate) async fn start(chroot: &str) -> Self {
        Self::start_with(chroot, &[]).await
    }

    /// The same with more settings for the server.
    pub(crate) async fn start_with(chroot: &str, settings: &[String]) -> Self {
        Self::start_as(chroot, |member| member.with(settings)).await
    }

    /// The same, and the containers of locks that nobody has are left alone. Others are removed at once; whoever comes then is told
    /// so, makes them anew and asks again, which takes that he hears the answer.
    pub(crate) async fn start_keeping_containers(chroot: &str) -> Self {
        Self::start_as(chroot, Member::keeps_containers).await
    }

    async fn start_as(chroot: &str, settings: impl Fn(&mut Member)) -> Self {
        loop {
            let mut member = Member::new();
            settings(&mut member);
            let admin = Admin::new(&format!("127.0.0.1:{}", member.port()), chroot);
            let server = Self { admin, proxy: None, member };
            server.member.launch();
            if server.member.answers(&server.admin).await {
                return server;
            }
        }
    }

    /// The same server, behind a proxy that can cut its clients off.
    pub(crate) fn behind_proxy(mut self) -> Self {
        self.proxy = Some(super::proxy(&self.address()));
        self
    }

    /// Where clients find it: `host:port`.
    pub(crate) fn address(&self) -> String {
        let direct = || format!("127.0.0.1:{}", self.member.port());
        self.proxy.as_ref().map_or_else(direct, |proxy| proxy.address().to_string())
    }

    /// Whoever works on it by hand.
    pub(crate) fn admin(&self) -> &Admin {
        &self.admin
    }

    /// The process, and where its files are.
    pub(crate) fn member(&self) -> &Member {
        &self.member
    }

    /// Makes the server believe that so many nodes were made in that of a lock. Only while it does not run.
    ///
    /// # Panics
    /// If its data cannot be changed.
    pub(crate) fn set_children_made(&self, name: &LockName, made: i32) {
        let changed = Command::new(java::java())
            .args(java::FLAGS)
            .args([
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                "-cp",
                &java::client_classes(),
                "Children",
            ])
            .arg(self.member.data())
            .args([self.admin.folder(name), made.to_string()])
            .status();
        assert!(changed.is_ok_and(|status| status.success()), "the data of the server cannot be changed");
    }

    /// The network between the server and its clients.
    pub(crate) fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("the server stands behind a proxy")
    }
}

#[async_trait]
impl ServerControl for OwnServer {
    async fn kill(&self) -> Control {
        self.member.kill();
        Ok(())
    }

    async fn stop(&self) -> Control {
        self.member.stop().await;
        Ok(())
    }

    async fn start(&self, data: Data) -> Control {
        if data == Data::Lost {
            self.member.wipe();
        }
        self.member.launch();
        while !self.member.answers(&self.admin).await {
            // Whoever took the port meanwhile may give it back.
            self.member.launch();
        }
        Ok(())
    }

    async fn pause(&self) -> Control {
        self.member.pause();
        Ok(())
    }

    async fn resume(&self) -> Control {
        self.member.resume();
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

    /// It may remove a container at any time in which it is empty.
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
        let connections = self.proxy.as_ref().map_or(0, |proxy| proxy.open() as u64);
        Ok(Footprint { connections, ..self.admin.footprint().await })
    }

    /// Watches share the connection with everything else: all of it breaks.
    async fn cut_notifications(&self) -> Control {
        self.proxy().reset(Links::All);
        Ok(())
    }
}
