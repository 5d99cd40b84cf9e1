//! [`TestServer`]: a server of one test, which can be stopped, paused and filled.

use async_trait::async_trait;
use etcd_client::TlsOptions;
use lock_conformance::{
    Control, Data, Footprint, Links, NOTHING_IS_EVICTED, Proxy, ServerControl, ServerProcess, Unsupported,
    connections_to,
};
use lock_core::{FencingToken, LockName};
use lock_test_servers::{EtcdServer, proxy};

use super::{
    Admin,
    declared::TOKENS_ARE_REVISIONS,
    member::{answers, member},
};

/// A store of one server. Dropping it ends the server.
#[derive(Debug)]
pub(crate) struct TestServer {
    admin: Admin,
    /// Between the server and all its clients, for cases that cut them off.
    proxy: Option<Proxy>,
    member: EtcdServer,
}

impl TestServer {
    /// Starts a server, and returns when it answers. Its locks stand under the prefix.
    pub(crate) async fn start(prefix: &str) -> Self {
        Self::start_with(prefix, &[]).await
    }

    /// The same with more arguments for the server.
    pub(crate) async fn start_with(prefix: &str, arguments: &[&str]) -> Self {
        loop {
            let server = Self::new("http", prefix, arguments);
            if server.is_started().await {
                return server;
            }
        }
    }

    /// The same over TLS: with the arguments that the server needs for it, and what an operator needs.
    pub(crate) async fn start_secured(prefix: &str, arguments: &[&str], tls: TlsOptions) -> Self {
        loop {
            let mut server = Self::new("https", prefix, arguments);
            server.admin = server.admin.over_tls(tls.clone());
            if server.is_started().await {
                return server;
            }
        }
    }

    fn new(scheme: &'static str, prefix: &str, arguments: &[&str]) -> Self {
        let mut member = member(scheme);
        member.with(member.alone());
        member.with(arguments.iter().copied());
        let admin = Admin::new(&format!("{scheme}://127.0.0.1:{}", member.client_port()), prefix);
        Self { admin, proxy: None, member }
    }

    async fn is_started(&self) -> bool {
        self.member.launch();
        answers(&self.member, &self.admin).await
    }

    /// The same server, behind a proxy that can cut its clients off.
    pub(crate) fn behind_proxy(mut self) -> Self {
        self.proxy = Some(proxy(self.address()));
        self
    }

    /// Where clients find it: `host:port`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.client_port())
    }

    fn client_port(&self) -> u16 {
        self.proxy.as_ref().map_or_else(|| self.member.client_port(), |proxy| proxy.address().port())
    }

    /// Its operator.
    pub(crate) fn admin(&self) -> &Admin {
        &self.admin
    }

    /// The network between the server and its clients.
    pub(crate) fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("the server stands behind a proxy")
    }
}

#[async_trait]
impl ServerControl for TestServer {
    async fn kill(&self) -> Control {
        self.member.process().kill();
        Ok(())
    }

    async fn stop(&self) -> Control {
        self.member.process().stop("TERM").await;
        Ok(())
    }

    async fn start(&self, data: Data) -> Control {
        if data == Data::Lost {
            self.member.wipe();
        }
        self.member.launch();
        while !answers(&self.member, &self.admin).await {
            // Another process that took the port meanwhile may give it back.
            self.member.launch();
        }
        Ok(())
    }

    async fn pause(&self) -> Control {
        self.member.process().running(ServerProcess::pause);
        Ok(())
    }

    async fn resume(&self) -> Control {
        self.member.process().running(ServerProcess::resume);
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

    async fn forget(&self) -> Control {
        self.admin.compact().await;
        Ok(())
    }

    async fn fill(&self) -> Control {
        self.admin.no_space(true).await;
        Ok(())
    }

    async fn make_room(&self) -> Control {
        self.admin.no_space(false).await;
        Ok(())
    }

    async fn evict(&self) -> Control {
        Err(Unsupported(NOTHING_IS_EVICTED))
    }

    async fn lock_out(&self) -> Control {
        self.admin.allow_user(false).await;
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
        Err(Unsupported(TOKENS_ARE_REVISIONS))
    }

    async fn footprint(&self) -> Result<Footprint, Unsupported> {
        // Before we connect ourselves.
        let connections = connections_to(self.client_port());
        let connections =
            connections.unwrap_or_else(|| self.proxy.as_ref().map_or(0, |proxy| proxy.open() as u64));
        Ok(Footprint { connections, ..self.admin.footprint().await })
    }

    /// Streams share the connection with everything else: all of it breaks.
    async fn cut_notifications(&self) -> Control {
        self.proxy().reset(Links::All);
        Ok(())
    }
}
