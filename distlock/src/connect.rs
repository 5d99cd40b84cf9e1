//! [`connect`]: locks from a URL.

use std::collections::BTreeMap;

#[cfg(any(
    feature = "etcd",
    feature = "redis",
    feature = "zk",
    all(feature = "sqlite", target_os = "linux")
))]
use lock_core::Keeper;
use lock_core::{Locks, Memory, sync::Mutex};
#[cfg(feature = "etcd")]
use lock_etcd::{ConnectError as EtcdError, Etcd, EtcdConfig};
#[cfg(feature = "redis")]
use lock_redis::{ConnectError as RedisError, Redis, RedisConfig};
#[cfg(all(feature = "sqlite", target_os = "linux"))]
use lock_sqlite::{ConnectError as SqliteError, Sqlite, SqliteConfig};
#[cfg(feature = "zk")]
use lock_zk::{ConnectError as ZkError, ZkConfig, ZooKeeper};

use crate::{
    ConnectError,
    error::{NOT_YET, SCHEMES, Scheme},
};

/// Connects to the store that a URL names.
///
/// | URL | store |
/// |---|---|
/// | `memory:` | the memory of this process |
/// | `memory:NAME` | another one, by name: each name is a store of its own |
/// | `redis://[user[:password]@]host[:port][/database]` | a Redis server; feature `redis` |
/// | `rediss://…` | the same over TLS |
/// | `etcd://[user:password@]host[:port][,host[:port]…][/prefix]` | an etcd cluster; feature `etcd` |
/// | `etcds://…` | the same over TLS |
/// | `sqlite:` | a file of this user, for all processes on this machine, without a server; feature `sqlite`, on Linux |
/// | `sqlite:machine` | the file for all users of a group on this machine, which `distlock setup-machine` prepares |
/// | `sqlite:PATH` | another file; `~/` is the home folder |
/// | `zk://[user:password@]host[:port][,host[:port]…][/chroot]` | a ZooKeeper ensemble; feature `zk` |
/// | `zks://…` | the same over TLS; feature `zk-tls` |
///
/// In one process the same `memory:` URL is the same store, which lives as long as the process. The parameters of a URL, such as time
/// limits, a prefix and files for TLS, are documented with the backend, in the module of its feature. In a user or a password, `@`, `/`,
/// `?`, `#` and `%` are percent-encoded.
///
/// ```
/// use distlock::DistributedLock;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let here = distlock::connect("memory:tests").await?;
/// let there = distlock::connect("memory:tests").await?;
/// let guard = here.mutex("job")?.acquire().await?;
/// assert!(there.mutex("job")?.try_acquire().await?.is_none());
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
///
/// The store has to answer. [`Outage::Wait`](crate::Outage::Wait) is for locks, and not for this call: a service that may start before its
/// store calls again while the error [is transient](ConnectError::is_transient).
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let url = "memory:";
/// let locks = loop {
///     match distlock::connect(url).await {
///         Ok(locks) => break locks,
///         Err(error) if error.is_transient() => eprintln!("{error}"),
///         Err(error) => return Err(error.into()),
///     }
///     tokio::time::sleep(Duration::from_secs(1)).await;
/// };
/// # assert!(locks.mutex("job").is_ok());
/// # Ok(())
/// # }
/// ```
///
/// Connect once in a process, and clone the [`Locks`]. Those of another call are another client: to the store, and in
/// [`Error::WaitTimeout`](crate::Error::WaitTimeout), they are like another process.
///
/// # Errors
/// [`ConnectError`] says what is wrong with the URL, which feature is missing, or what the store answered.
///
/// # Cancel safety
/// If the future is dropped, no lock was taken, and what was opened is closed.
///
/// # Panics
/// Like `std::thread::spawn`, if the keeper's thread cannot be started.
#[cfg_attr(
    not(any(feature = "etcd", feature = "redis", feature = "sqlite", feature = "zk")),
    allow(clippy::unused_async, reason = "only servers and files are waited for")
)]
pub async fn connect(url: &str) -> Result<Locks, ConnectError> {
    let (scheme, rest) = scheme_of(url)?;
    match scheme.name {
        "memory" => memory(rest),
        #[cfg(feature = "redis")]
        scheme @ ("redis" | "rediss") => redis(scheme, url).await,
        #[cfg(feature = "etcd")]
        scheme @ ("etcd" | "etcds") => etcd(scheme, url).await,
        #[cfg(feature = "sqlite")]
        "sqlite" => sqlite(url).await,
        #[cfg(feature = "zk")]
        scheme @ "zk" => zookeeper(scheme, url).await,
        #[cfg(feature = "zk-tls")]
        scheme @ "zks" => zookeeper(scheme, url).await,
        // All other schemes need a feature, which is off.
        name => Err(ConnectError::MissingFeature { scheme: name, feature: scheme.feature }),
    }
}

/// The scheme of a URL, and the rest after it.
fn scheme_of(url: &str) -> Result<(&'static Scheme, &str), ConnectError> {
    let Some((name, rest)) = url.split_once(':') else {
        return Err(ConnectError::UnknownScheme { scheme: None });
    };
    if let Some((scheme, instead)) = NOT_YET.iter().find(|(not_yet, _)| not_yet.eq_ignore_ascii_case(name)) {
        return Err(ConnectError::NotYet { scheme, instead });
    }
    let known = SCHEMES.iter().find(|known| known.name.eq_ignore_ascii_case(name));
    known.map(|known| (known, rest)).ok_or_else(|| ConnectError::UnknownScheme {
        scheme: Some(name).filter(|name| is_harmless(name, rest)).map(str::to_owned),
    })
}

/// Whether an unknown scheme can be shown: it looks like one, and not like the user of a URL without a scheme.
fn is_harmless(scheme: &str, rest: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let shaped = scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(letter);
    shaped && scheme.len() <= 20 && (rest.starts_with("//") || !rest.contains('@'))
}

fn memory(name: &str) -> Result<Locks, ConnectError> {
    static STORES: Mutex<BTreeMap<String, Memory>> = Mutex::new(BTreeMap::new());
    if name.starts_with('/') {
        let problem = "it has no host; use `memory:` or `memory:NAME`".to_owned();
        return Err(ConnectError::BadUrl { scheme: "memory", problem });
    }
    let mut stores = STORES.lock();
    Ok(Locks::new(stores.entry(name.to_owned()).or_default().clone()))
}

#[cfg(feature = "redis")]
async fn redis(scheme: &'static str, url: &str) -> Result<Locks, ConnectError> {
    let wrong = |problem: String| ConnectError::BadUrl { scheme, problem };
    let config = RedisConfig::from_url(url).map_err(|error| wrong(error.to_string()))?;
    let redis = Redis::connect(config, &Keeper::shared()).await.map_err(|error| match error {
        RedisError::Store(source) => ConnectError::Backend { source },
        error => wrong(error.to_string()),
    })?;
    Ok(Locks::new(redis))
}

#[cfg(feature = "etcd")]
async fn etcd(scheme: &'static str, url: &str) -> Result<Locks, ConnectError> {
    let wrong = |problem: String| ConnectError::BadUrl { scheme, problem };
    let config = EtcdConfig::from_url(url).map_err(|error| wrong(error.to_string()))?;
    let etcd = Etcd::connect(config, &Keeper::shared()).await.map_err(|error| match error {
        EtcdError::Store(source) => ConnectError::Backend { source },
        error => wrong(error.to_string()),
    })?;
    Ok(Locks::new(etcd))
}

#[cfg(all(feature = "sqlite", target_os = "linux"))]
async fn sqlite(url: &str) -> Result<Locks, ConnectError> {
    let wrong = |problem: String| ConnectError::BadUrl { scheme: "sqlite", problem };
    let config = SqliteConfig::from_url(url).map_err(|error| wrong(error.to_string()))?;
    let sqlite = Sqlite::connect(config, &Keeper::shared()).await.map_err(|error| match error {
        SqliteError::Store(source) => ConnectError::Backend { source },
        error => wrong(error.to_string()),
    })?;
    Ok(Locks::new(sqlite))
}

#[cfg(all(feature = "sqlite", not(target_os = "linux")))]
#[allow(clippy::unused_async, reason = "on Linux there is something to wait for")]
async fn sqlite(_: &str) -> Result<Locks, ConnectError> {
    let problem = "this store needs Linux; use a server, as `redis:` does".to_owned();
    Err(ConnectError::BadUrl { scheme: "sqlite", problem })
}

#[cfg(feature = "zk")]
async fn zookeeper(scheme: &'static str, url: &str) -> Result<Locks, ConnectError> {
    let wrong = |problem: String| ConnectError::BadUrl { scheme, problem };
    let config = ZkConfig::from_url(url).map_err(|error| wrong(error.to_string()))?;
    let zookeeper = ZooKeeper::connect(config, &Keeper::shared()).await.map_err(|error| match error {
        ZkError::Store(source) => ConnectError::Backend { source },
        error => wrong(error.to_string()),
    })?;
    Ok(Locks::new(zookeeper))
}
