//! [`ZkConfig`]: the address of the ensemble, the credentials and the time limits.

mod acl;

use std::{fmt, str::FromStr, time::Duration};

use lock_core::settings::{ConfigError, Endpoint, Flattened, ServerConfig, UrlForm, duration};
use serde::{Deserialize, Deserializer};
use zookeeper_client::Acl;

use crate::keys::{Keys, Layout, is_path};

/// How to reach a ZooKeeper ensemble.
///
/// From a URL, in which characters with a meaning in URLs are percent-encoded:
///
/// ```text
/// zk://[user:password@]host[:port][,host[:port]…][/chroot][?parameter=value[&…]]
/// ```
///
/// `zks://` is the same with TLS, and needs the feature `tls`; see [`server`](Self::server). The parameters are `acl`, `tick`,
/// `command_timeout`, `connect_timeout`, `interop`, `password_file`, `ca`, `cert` and `key`: the fields of the same names of this struct
/// and of its `server`. In a file all fields stand side by side.
///
/// ```
/// # use std::time::Duration;
/// use lock_zk::ZkConfig;
///
/// let config: ZkConfig = "zk://app:secret@zk-1,zk-2:2181,zk-3/app/locks?command_timeout=500ms".parse()?;
/// assert_eq!(config.endpoints.len(), 3);
/// assert_eq!(config.chroot, "/app/locks");
/// assert_eq!(config.server.command_timeout, Duration::from_millis(500));
/// assert!(!format!("{config} {config:?}").contains("secret"));
///
/// // The same from a file. A field that is left out has its default; an unknown one is an error.
/// let same: ZkConfig = serde_json::from_str(
///     r#"{ "endpoints": ["zk-1", "zk-2:2181", "zk-3"], "user": "app", "password": "secret",
///          "chroot": "/app/locks", "command_timeout": "500ms" }"#,
/// )?;
/// assert_eq!(config, same);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The password appears in no `Debug`, `Display`, error or trace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ZkConfig {
    /// Servers of the ensemble, each as `host` or `host:port`. Default `localhost:2181`. The order does not matter.
    pub endpoints: Vec<Endpoint>,
    /// TLS, the login, and the time limits. The user is for the scheme `digest`, and has no `:`; a password needs a user. A command
    /// that needs a new session may take `connect_timeout` plus twice `command_timeout`.
    ///
    /// TLS needs the feature `tls`. The ZooKeeper client uses the provider of cryptography that is installed in rustls for the
    /// process. If there is none when the backend is made, ring is installed; to use another one, install it before.
    #[serde(skip)]
    pub server: ServerConfig,
    /// The access rights to the nodes that this library creates: `creator` gives all rights to their creator and none to others; `world`
    /// gives all rights to all clients; or rules `scheme:id:permissions` with `c`reate, `d`elete, `r`ead, `w`rite and `a`dmin, such as
    /// `digest:app:qO…=:cdrwa` and `world:anyone:r`. Default: `creator` with a user or with `cert`, else `world`. All clients
    /// that share locks need to create, delete, read and write. In a URL, rules are separated by `;`.
    pub acl: Vec<String>,
    /// The node under which all others are. Default `/distlock`; `/` is all of ZooKeeper. Created if it does not exist.
    pub chroot: String,
    /// The `tickTime` of the servers, or more. Default 2 s, like theirs; 10 ms to 1 h. A session has at least 6 ticks, and a
    /// heartbeat counts only after another tick. If this is less than the `tickTime` of the servers, a guard may be valid for
    /// some time after its session has ended.
    #[serde(with = "lock_core::settings::duration")]
    pub tick: Duration,
    /// The other library whose clients share mutexes with this one. Default: none.
    pub interop: Option<Interop>,
}

/// Other clients that use the same queues. See [`ZkConfig::interop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Interop {
    /// `InterProcessMutex` of Apache Curator. The name of a lock is its path there, below the chroot. For mutexes only.
    Curator,
}

const FORM: UrlForm = UrlForm {
    scheme: "zk",
    tls_scheme: "zks",
    shape: "zk://[user:password@]host[:port][,host[:port]…][/chroot]",
    parameters: &[
        "acl",
        "tick",
        "command_timeout",
        "connect_timeout",
        "interop",
        "password_file",
        "ca",
        "cert",
        "key",
    ],
};
const PORT: u16 = 2181;
const MAX_CHROOT: usize = 1024;

impl Default for ZkConfig {
    fn default() -> Self {
        Self {
            endpoints: vec![Endpoint::localhost()],
            server: ServerConfig::default(),
            acl: Vec::new(),
            chroot: "/distlock".into(),
            tick: Duration::from_secs(2),
            interop: None,
        }
    }
}

impl ZkConfig {
    /// Reads a URL, as `parse` does.
    ///
    /// # Errors
    /// [`ConfigError`] says which part is wrong, and what to write instead.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let url = FORM.read(url)?;
        let mut config = Self { endpoints: url.endpoints, server: url.server, ..Self::default() };
        if !url.path.is_empty() {
            config.chroot = format!("/{}", url.path.trim_end_matches('/'));
        }
        for (parameter, value) in url.parameters {
            match parameter {
                "acl" => config.acl = value.split(';').map(str::to_owned).collect(),
                "interop" if value == "curator" => config.interop = Some(Interop::Curator),
                "interop" => {
                    let hint = "write curator, or leave it out";
                    return Err(ConfigError::Setting { option: "interop", given: value, hint });
                }
                _ => config.tick = duration::setting(parameter, &value)?,
            }
        }
        config.validate()?;
        Ok(config)
    }

    /// Checks every field, but opens no file. Making a backend does this first.
    ///
    /// # Errors
    /// [`ConfigError`] names the first field that is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.endpoints.is_empty() {
            return Err(ConfigError::Host);
        }
        self.server.validate_with_user()?;
        if let Some(user) = self.server.user.as_ref().filter(|user| user.contains(':')) {
            let hint = "use a user without a colon: zookeeper takes the rest for the password";
            return Err(ConfigError::Setting { option: "user", given: user.clone(), hint });
        }
        if self.server.tls && !cfg!(feature = "tls") {
            return Err(ConfigError::Tls {
                reason: "this build is without the feature `tls` of lock-zk".into(),
            });
        }
        self.rights()?;
        let path = self.chroot.strip_prefix('/').unwrap_or_default();
        if self.chroot != "/" && (self.chroot.len() > MAX_CHROOT || !is_path(path)) {
            let hint = "write a path such as /app/locks, of at most 1024 bytes, or / for none";
            return Err(ConfigError::Setting { option: "chroot", given: self.chroot.clone(), hint });
        }
        duration::within("tick", self.tick, &duration::TIMEOUTS)
    }

    /// The access rights to the nodes that this library creates. A server identifies a client by its user or by its certificate.
    pub(crate) fn rights(&self) -> Result<Vec<Acl>, ConfigError> {
        acl::read(&self.acl, self.server.user.is_some() || self.server.cert.is_some())
    }

    pub(crate) fn keys(&self) -> Keys {
        let layout = if self.interop.is_some() { Layout::Curator } else { Layout::Own };
        Keys::new(&self.chroot, layout)
    }

    /// `host:port` of one of the endpoints.
    pub(crate) fn address(&self, endpoint: usize) -> String {
        self.endpoints[endpoint].address(PORT)
    }

    /// One of the endpoints, in the format of the ZooKeeper client.
    pub(crate) fn connect_string(&self, endpoint: usize) -> String {
        let scheme = if self.server.tls { "tcp+tls://" } else { "tcp://" };
        scheme.to_owned() + &self.address(endpoint)
    }

    /// All endpoints, for messages.
    fn servers(&self) -> String {
        let servers: Vec<_> = (0..self.endpoints.len()).map(|endpoint| self.address(endpoint)).collect();
        servers.join(",")
    }
}

impl<'de> Deserialize<'de> for ZkConfig {
    fn deserialize<D: Deserializer<'de>>(format: D) -> Result<Self, D::Error> {
        let mut server = ServerConfig::default();
        // The derived function, and not that of the trait.
        let own = Self::deserialize(Flattened { format, server: &mut server })?;
        Ok(Self { server, ..own })
    }
}

impl FromStr for ZkConfig {
    type Err = ConfigError;

    fn from_str(url: &str) -> Result<Self, ConfigError> {
        Self::from_url(url)
    }
}

/// The ensemble as a URL, without the password and without parameters.
impl fmt::Display for ZkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", FORM.start(&self.server), self.servers(), self.chroot)
    }
}

#[cfg(test)]
mod tests;
