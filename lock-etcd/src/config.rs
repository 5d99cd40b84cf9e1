//! [`EtcdConfig`]: where the cluster is, as which user we connect, and all time limits.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use lock_core::settings::{ByName, ConfigError, Endpoint, Login, Password, TlsFiles, UrlForm, duration};
use serde::{Deserialize, Deserializer};

/// How to reach an etcd cluster.
///
/// From a URL, whose parts are percent-encoded where they contain what has a meaning in URLs:
///
/// ```text
/// etcd://[user:password@]host[:port][,host[:port]…][/prefix][?parameter=value[&…]]
/// ```
///
/// `etcds://` is the same with TLS. The parameters are `command_timeout`, `connect_timeout`, `heartbeat`, `password_file`, `ca`,
/// `cert` and `key`: the fields of this struct of the same names. A path `/app/locks` is the prefix `app/locks/`.
///
/// ```
/// # use std::time::Duration;
/// use lock_etcd::EtcdConfig;
///
/// let config: EtcdConfig = "etcd://app:secret@etcd-1,etcd-2:2379,etcd-3/app/locks?command_timeout=500ms".parse()?;
/// assert_eq!(config.endpoints.len(), 3);
/// assert_eq!(config.prefix, "app/locks/");
/// assert_eq!(config.command_timeout, Duration::from_millis(500));
/// assert!(!format!("{config} {config:?}").contains("secret"));
///
/// // The same from a file: what is left out has its default, what is unknown is an error.
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
    /// Members of the cluster, `host` or `host:port` each. Default `localhost:2379`. The first that answers is used until
    /// it fails; one that is dead costs a quarter of a second when a connection is opened.
    pub endpoints: Vec<Endpoint>,
    /// Whether to use TLS. Default: no.
    pub tls: bool,
    /// A PEM file with the only certificates to trust. Default: those that the system trusts. Only with TLS; read once,
    /// when the backend is made.
    pub ca: Option<PathBuf>,
    /// A PEM file with the certificate (and its chain) to show to the server. Default: none. Only with `key`; read once.
    pub cert: Option<PathBuf>,
    /// A PEM file with the private key of `cert`, not encrypted. Default: none. Only with `cert`; read once.
    pub key: Option<PathBuf>,
    /// The user. Default: none. Only with `password`. It needs to read and write everything under the prefix.
    pub user: Option<String>,
    /// The password. Default: none. Only with `user`.
    pub password: Option<Password>,
    /// A file with the password in its only line, instead of `password`: what stands in a URL, others may see. Default: none. Read once.
    pub password_file: Option<PathBuf>,
    /// What all keys start with. Default `distlock/`. From a URL always with a `/` at its end; here as it is.
    pub prefix: String,
    /// How long to wait for the answer to a command. Default 2 s; 10 ms to 1 h.
    #[serde(with = "lock_core::settings::duration")]
    pub command_timeout: Duration,
    /// How long opening a connection may take, over all endpoints, from the name's resolution to the first answer. Default
    /// 2 s; 10 ms to 1 h. A command that needs a new connection can take this and `command_timeout`.
    #[serde(with = "lock_core::settings::duration")]
    pub connect_timeout: Duration,
    /// How long the watch stream may be silent when it is asked for a sign of life, which it is twice in this time. Default
    /// 1 s; 10 ms to 1 h. A connection that died without a word is noticed within one and a half times this.
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
            tls: false,
            ca: None,
            cert: None,
            key: None,
            user: None,
            password: None,
            password_file: None,
            prefix: "distlock/".into(),
            command_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(2),
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
        let mut config = Self {
            endpoints: url.endpoints,
            tls: url.tls,
            user: url.user,
            password: url.password,
            ..Self::default()
        };
        if !url.path.is_empty() {
            config.prefix = if url.path.ends_with('/') { url.path } else { url.path + "/" };
        }
        for (parameter, value) in url.parameters {
            match parameter {
                "command_timeout" => config.command_timeout = duration::setting(parameter, &value)?,
                "connect_timeout" => config.connect_timeout = duration::setting(parameter, &value)?,
                "heartbeat" => config.heartbeat = duration::setting(parameter, &value)?,
                "password_file" => config.password_file = Some(value.into()),
                "ca" => config.ca = Some(value.into()),
                "cert" => config.cert = Some(value.into()),
                _ => config.key = Some(value.into()),
            }
        }
        config.validate()?;
        Ok(config)
    }

    /// Checks every field, but opens no file. A backend does it first when it is made.
    ///
    /// # Errors
    /// [`ConfigError`] names the first field that is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.endpoints.is_empty() {
            return Err(ConfigError::Host);
        }
        self.login().validate_with_user()?;
        TlsFiles { ca: &self.ca, cert: &self.cert, key: &self.key }.validate(self.tls)?;
        if self.prefix.len() > MAX_PREFIX {
            let hint = "use at most 1024 bytes";
            return Err(ConfigError::Setting { option: "prefix", given: self.prefix.clone(), hint });
        }
        duration::within("command_timeout", self.command_timeout, &duration::TIMEOUTS)?;
        duration::within("connect_timeout", self.connect_timeout, &duration::TIMEOUTS)?;
        duration::within("heartbeat", self.heartbeat, &duration::TIMEOUTS)
    }

    pub(crate) fn login(&self) -> Login<'_> {
        Login { user: &self.user, password: &self.password, password_file: &self.password_file }
    }

    /// `host:port` of one of the endpoints.
    pub(crate) fn address(&self, endpoint: usize) -> String {
        self.endpoints[endpoint].address(PORT)
    }

    /// The same as the client of etcd wants it.
    pub(crate) fn url(&self, endpoint: usize) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.address(endpoint))
    }
}

impl<'de> Deserialize<'de> for EtcdConfig {
    fn deserialize<D: Deserializer<'de>>(format: D) -> Result<Self, D::Error> {
        // The derived one, which is not that of the trait.
        Self::deserialize(ByName(format))
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
        f.write_str(if self.tls { "etcds://" } else { "etcd://" })?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        for (i, endpoint) in self.endpoints.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { "," }, endpoint.address(PORT))?;
        }
        write!(f, "/{}", self.prefix)
    }
}

#[cfg(test)]
mod tests;
