//! [`Endpoint`]: one member of the cluster.

use std::{fmt, str::FromStr};

use serde::Deserialize;
use url::{Host, Url};

use super::ConfigError;

const PORT: u16 = 2379;

/// Where one member of a cluster answers clients: `host` or `host:port`, an IPv6 address in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Endpoint {
    /// As it stands in a URL: an IPv6 address in brackets.
    host: String,
    port: u16,
}

impl Endpoint {
    /// The host: a name, an IPv4 address, or an IPv6 address in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port. 2379 where none was given.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// As the client of etcd wants it.
    pub(crate) fn url(&self, tls: bool) -> String {
        format!("{}://{self}", if tls { "https" } else { "http" })
    }
}

impl Default for Endpoint {
    fn default() -> Self {
        Self { host: "localhost".into(), port: PORT }
    }
}

impl FromStr for Endpoint {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        if text.is_empty() || text.starts_with(':') {
            return Err(ConfigError::Host);
        }
        // What comes from a file may be anything: only a host and a port are taken.
        if text.contains(['/', '?', '#', '@', ',', '\\']) || text.contains(char::is_whitespace) {
            return Err(ConfigError::Endpoint { reason: "it is not `host` or `host:port`".into() });
        }
        let url = Url::parse(&format!("http://{text}"))
            .map_err(|error| ConfigError::Endpoint { reason: error.to_string() })?;
        let host = match url.host() {
            Some(Host::Domain(name)) if !name.is_empty() => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => format!("[{address}]"),
            _ => return Err(ConfigError::Host),
        };
        // A port of 80 is left out by the parser, as the default of http.
        let given = text.strip_prefix(&host).unwrap_or(text).rsplit_once(':').map(|(_, port)| port);
        let port = match given.map(str::parse) {
            None => PORT,
            Some(Ok(0) | Err(_)) => return Err(ConfigError::Port),
            Some(Ok(port)) => port,
        };
        Ok(Self { host, port })
    }
}

impl TryFrom<String> for Endpoint {
    type Error = ConfigError;

    fn try_from(text: String) -> Result<Self, ConfigError> {
        text.parse()
    }
}

/// `host:port`.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
