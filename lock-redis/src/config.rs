//! [`RedisConfig`]: the address of the server, the login, and the time limits.

pub(crate) mod tls;

use std::{fmt, str::FromStr, time::Duration};

use lock_core::settings::{ConfigError, Flattened, ServerConfig, UrlForm, duration};
use serde::{Deserialize, Deserializer};

/// How to reach a Redis or Valkey server.
///
/// From a URL. Characters with a meaning in URLs are percent-encoded in its parts:
///
/// ```text
/// redis://[user[:password]@]host[:port][/database][?parameter=value[&…]]
/// ```
///
/// `rediss://` is the same with TLS. `redis://:password@host` authenticates the default user. The parameters are
/// `prefix`, `client_name`, `command_timeout`, `connect_timeout`, `confirm_hints`, `heartbeat`, `password_file`, `ca`, `cert` and `key`: the
/// fields of the same names of this struct and of its [`server`](Self::server). In a file all fields stand side by side.
///
/// ```
/// # use std::time::Duration;
/// use lock_redis::RedisConfig;
///
/// let config: RedisConfig = "redis://app:secret@cache.internal:6380/2?prefix=locks:&command_timeout=500ms".parse()?;
/// assert_eq!(config.host, "cache.internal");
/// assert_eq!(config.server.command_timeout, Duration::from_millis(500));
/// assert!(!format!("{config} {config:?}").contains("secret"));
///
/// // The same from a file: a missing field has its default, an unknown one is an error.
/// let same: RedisConfig = serde_json::from_str(
///     r#"{ "host": "cache.internal", "port": 6380, "user": "app", "password": "secret", "database": 2,
///          "prefix": "locks:", "command_timeout": "500ms" }"#,
/// )?;
/// assert_eq!(config, same);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The password is in no `Debug`, `Display`, error or trace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RedisConfig {
    /// A name or an address. Default `localhost`.
    pub host: String,
    /// Default 6379.
    pub port: u16,
    /// TLS, the login, and the time limits. The user is an ACL user; a password without a user is that of the server's default user.
    #[serde(skip)]
    pub server: ServerConfig,
    /// The number of the database. Default 0.
    pub database: u32,
    /// The start of all keys and channels. Default `distlock:`. Use an empty prefix, or that of another library, to share mutexes
    /// with its `SET … NX PX` locks. Then make sure that no other key has the name of a lock, because a client that asks for such a
    /// lock waits until the key is gone. A `{` needs a `}` after it, because a hash tag must not extend into the name of a lock, and
    /// the first pair of braces must not be empty.
    pub prefix: String,
    /// What `CLIENT LIST` shows for our connections. Default `distlock`. Visible ASCII without spaces, at most 128 bytes.
    pub client_name: String,
    /// Whether a waiter that is notified of its grant asks the server to confirm it. Default: no. The confirmation takes one more
    /// round trip for each hand-off. It is useful if other users may publish on our channels but may not write our keys: see
    /// `docs/security.md`.
    pub confirm_hints: bool,
    /// How often a notification connection is tried with a `PING`, and how long its answer may take. Default 1 s; 10 ms
    /// to 1 h. A connection that died silently is noticed within twice this time.
    #[serde(with = "lock_core::settings::duration")]
    pub heartbeat: Duration,
}

const FORM: UrlForm = UrlForm {
    scheme: "redis",
    tls_scheme: "rediss",
    shape: "redis://[user:password@]host[:port][/database]",
    parameters: &[
        "prefix",
        "client_name",
        "command_timeout",
        "confirm_hints",
        "connect_timeout",
        "heartbeat",
        "password_file",
        "ca",
        "cert",
        "key",
    ],
};
const PORT: u16 = 6379;
const MAX_CLIENT_NAME: usize = 128;

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            host: "localhost".into(),
            port: PORT,
            server: ServerConfig::default(),
            database: 0,
            prefix: "distlock:".into(),
            client_name: "distlock".into(),
            confirm_hints: false,
            heartbeat: Duration::from_secs(1),
        }
    }
}

impl RedisConfig {
    /// Reads a URL, as `parse` does.
    ///
    /// # Errors
    /// [`ConfigError`] says which part is wrong, and what to write instead.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let url = FORM.read(url)?;
        let endpoint = url.endpoint()?;
        let mut config = Self {
            host: endpoint.host().into(),
            port: endpoint.port().unwrap_or(PORT),
            database: database(&url.path)?,
            server: url.server,
            ..Self::default()
        };
        for (parameter, value) in url.parameters {
            match parameter {
                "prefix" => config.prefix = value,
                "client_name" => config.client_name = value,
                "confirm_hints" => config.confirm_hints = flag("confirm_hints", value)?,
                _ => config.heartbeat = duration::setting(parameter, &value)?,
            }
        }
        config.validate()?;
        Ok(config)
    }

    /// Checks every field, but opens no file. Making a backend checks them, too.
    ///
    /// # Errors
    /// [`ConfigError`] names the first field that is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.host.is_empty() {
            return Err(ConfigError::Host);
        }
        if self.port == 0 {
            return Err(ConfigError::Port);
        }
        self.server.validate()?;
        let unclosed = self.prefix.rfind('{').is_some_and(|open| !self.prefix[open..].contains('}'));
        // With nothing in the first braces, a cluster hashes whole keys, and a lock would have several slots.
        let empty = self.prefix.split_once('{').is_some_and(|(_, rest)| rest.starts_with('}'));
        if unclosed || empty {
            let hint = "a brace is not closed, or encloses nothing; correct it, or leave it out";
            return Err(ConfigError::Setting { option: "prefix", given: self.prefix.clone(), hint });
        }
        let name = self.client_name.as_bytes();
        if name.is_empty() || name.len() > MAX_CLIENT_NAME || !name.iter().all(u8::is_ascii_graphic) {
            let hint = "use 1 to 128 visible ascii characters without spaces";
            return Err(ConfigError::Setting {
                option: "client_name",
                given: self.client_name.clone(),
                hint,
            });
        }
        duration::within("heartbeat", self.heartbeat, &duration::TIMEOUTS)
    }

    /// `host:port`, for messages.
    pub(crate) fn address(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

fn flag(option: &'static str, given: String) -> Result<bool, ConfigError> {
    match given.as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(ConfigError::Setting { option, given, hint: "write true or false" }),
    }
}

fn database(path: &str) -> Result<u32, ConfigError> {
    if path.is_empty() {
        return Ok(0);
    }
    let number = path.parse().ok().filter(|_| path.bytes().all(|b| b.is_ascii_digit()));
    let hint = "write the number of a database, as in redis://host/0";
    number.ok_or_else(|| ConfigError::Setting { option: "database", given: path.into(), hint })
}

impl<'de> Deserialize<'de> for RedisConfig {
    fn deserialize<D: Deserializer<'de>>(format: D) -> Result<Self, D::Error> {
        let mut server = ServerConfig::default();
        // The derived function, and not that of the trait.
        let own = Self::deserialize(Flattened { format, server: &mut server })?;
        Ok(Self { server, ..own })
    }
}

impl FromStr for RedisConfig {
    type Err = ConfigError;

    fn from_str(url: &str) -> Result<Self, ConfigError> {
        Self::from_url(url)
    }
}

/// The server as a URL, without the password and without parameters.
impl fmt::Display for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}/{}", FORM.start(&self.server), self.address(), self.database)
    }
}

#[cfg(test)]
mod tests;
