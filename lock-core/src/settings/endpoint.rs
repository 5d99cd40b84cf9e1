//! [`Endpoint`]: the host and port of one server.

use std::{fmt, net::Ipv6Addr, str::FromStr};

use serde::Deserialize;

use super::ConfigError;

/// Where one server answers clients: `host` or `host:port`, an IPv6 address in brackets.
///
/// ```
/// use lock_core::settings::Endpoint;
///
/// let endpoint: Endpoint = "[::1]:7000".parse()?;
/// assert_eq!((endpoint.host(), endpoint.port()), ("::1", Some(7000)));
/// assert_eq!("store.internal".parse::<Endpoint>()?.address(2379), "store.internal:2379");
/// # Ok::<(), lock_core::settings::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Endpoint {
    host: String,
    port: Option<u16>,
}

impl Endpoint {
    /// This machine, at the port that a store has by default.
    #[must_use]
    pub fn localhost() -> Self {
        Self { host: "localhost".into(), port: None }
    }

    /// A name, or an address without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, if one was given.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// `host:port`, with this port if none was given.
    #[must_use]
    pub fn address(&self, default_port: u16) -> String {
        Self { host: self.host.clone(), port: Some(self.port.unwrap_or(default_port)) }.to_string()
    }
}

impl FromStr for Endpoint {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (address, rest) = rest.split_once(']').ok_or(ConfigError::Endpoint)?;
            let address: Ipv6Addr = address.parse().map_err(|_| ConfigError::Endpoint)?;
            let port = rest.strip_prefix(':');
            if port.is_none() && !rest.is_empty() {
                return Err(ConfigError::Endpoint);
            }
            (address.to_string(), port)
        } else {
            let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
            (name(host)?, port)
        };
        let port = port.map(|port| match port.parse() {
            Ok(0) | Err(_) => Err(ConfigError::Port),
            Ok(port) => Ok(port),
        });
        Ok(Self { host, port: port.transpose()? })
    }
}

/// What comes from a file may be anything. Whether it is a name that exists is for the resolver to say.
fn name(host: &str) -> Result<String, ConfigError> {
    if host.is_empty() {
        return Err(ConfigError::Host);
    }
    let strange = |c: char| c.is_whitespace() || c.is_control() || "/?#@,\\[]%<>^|\"`{}".contains(c);
    if host.contains(strange) { Err(ConfigError::Endpoint) } else { Ok(host.to_owned()) }
}

impl TryFrom<String> for Endpoint {
    type Error = ConfigError;

    fn try_from(text: String) -> Result<Self, ConfigError> {
        text.parse()
    }
}

/// As it is read.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]")?;
        } else {
            f.write_str(host)?;
        }
        port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_shown_again() {
        for (text, host, port) in [
            ("localhost", "localhost", None),
            ("my_host:1", "my_host", Some(1)),
            ("10.0.0.1:80", "10.0.0.1", Some(80)),
            ("[::1]", "::1", None),
            ("[fe80::1]:65535", "fe80::1", Some(65535)),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!((endpoint.host(), endpoint.port()), (host, port), "{text}");
            assert_eq!(endpoint.to_string(), text);
        }
        assert_eq!("[::1]".parse::<Endpoint>().unwrap().address(7), "[::1]:7");
        assert_eq!("host:8".parse::<Endpoint>().unwrap().address(7), "host:8");
    }

    #[test]
    fn what_is_no_endpoint_is_refused_and_not_repeated() {
        for (text, error) in [
            ("", ConfigError::Host),
            (":2379", ConfigError::Host),
            ("::1", ConfigError::Host),
            ("host:", ConfigError::Port),
            ("host:0", ConfigError::Port),
            ("host:99999", ConfigError::Port),
            ("host:hunter2", ConfigError::Port),
            ("fe80::1", ConfigError::Port),
            ("ho st", ConfigError::Endpoint),
            ("user@host", ConfigError::Endpoint),
            ("[::1", ConfigError::Endpoint),
            ("[::1]7000", ConfigError::Endpoint),
            ("[host]", ConfigError::Endpoint),
        ] {
            assert_eq!(text.parse::<Endpoint>(), Err(error), "{text}");
        }
    }
}
