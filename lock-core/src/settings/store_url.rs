//! [`UrlForm`] and [`StoreUrl`]: a URL of a store, in its parts.
//!
//! Parsed by hand, because a standard URL has one host, and a cluster has several. No error quotes the URL, because it may contain a
//! password.

use percent_encoding::percent_decode_str;

use super::{ConfigError, Endpoint, ServerConfig};

/// What the URLs of one kind of store look like.
///
/// ```
/// # use std::time::Duration;
/// use lock_core::settings::UrlForm;
///
/// const FORM: UrlForm = UrlForm {
///     scheme: "store",
///     tls_scheme: "stores",
///     shape: "store://[user:password@]host[:port][,host[:port]…][/prefix]",
///     parameters: &["command_timeout", "heartbeat"],
/// };
///
/// let url = FORM.read("stores://app:p%40ss@one,two:7000/locks?command_timeout=1s&heartbeat=3s")?;
/// assert!(url.server.tls);
/// assert_eq!(url.server.command_timeout, Duration::from_secs(1));
/// assert_eq!(url.endpoints.len(), 2);
/// assert_eq!(url.path, "locks");
/// assert_eq!(url.parameters, [("heartbeat", "3s".to_owned())]);
///
/// let error = FORM.read("store://app:pass/word@one").unwrap_err();
/// assert!(!error.to_string().contains("word@"));
/// # Ok::<(), lock_core::settings::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct UrlForm {
    /// The scheme, without `://`.
    pub scheme: &'static str,
    /// The scheme for TLS.
    pub tls_scheme: &'static str,
    /// The form of such a URL, for errors.
    pub shape: &'static str,
    /// The parameters that exist. Those that are settings of a [`ServerConfig`] go there, all others to [`StoreUrl::parameters`].
    pub parameters: &'static [&'static str],
}

/// A URL of a store, in its parts, each of them decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreUrl {
    /// What the scheme, the login and the parameters say about any server. What is left out has its default; a user is not empty.
    pub server: ServerConfig,
    /// The servers, at least one.
    pub endpoints: Vec<Endpoint>,
    /// The path after the servers, without its first slash.
    pub path: String,
    /// The other parameters, each of the known ones at most once.
    pub parameters: Vec<(&'static str, String)>,
}

impl UrlForm {
    /// Reads a URL.
    ///
    /// # Errors
    /// [`ConfigError`] says which part is wrong, and what to write instead.
    pub fn read(&self, text: &str) -> Result<StoreUrl, ConfigError> {
        let no_url = ConfigError::Url { shape: self.shape };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| no_url.clone())?;
        let tls = match scheme.to_ascii_lowercase() {
            given if given == self.scheme => false,
            given if given == self.tls_scheme => true,
            // What is not a scheme may be half of a password.
            given if given.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b)) => {
                let Self { scheme, tls_scheme, .. } = *self;
                return Err(ConfigError::Scheme { given, scheme, tls_scheme });
            }
            _ => return Err(no_url),
        };
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        // Before anything else: what looks like a path or a query may be half of a password.
        if rest.contains('@') {
            return Err(ConfigError::StrayAt);
        }
        if rest.contains('#') {
            return Err(ConfigError::Fragment);
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').map_or((login, None), |(user, p)| (user, Some(p)));
        let mut server = ServerConfig {
            tls,
            user: Some(decoded("user", user)?).filter(|user| !user.is_empty()),
            password: password.map(|p| decoded("password", p)).transpose()?.map(Into::into),
            ..ServerConfig::default()
        };
        let endpoints: Vec<Endpoint> =
            hosts.split(',').map(|host| decoded("host", host)?.parse()).collect::<Result<_, _>>()?;
        let path = decoded("path", path.strip_prefix('/').unwrap_or(path))?;
        let mut parameters = Vec::new();
        for (parameter, value) in self.parameters(query)? {
            parameters.extend(server.set(parameter, value)?.map(|value| (parameter, value)));
        }
        Ok(StoreUrl { server, endpoints, path, parameters })
    }

    /// The beginning of such a URL for people: the scheme and the user, without the password.
    #[must_use]
    pub fn start(&self, server: &ServerConfig) -> String {
        let scheme = if server.tls { self.tls_scheme } else { self.scheme };
        let user = server.user.as_ref().map_or_else(String::new, |user| format!("{user}@"));
        format!("{scheme}://{user}")
    }

    fn parameters(&self, query: &str) -> Result<Vec<(&'static str, String)>, ConfigError> {
        let mut read: Vec<(&'static str, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (given, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(name) = self.parameters.iter().copied().find(|name| *name == given) else {
                return Err(ConfigError::UnknownParameter {
                    parameter: given.into(),
                    known: self.parameters,
                });
            };
            if read.iter().any(|(there, _)| *there == name) {
                return Err(ConfigError::RepeatedParameter { parameter: given.into() });
            }
            read.push((name, decoded("query", value)?));
        }
        Ok(read)
    }
}

impl StoreUrl {
    /// The one server, for a store that has no more.
    ///
    /// # Errors
    /// [`ConfigError::OneHost`] if there are several.
    pub fn endpoint(&self) -> Result<&Endpoint, ConfigError> {
        match self.endpoints.as_slice() {
            [one] => Ok(one),
            _ => Err(ConfigError::OneHost),
        }
    }
}

fn decoded(part: &'static str, text: &str) -> Result<String, ConfigError> {
    let text = percent_decode_str(text).decode_utf8().map_err(|_| ConfigError::Encoding { part })?;
    Ok(text.into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FORM: UrlForm = UrlForm {
        scheme: "store",
        tls_scheme: "stores",
        shape: "store://host",
        parameters: &["prefix", "heartbeat"],
    };

    fn refused(text: &str) -> ConfigError {
        FORM.read(text).unwrap_err()
    }

    #[test]
    fn every_part_is_read_and_decoded() {
        let url =
            FORM.read("STORES://u%40x:p%3Aw%23@[::1]:7000,host/a%20b/c?prefix=a%26+&heartbeat=").unwrap();
        let ServerConfig { tls, user, password, .. } = url.server;
        assert_eq!((tls, user.as_deref(), password), (true, Some("u@x"), Some("p:w#".into())));
        assert_eq!(url.endpoints.iter().map(ToString::to_string).collect::<Vec<_>>(), ["[::1]:7000", "host"]);
        assert_eq!(url.path, "a b/c");
        assert_eq!(url.parameters, [("prefix", "a&+".to_owned()), ("heartbeat", String::new())]);
    }

    #[test]
    fn every_wrong_url_says_what_is_wrong() {
        for text in ["", "host", "host:1", "store:", "store:\n//user:1/hunter2@host", "a b://host"] {
            assert_eq!(refused(text), ConfigError::Url { shape: "store://host" }, "{text}");
        }
        let scheme = ConfigError::Scheme { given: "http".into(), scheme: "store", tls_scheme: "stores" };
        assert_eq!(refused("http://host"), scheme);
        for no_host in ["store://", "store:///a", "store://a,,b", "store://user:x@", "store://:1"] {
            assert_eq!(refused(no_host), ConfigError::Host, "{no_host}");
        }
        for half in ["store://user:1/hunter2@host", "store://user:1?hunter2@host", "store://:a#b@host"] {
            assert_eq!(refused(half), ConfigError::StrayAt, "{half}");
        }
        assert_eq!(refused("store://host#x"), ConfigError::Fragment);
        assert_eq!(refused("store://:%ff@host"), ConfigError::Encoding { part: "password" });
        assert_eq!(refused("store://%ff:x@host"), ConfigError::Encoding { part: "user" });
        let unknown = ConfigError::UnknownParameter { parameter: "db".into(), known: FORM.parameters };
        assert_eq!(unknown.to_string(), "there is no parameter `db`; there are prefix, heartbeat");
        assert_eq!(refused("store://host?db=3"), unknown);
        let twice = ConfigError::RepeatedParameter { parameter: "prefix".into() };
        assert_eq!(refused("store://host?prefix=a&prefix=b"), twice);
        assert_eq!(FORM.read("store://a,b").unwrap().endpoint(), Err(ConfigError::OneHost));
    }

    proptest! {
        #[test]
        fn no_error_shows_what_may_be_a_password(before in "[a-z/?#:%&=,]{0,6}", after in "[a-z/?#:%&=,]{0,6}", end in ".{0,12}") {
            if let Err(error) = FORM.read(&format!("store://user:{before}SECRET{after}@{end}")) {
                prop_assert!(!format!("{error} {error:?}").contains("SECRET"), "{}", error);
            }
        }
    }
}
