//! [`Store`]: a store for one test, and how to reach it.

use std::{any::Any, env, net::SocketAddr, sync::Arc};

#[cfg(any(feature = "etcd", feature = "zk"))]
use lock_conformance::unique;
use tempfile::TempDir;

use crate::server;

/// A store for one test alone: a file or a server of its own, or a prefix of a shared server.
pub(crate) struct Store {
    pub(crate) url: String,
    /// Its server, which may be shared. Dropping the last of these ends it.
    _server: Option<Arc<dyn Any + Send + Sync>>,
    _folder: Option<TempDir>,
}

impl Store {
    /// Every store that several processes can use, with its name.
    pub(crate) fn all() -> Vec<(&'static str, Self)> {
        vec![
            ("sqlite", Self::sqlite()),
            ("redis", Self::redis()),
            #[cfg(feature = "etcd")]
            ("etcd", Self::etcd()),
            #[cfg(feature = "zk")]
            ("zk", Self::zk()),
        ]
    }

    /// The default one, which most tests use, or the one that `DISTLOCK_TEST_CLI_STORE` names.
    pub(crate) fn any() -> Self {
        match env::var("DISTLOCK_TEST_CLI_STORE").as_deref() {
            Err(_) | Ok("sqlite") => Self::sqlite(),
            Ok("redis") => Self::redis(),
            #[cfg(feature = "etcd")]
            Ok("etcd") => Self::etcd(),
            #[cfg(feature = "zk")]
            Ok("zk") => Self::zk(),
            Ok(other) => panic!("DISTLOCK_TEST_CLI_STORE: `{other}` is no store, or not among the features"),
        }
    }

    /// A file of its own.
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the file can be made");
        let url = format!("sqlite:{}", folder.path().join("locks.db").display());
        Self { url, _server: None, _folder: Some(folder) }
    }

    /// A server of its own, because it starts quickly.
    pub(crate) fn redis() -> Self {
        let server = server::redis();
        Self { url: server.url(), _server: Some(Arc::new(server)), _folder: None }
    }

    #[cfg(feature = "etcd")]
    fn etcd() -> Self {
        let server = server::etcd();
        let url = format!("etcd://{}/{}", server.address(), unique());
        Self { url, _server: Some(server), _folder: None }
    }

    #[cfg(feature = "zk")]
    fn zk() -> Self {
        let server = server::zk();
        let url = format!("zk://{}/{}?tick=100ms", server.address(), unique());
        Self { url, _server: Some(server), _folder: None }
    }

    /// The address of its server.
    pub(crate) fn address(&self) -> SocketAddr {
        let (_, address) = self.url.split_once("//").expect("it is a server");
        address.parse().expect("it is an address")
    }
}
