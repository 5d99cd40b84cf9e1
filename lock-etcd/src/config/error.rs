//! [`ConfigError`]: what is wrong with an [`EtcdConfig`](crate::EtcdConfig), and what to write instead.

use std::{path::PathBuf, time::Duration};

/// A setting that is not allowed. Never contains a password, and so never the whole URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The text is not a URL.
    #[error("this is no etcd url; write etcd://[user:password@]host[:port][,host[:port]…][/prefix]")]
    Url,
    /// The URL is for something else.
    #[error("`{scheme}://` is not for etcd; use `etcd://`, or `etcds://` for tls")]
    Scheme {
        /// What stands before the colon.
        scheme: String,
    },
    /// There is no host.
    #[error("a host is missing; write etcd://host, or set `endpoints`")]
    Host,
    /// An endpoint cannot be read.
    #[error("an endpoint cannot be used ({reason}); write host or host:port, an ipv6 address in brackets")]
    Endpoint {
        /// What is wrong with it.
        reason: String,
    },
    /// The port is not one.
    #[error("a port is not one that can be connected to; use 1 to 65535, or leave it out for 2379")]
    Port,
    /// A part of the URL does not decode to text.
    #[error("the {part} of the url is not text; percent-encode its utf-8 bytes")]
    Encoding {
        /// Which part.
        part: &'static str,
    },
    /// There is an `@` where no user or password can be: most likely behind a `/` or `?` in a password.
    #[error("an `@` stands behind the host; percent-encode `@`, `/`, `?` and `#` in user and password")]
    StrayAt,
    /// The URL has a fragment: most likely a `#` in a password.
    #[error("the url has a `#`, which ends it; write %23 if it belongs to a part of it")]
    Fragment,
    /// The URL has a parameter that does not exist.
    #[error("there is no parameter `{parameter}`; there are {}", super::url::PARAMETERS.join(", "))]
    UnknownParameter {
        /// Its name.
        parameter: String,
    },
    /// The URL has a parameter twice.
    #[error("parameter `{parameter}` is there twice; give it once")]
    RepeatedParameter {
        /// Its name.
        parameter: String,
    },
    /// A duration cannot be read.
    #[error("`{option}` cannot be `{given}`; write a duration such as 500ms or 2s")]
    UnreadableDuration {
        /// The name of the setting.
        option: &'static str,
        /// What was given.
        given: String,
    },
    /// A duration is out of its range.
    #[error("`{option}` cannot be {given:?}; use {least:?} to {most:?}")]
    Duration {
        /// The name of the setting.
        option: &'static str,
        /// What was given.
        given: Duration,
        /// The least that is taken.
        least: Duration,
        /// The most that is taken.
        most: Duration,
    },
    /// The prefix is too long.
    #[error("a prefix of {len} bytes is too long; use at most 1024 bytes")]
    Prefix {
        /// The length that was given, in bytes.
        len: usize,
    },
    /// A certificate without TLS.
    #[error("`{option}` is only for tls; use etcds://, or set `tls`")]
    OnlyWithTls {
        /// The name of the setting.
        option: &'static str,
    },
    /// A certificate without its key, a user without a password, or the other way round.
    #[error("`{given}` needs `{missing}` beside it; give both or neither")]
    OnlyTogether {
        /// What is there.
        given: &'static str,
        /// What is not.
        missing: &'static str,
    },
    /// A PEM file that cannot be used.
    #[error("`{option}`: {} cannot be used: {reason}", path.display())]
    File {
        /// The name of the setting.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The certificates do not fit together, or there is nothing to trust.
    #[error("tls cannot be used: {reason}; check `ca`, `cert` and `key`")]
    Tls {
        /// What is wrong.
        reason: String,
    },
}
