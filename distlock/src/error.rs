//! [`ConnectError`]: why connecting failed.

use lock_core::{BackendError, InputError, settings};

/// Why [`connect`](crate::connect) failed. It never contains a password, however it is printed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL does not begin with a known scheme.
    #[error("{}; use one of {}", unknown(scheme.as_deref()), known())]
    UnknownScheme {
        /// What the URL begins with, or `None` if that does not look like a scheme.
        scheme: Option<String>,
    },
    /// The feature of this scheme is off.
    #[error(
        "`{scheme}:` URLs need the feature `{feature}` of the crate `distlock`; \
         enable it: cargo add distlock --features {feature}"
    )]
    MissingFeature {
        /// The scheme of the URL.
        scheme: &'static str,
        /// The feature to enable.
        feature: &'static str,
    },
    /// The URL is not valid for its scheme.
    #[error("the `{scheme}` URL is not right: {problem}")]
    BadUrl {
        /// The scheme of the URL.
        scheme: &'static str,
        /// What is wrong, and how to fix it.
        problem: String,
    },
    /// The scheme is known from other libraries, and not supported yet.
    #[error("`{scheme}:` is not supported yet; {instead}")]
    NotYet {
        /// The scheme of the URL.
        scheme: &'static str,
        /// What can be used instead.
        instead: &'static str,
    },
    /// An option of the settings is not allowed.
    #[error(transparent)]
    Options(#[from] InputError),
    /// The connection to the store failed.
    #[error("cannot connect: {}", source.explained())]
    Backend {
        /// What the backend reported.
        source: BackendError,
    },
}

impl ConnectError {
    /// The error of [`connect`](crate::connect) for a backend's own error and the scheme of its URL: for a program that connects to a
    /// backend itself.
    #[must_use]
    pub fn of_backend(scheme: &'static str, error: settings::ConnectError) -> Self {
        match error {
            settings::ConnectError::Store(source) => Self::Backend { source },
            error => Self::BadUrl { scheme, problem: error.to_string() },
        }
    }

    /// Whether the same call may succeed later, without any other change.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Backend { source } if source.is_transient())
    }
}

/// Schemes of other libraries that are not supported yet, and what to use instead.
pub(crate) const NOT_YET: [(&str, &str); 4] = [
    ("redis+cluster", ONE_SERVER),
    ("rediss+cluster", ONE_SERVER),
    ("redis+sentinel", ONE_SERVER),
    ("rediss+sentinel", ONE_SERVER),
];

const ONE_SERVER: &str = "use `redis:` with a single server that is no part of a cluster, or `etcd:` or `zk:`, which survive the loss of one";

/// A scheme of a URL.
pub(crate) struct Scheme {
    pub(crate) name: &'static str,
    /// The feature that it needs; empty if it needs none.
    pub(crate) feature: &'static str,
}

/// The schemes of all stores, compiled in or not.
pub(crate) const SCHEMES: [Scheme; 8] = [
    Scheme { name: "memory", feature: "" },
    Scheme { name: "etcd", feature: "etcd" },
    Scheme { name: "etcds", feature: "etcd" },
    Scheme { name: "redis", feature: "redis" },
    Scheme { name: "rediss", feature: "redis" },
    Scheme { name: "sqlite", feature: "sqlite" },
    Scheme { name: "zk", feature: "zk" },
    Scheme { name: "zks", feature: "zk-tls" },
];

fn known() -> String {
    SCHEMES.iter().map(|scheme| format!("`{}:`", scheme.name)).collect::<Vec<_>>().join(", ")
}

fn unknown(scheme: Option<&str>) -> String {
    match scheme {
        Some(scheme) => format!("`{scheme}:` is not the scheme of a store"),
        None => "the URL does not begin with the scheme of a store".to_owned(),
    }
}
