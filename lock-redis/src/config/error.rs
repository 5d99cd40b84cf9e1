//! [`ConfigError`]: what is wrong with a [`RedisConfig`](crate::RedisConfig), and what to write instead.

use std::{path::PathBuf, time::Duration};

/// A setting that is not allowed. Never contains a password, and so never the whole URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The text is not a URL.
    #[error("this is no redis url ({reason}); write redis://[user:password@]host[:port][/database]")]
    Url {
        /// What the parser said.
        reason: String,
    },
    /// The URL is for something else.
    #[error("`{scheme}://` is not for redis; use `redis://`, or `rediss://` for tls")]
    Scheme {
        /// What stands before the colon.
        scheme: String,
    },
    /// There is no host.
    #[error("the host is missing; write redis://host, or set `host`")]
    Host,
    /// The port is 0.
    #[error("port 0 cannot be connected to; use 1 to 65535, or leave it out for 6379")]
    Port,
    /// The path of the URL is not a database.
    #[error("`{given}` is no database; write its number after the host, as in redis://host/0")]
    Database {
        /// What stands there.
        given: String,
    },
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
    /// A user without a password.
    #[error("a user needs a password; write user:password@host, or set `password`")]
    UserWithoutPassword,
    /// The key prefix would mix its hash tag with names.
    #[error("the prefix `{}` has a brace that is not closed, or encloses nothing; mend it, or leave it out", prefix.escape_debug())]
    Prefix {
        /// What was given.
        prefix: String,
    },
    /// The client name is one that the server refuses.
    #[error(
        "the client name `{}` is not allowed; use 1 to 128 visible ascii characters without spaces",
        name.escape_debug()
    )]
    ClientName {
        /// What was given.
        name: String,
    },
    /// A certificate without TLS.
    #[error("`{option}` is only for tls; use rediss://, or set `tls`")]
    OnlyWithTls {
        /// The name of the setting.
        option: &'static str,
    },
    /// A certificate without its key, or a key without its certificate.
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
    /// The host cannot be a name in a certificate.
    #[error("`{host}` cannot be the name in a certificate; use a host name or an address")]
    TlsHost {
        /// The host.
        host: String,
    },
    /// Nothing to trust.
    #[error("this system has no trusted certificates{}; give the server's with `ca`", suffix(reason))]
    NoTrustedCertificates {
        /// What the system said, if anything.
        reason: String,
    },
}

fn suffix(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
}
