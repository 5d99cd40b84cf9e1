//! [`BackendError`]: an error of a store.

use std::{error::Error as StdError, fmt, sync::Arc};

use crate::{BackendErrorKind, excerpt::excerpt_of};

/// How much of a store's message is repeated. The source of the error has all of it.
const SAID: usize = 400;

/// The error of a store that did not carry out a request.
///
/// Unless [`is_unsent`](Self::is_unsent), the request may still have been carried out.
#[derive(Clone)]
pub struct BackendError(Box<Inner>);

#[derive(Clone)]
struct Inner {
    store: &'static str,
    kind: BackendErrorKind,
    unsent: bool,
    advised: bool,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl BackendError {
    /// An error of `store` (for people: `redis`), with what it said. The message names the server, so that people know where to
    /// look. It must not contain a password.
    #[must_use]
    pub fn new(store: &'static str, kind: BackendErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            store,
            kind,
            unsent: false,
            advised: false,
            message: message.into(),
            source: None,
        }))
    }

    /// The same error, for a request that certainly was not carried out: it never left this process, or the store says that it has
    /// undone all of it.
    #[must_use]
    pub fn unsent(mut self) -> Self {
        self.0.unsent = true;
        self
    }

    /// The same error, whose message says what to do about it: [`explained`](Self::explained) then adds no general advice for errors of
    /// its kind.
    #[must_use]
    pub fn advised(mut self) -> Self {
        self.0.advised = true;
        self
    }

    /// The same error, with the error that caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into().into());
        self
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> &BackendErrorKind {
        &self.0.kind
    }

    /// Whether the request certainly was not carried out: see [`unsent`](Self::unsent).
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

    /// The trouble, what the store said, and what to do, in one line: for the `Display` of an error that has this one as its source.
    ///
    /// ```
    /// use lock_core::{BackendError, BackendErrorKind};
    ///
    /// let message = "connecting to 127.0.0.1:6379: connection refused";
    /// let error = BackendError::new("redis", BackendErrorKind::Unreachable, message);
    /// assert_eq!(
    ///     error.explained().to_string(),
    ///     "the store cannot be reached (redis: connecting to 127.0.0.1:6379: connection refused); \
    ///      check its address, and that it runs"
    /// );
    /// ```
    #[must_use]
    pub fn explained(&self) -> impl fmt::Display {
        Explained(self)
    }

    /// Whether a waiter in the queue has a reason to go on: the trouble may pass, or be repaired.
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

struct Explained<'a>(&'a BackendError);

impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(error) = self;
        let (trouble, advice) = error.0.kind.parts();
        write!(f, "{trouble} ({})", excerpt_of(SAID, format_args!("{error}")))?;
        if error.0.advised || advice.is_empty() { Ok(()) } else { write!(f, "; {advice}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(message: impl Into<String>) -> BackendError {
        BackendError::new("redis", BackendErrorKind::Unavailable, message)
    }

    #[test]
    fn an_error_that_is_explained_has_one_line_and_a_bounded_length() {
        let said = format!("h:1 says:\n\u{1b}[2J{}", "x".repeat(100_000));
        let shown = error(said.clone()).explained().to_string();
        assert!(shown.starts_with("the store is not ready (redis: h:1 says:\\n\\u{1b}[2Jxxx"), "{shown}");
        assert!(shown.ends_with("x…); try again") && shown.chars().count() < 500, "{shown}");
        assert!(!shown.contains(char::is_control), "{shown:?}");
        assert!(error(said.clone()).to_string().contains(&said), "the source has all of it");
    }

    #[test]
    fn what_to_do_is_said_once_and_by_the_message_where_it_knows_better() {
        let known = error("h:1 is a learner; promote it").advised();
        assert_eq!(
            known.explained().to_string(),
            "the store is not ready (redis: h:1 is a learner; promote it)"
        );
        let kind = BackendErrorKind::WrongServer("the server is a replica; connect to its master");
        let wrong = BackendError::new("redis", kind, "h:1 cannot be used");
        let explained = wrong.explained().to_string();
        assert_eq!(explained, "the server is a replica (redis: h:1 cannot be used); connect to its master");
        assert_eq!(wrong.kind().to_string(), "the server is a replica; connect to its master");
        let kind = BackendErrorKind::WrongServer("the server is a replica");
        assert_eq!(kind.to_string(), "the server is a replica");
    }
}
