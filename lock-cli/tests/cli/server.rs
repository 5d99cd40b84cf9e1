//! Servers for tests.

#[cfg(any(feature = "etcd", feature = "zk"))]
use std::sync::{Arc, Weak};
#[cfg(feature = "zk")]
use std::time::Duration;

#[cfg(any(feature = "etcd", feature = "zk"))]
use distlock::sync::Mutex;
#[cfg(feature = "etcd")]
use lock_test_servers::EtcdServer;
use lock_test_servers::{RedisServer, block_on};
#[cfg(feature = "zk")]
use lock_test_servers::{ZooKeeperServer, java};

/// A server for one test alone.
pub(crate) fn redis() -> RedisServer {
    block_on(RedisServer::start(&[]))
}

/// One server for all tests that run at the same time: each has a prefix of its own. The last test stops it.
#[cfg(feature = "etcd")]
pub(crate) fn etcd() -> Arc<EtcdServer> {
    static SHARED: Shared<EtcdServer> = Shared::new(Weak::new());
    // The page cache survives the end of the process.
    shared(&SHARED, || block_on(EtcdServer::start(&["--unsafe-no-fsync"])))
}

/// The same with ZooKeeper. The short tick allows sessions as short as the ttl of a test.
#[cfg(feature = "zk")]
pub(crate) fn zk() -> Arc<ZooKeeperServer> {
    static SHARED: Shared<ZooKeeperServer> = Shared::new(Weak::new());
    shared(&SHARED, || start_zk(&["maxSessionTimeout=86400000", "maxClientCnxns=0"]))
}

/// A ZooKeeper server for one test alone, whose sessions live for at most 20 ticks, or 2 s.
#[cfg(feature = "zk")]
pub(crate) fn zk_with_short_sessions() -> ZooKeeperServer {
    start_zk(&[])
}

#[cfg(feature = "zk")]
fn start_zk(settings: &[&str]) -> ZooKeeperServer {
    const TICK: Duration = Duration::from_millis(100);
    let java = [&java::SHORT_RUN[..], &["-Dzookeeper.forceSync=no"]].concat();
    block_on(ZooKeeperServer::start(TICK, settings, &java))
}

#[cfg(any(feature = "etcd", feature = "zk"))]
type Shared<S> = Mutex<Weak<S>>;

#[cfg(any(feature = "etcd", feature = "zk"))]
fn shared<S>(shared: &Shared<S>, start: impl FnOnce() -> S) -> Arc<S> {
    // If a test could not start the server, it has failed, and the next test tries again.
    let mut shared = shared.lock();
    let server = shared.upgrade().unwrap_or_else(|| Arc::new(start()));
    *shared = Arc::downgrade(&server);
    server
}
