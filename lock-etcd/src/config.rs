//! [`EtcdConfig`]: the addresses of the members, the login, and the time limits.

use std::{fmt, str::FromStr, time::Duration};

use lock_core::settings::{ConfigError, Endpoint, Flattened, ServerConfig, UrlForm, duration};
use serde::{Deserialize, Deserializer};

/// How to reach an etcd cluster.
///
/// From a URL. Characters with a meaning in URLs are percent-encoded in its parts:
///
/// ```text
/// etcd://[user:password@]host[:port][,host[:port]…][/prefix][?parameter=value[&…]]
/// ```
///
/// `etcds://` is the same with TLS. The parameters are `command_timeout`, `connect_timeout`, `heartbeat`, `password_file`, `ca`,
/// `cert` and `key`: the fields of the same names of this struct and of its [`server`](Self::server). In a file all fields stand side
/// by side. A path `/app/locks` is the prefix `app/locks/`.
///
/// ```
/// # use std::time::Duration;
/// use lock_etcd::EtcdConfig;
///
/// let config: EtcdConfig = "etcd://app:secret@etcd-1,etcd-2:2379,etcd-3/app/locks?command_timeout=500ms".parse()?;
/// assert_eq!(config.endpoints.len(), 3);
/// assert_eq!(config.prefix, "app/locks/");
/// assert_eq!(config.server.command_timeout, Duration::from_millis(500));
/// assert!(!format!("{config} {config:?}").contains("secret"));
///
/// // The same from a file: a missing field has its default, an unknown one is an error.
/// let same: EtcdConfig = serde_json::from_str(
///     r#"{ "endpoints": ["etcd-1", "etcd-2:2379", "etcd-3"], "user": "app", "password": "secret",
///          "prefix": "app/locks/", "command_timeout": "500ms" }"#,
/// )?;
/// assert_eq!(config, same);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The password is in no `Debug`, `Display`, error or trace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EtcdConfig {
    /// Members of the cluster, each as `host` or `host:port`. Default `localhost:2379`. The first one that answers is used until
    /// it fails. A dead member costs a quarter of a second when a connection is opened.
    pub endpoints: Vec<Endpoint>,
    /// TLS, the login, and the time limits. The user needs to read and write everything under the prefix; a password needs a user.
    #[serde(skip)]
    pub server: ServerConfig,
    /// The start of all keys. Default `distlock/`. A prefix from a URL always ends with `/`; this field is used as it is.
    pub prefix: String,
    /// How long the watch stream may be silent after a request for its progress, which is sent twice in this time. Default
    /// 1 s; 10 ms to 1 h. A connection that died silently is noticed within one and a half times this time.
    #[serde(with = "lock_core::settings::duration")]
    pub heartbeat: Duration,
}

const FORM: UrlForm = UrlForm {
    scheme: "etcd",
    tls_scheme: "etcds",
    shape: "etcd://[user:password@]host[:port][,host[:port]…][/prefix]",
    parameters: &["command_timeout", "connect_timeout", "heartbeat", "password_file", "ca", "cert", "key"],
};
const PORT: u16 = 2379;
const MAX_PREFIX: usize = 1024;

impl Default for EtcdConfig {
    fn default() -> Self {
        Self {
            endpoints: vec![Endpoint::localhost()],
            server: ServerConfig::default(),
            prefix: "distlock/".into(),
            heartbeat: Duration::from_secs(1),
        }
    }
}

impl EtcdConfig {
    /// Reads a URL, as `parse` does.
    ///
    /// # Errors
    /// [`ConfigError`] says which part is wrong, and what to write instead.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let url = FORM.read(url)?;
        let mut config = Self { endpoints: url.endpoints, server: url.server, ..Self::default() };
        if !url.path.is_empty() {
            config.prefix = if url.path.ends_with('/') { url.path } else { url.path + "/" };
        }
        for (parameter, value) in url.parameters {
            config.heartbeat = duration::setting(parameter, &value)?;
        }
        config.validate()?;
        Ok(config)
    }

    /// Checks every field, but opens no file. Making a backend checks them, too.
    ///
    /// # Errors
    /// [`ConfigError`] names the first field that is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.endpoints.is_empty() {
            return Err(ConfigError::Host);
        }
        self.server.validate_with_user()?;
        if self.prefix.len() > MAX_PREFIX {
            let hint = "use at most 1024 bytes";
            return Err(ConfigError::Setting { option: "prefix", given: self.prefix.clone(), hint });
        }
        duration::within("heartbeat", self.heartbeat, &duration::TIMEOUTS)
    }

    /// `host:port` of one of the endpoints.
    pub(crate) fn address(&self, endpoint: usize) -> String {
        self.endpoints[endpoint].address(PORT)
    }

    /// The same as a URL for the etcd client.
    pub(crate) fn url(&self, endpoint: usize) -> String {
        format!("{}://{}", if self.server.tls { "https" } else { "http" }, self.address(endpoint))
    }
}

impl<'de> Deserialize<'de> for EtcdConfig {
    fn deserialize<D: Deserializer<'de>>(format: D) -> Result<Self, D::Error> {
        let mut server = ServerConfig::default();
        // The derived function, and not that of the trait.
        let own = Self::deserialize(Flattened { format, server: &mut server })?;
        Ok(Self { server, ..own })
    }
}

impl FromStr for EtcdConfig {
    type Err = ConfigError;

    fn from_str(url: &str) -> Result<Self, ConfigError> {
        Self::from_url(url)
    }
}

/// The cluster as a URL, without the password and without parameters.
impl fmt::Display for EtcdConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&FORM.start(&self.server))?;
        for (i, endpoint) in self.endpoints.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { "," }, endpoint.address(PORT))?;
        }
        write!(f, "/{}", self.prefix)
    }
}

#[cfg(test)]
mod tests;
