//! [`ServerByUrl`]: a server that the test did not start, and that may have other users.

use async_trait::async_trait;
use lock_conformance::{Control, Footprint, Links, NOT_OURS, Proxy, ServerControl, Unsupported};
use lock_core::{FencingToken, LockName};
use lock_test_servers::proxy;

use super::{Admin, declared::TOKENS_ARE_TRANSACTIONS};

/// A server that is only known by its URL. It supports only the operations on one name.
#[derive(Debug)]
pub(crate) struct ServerByUrl {
    admin: Admin,
    chroot: String,
    /// Between the server and the clients of this case.
    proxy: Proxy,
}

impl ServerByUrl {
    /// The server at `host:port`, for locks below `/<chroot>`.
    pub(super) fn new(address: &str, chroot: &str) -> Self {
        let admin = Admin::new(address, chroot);
        Self { admin, chroot: chroot.to_owned(), proxy: proxy(address) }
    }

    /// How clients reach it. Its `tickTime` is that of our own servers.
    pub(super) fn url(&self) -> String {
        format!("zk://{}/{}?tick=200ms", self.proxy.address(), self.chroot)
    }
}

#[async_trait]
impl ServerControl for ServerByUrl {
    fn refusal(&self) -> Unsupported {
        Unsupported(NOT_OURS)
    }

    async fn delete(&self, name: &LockName) -> Control {
        self.admin.delete(name).await;
        Ok(())
    }

    async fn forget(&self) -> Control {
        self.admin.reap().await;
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
        // The rest may belong to others.
        let queues = self.admin.queues().await;
        Ok(Footprint { queues, connections: self.proxy.open() as u64, ..Footprint::default() })
    }

    async fn cut_notifications(&self) -> Control {
        self.proxy.reset(Links::All);
        Ok(())
    }
}
