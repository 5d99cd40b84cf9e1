//! [`ConfigError`]: what is wrong with the settings of a backend, and what to write instead.

use std::{path::PathBuf, time::Duration};

/// A setting that is not allowed. Never contains a password, and so never the whole URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The text is not a URL.
    #[error("this is not a url of this store; write {shape}")]
    Url {
        /// The form of a URL of this store.
        shape: &'static str,
    },
    /// The URL has the scheme of another store.
    #[error("`{given}://` is not for this store; use `{scheme}://`, or `{tls_scheme}://` for tls")]
    Scheme {
        /// The scheme that was given.
        given: String,
        /// The scheme of this store.
        scheme: &'static str,
        /// The scheme of this store for TLS.
        tls_scheme: &'static str,
    },
    /// There is no host.
    #[error("a host is missing; give the name or the address of a server")]
    Host,
    /// There are several hosts for a store that has one.
    #[error("there are several hosts; this store has one")]
    OneHost,
    /// A host and port cannot be read.
    #[error("a host cannot be used; write host or host:port, an ipv6 address in brackets")]
    Endpoint,
    /// A port is not a number from 1 to 65535.
    #[error("a port cannot be connected to; use 1 to 65535, or leave it out")]
    Port,
    /// A part of the URL does not decode to text.
    #[error("the {part} of the url is not text; percent-encode its utf-8 bytes")]
    Encoding {
        /// The part of the URL.
        part: &'static str,
    },
    /// There is an `@` after the host: most likely a password contains a `/` or `?`.
    #[error("there is an `@` after the host; percent-encode `@`, `/`, `?` and `#` in user and password")]
    StrayAt,
    /// The URL has a fragment: most likely a `#` in a password.
    #[error("the url has a `#`, which would end it; write %23 instead")]
    Fragment,
    /// The URL has a parameter that does not exist.
    #[error("there is no parameter `{parameter}`; there are {}", known.join(", "))]
    UnknownParameter {
        /// Its name.
        parameter: String,
        /// The parameters that exist.
        known: &'static [&'static str],
    },
    /// The URL has the same parameter twice.
    #[error("parameter `{parameter}` is given twice; give it once")]
    RepeatedParameter {
        /// Its name.
        parameter: String,
    },
    /// A setting has a value that is not allowed.
    #[error("`{option}` cannot be `{}`; {hint}", given.escape_debug())]
    Setting {
        /// The name of the setting.
        option: &'static str,
        /// What was given.
        given: String,
        /// What to write instead.
        hint: &'static str,
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
    /// A setting that means nothing without TLS.
    #[error("`{option}` is only for tls; set `tls`, or use the url's scheme for it")]
    OnlyWithTls {
        /// The name of the setting.
        option: &'static str,
    },
    /// A certificate without its key, a user without a password, or the other way round.
    #[error("`{given}` needs `{missing}` beside it; add it, or leave out both")]
    OnlyTogether {
        /// The setting that was given.
        given: &'static str,
        /// The setting that is missing.
        missing: &'static str,
    },
    /// A file that cannot be used.
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
