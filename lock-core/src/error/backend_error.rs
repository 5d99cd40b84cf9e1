//! [`BackendError`]: what a store says.

use std::{error::Error as StdError, fmt, sync::Arc};

use super::BackendErrorKind;

/// What a store said when it did not do what it was asked.
///
/// Unless [`is_unsent`](Self::is_unsent), the request may have been carried out all the same.
#[derive(Clone)]
pub struct BackendError(Box<Inner>);

#[derive(Clone)]
struct Inner {
    store: &'static str,
    kind: BackendErrorKind,
    unsent: bool,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl BackendError {
    /// An error of `store` (for people: `redis`), with what it said. The message must not contain a password.
    #[must_use]
    pub fn new(store: &'static str, kind: BackendErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { store, kind, unsent: false, message: message.into(), source: None }))
    }

    /// The same error, for a request that certainly never left this process.
    #[must_use]
    pub fn unsent(mut self) -> Self {
        self.0.unsent = true;
        self
    }

    /// The same error, with the error that caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into().into());
        self
    }

    /// What sort of trouble it is.
    #[must_use]
    pub fn kind(&self) -> &BackendErrorKind {
        &self.0.kind
    }

    /// Whether the request certainly never left this process.
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        self.0.unsent
    }

    /// Whether the same request may succeed later, with nothing changed but time.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        use BackendErrorKind as Kind;
        matches!(
            self.0.kind,
            Kind::Unreachable
                | Kind::TimedOut
                | Kind::Unavailable
                | Kind::OutOfMemory
                | Kind::ReadOnly
                | Kind::Panicked
        )
    }

    /// Whether a waiter that already stands in the queue has a reason to go on: anything that somebody may mend.
    pub(crate) fn can_be_mended(&self) -> bool {
        self.is_transient() || matches!(self.0.kind, BackendErrorKind::Denied)
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.store, self.0.message)
    }
}

impl fmt::Debug for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendError")
            .field("store", &self.0.store)
            .field("kind", &self.0.kind)
            .field("unsent", &self.0.unsent)
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for BackendError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
