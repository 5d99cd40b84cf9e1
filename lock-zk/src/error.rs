//! [`Failure`]: the failure of a request, before it becomes a [`BackendError`].

use std::{fmt, time::Duration};

use lock_core::{BackendError, BackendErrorKind as Kind, excerpt};
use zookeeper_client::Error;

/// The name of this store in [`BackendError`]s.
pub(crate) const STORE: &str = "zookeeper";

/// The error of a request that certainly was not sent and will not be. The ZooKeeper client never answers a request with it.
pub(crate) const NEVER_SENT: Error = Error::NoHosts;

/// Why a request failed, which may have been carried out nevertheless. Cloned for every caller that waits for the same outcome.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    unsent: bool,
    /// Whether the message says what to do about it.
    advised: bool,
    cause: Cause,
}

/// What a failure means for the request and the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The node or its parent does not exist.
    NoNode,
    /// The node already exists.
    NodeExists,
    /// The session has ended.
    SessionGone,
    /// The server refused the request.
    Refused,
    /// There was no connection, and now another client has one: the request can be sent there.
    NeverSent,
    /// The request may have been carried out (Z3).
    Unknown,
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), unsent: false, advised: false, cause: Cause::Unknown }
    }

    /// From an error of the ZooKeeper client. Unless it is an error code of the server, it leaves open whether the request was carried
    /// out (Z3).
    pub(crate) fn of(error: &Error) -> Self {
        let (kind, cause) = match error {
            error if *error == NEVER_SENT => (Kind::Unreachable, Cause::NeverSent),
            Error::NoNode => (Kind::Protocol, Cause::NoNode),
            Error::NodeExists => (Kind::Protocol, Cause::NodeExists),
            // A moved session is in use on another connection.
            Error::SessionExpired | Error::ClientClosed | Error::SessionMoved => {
                (Kind::Unavailable, Cause::SessionGone)
            }
            // The client returns this when its task was dropped without having been closed: the keeper has ended.
            Error::UnexpectedError(said) if said.starts_with("expect error state") => {
                (Kind::Unavailable, Cause::SessionGone)
            }
            Error::AuthFailed => (Kind::Denied, Cause::SessionGone),
            Error::NoAuth | Error::InvalidAcl => (Kind::Denied, Cause::Refused),
            Error::QuotaExceeded => (Kind::OutOfMemory, Cause::Refused),
            Error::Throttled => (Kind::Unavailable, Cause::Refused),
            Error::NotReadOnly => (Kind::ReadOnly, Cause::Refused),
            Error::Unimplemented => (Kind::Unsupported, Cause::Refused),
            Error::BadVersion
            | Error::NotEmpty
            | Error::NoChildrenForEphemerals
            | Error::BadArguments(_)
            | Error::MarshallingError => (Kind::Protocol, Cause::Refused),
            Error::UnmarshalError { .. } | Error::UnexpectedError(_) | Error::UnexpectedErrorCode(_) => {
                (Kind::Protocol, Cause::Unknown)
            }
            _ => (Kind::Unreachable, Cause::Unknown),
        };
        let message = excerpt(format_args!("{error}"));
        Self { kind, message, unsent: cause == Cause::NeverSent, advised: false, cause }
    }

    /// `doing` took too long.
    pub(crate) fn timed_out(doing: &str, limit: Duration) -> Self {
        Self::new(Kind::TimedOut, format!("{doing} was not done within {limit:?}"))
    }

    /// The session has ended, so nothing was sent.
    pub(crate) fn session_gone() -> Self {
        Self { cause: Cause::SessionGone, ..Self::new(Kind::Unavailable, "the session has ended") }.unsent()
    }

    /// The same failure, of a request that certainly was not sent.
    pub(crate) fn unsent(mut self) -> Self {
        self.unsent = true;
        self
    }

    /// The same failure, whose message says what to do about it.
    pub(crate) fn advised(mut self) -> Self {
        self.advised = true;
        self
    }

    /// The same failure, with its subject in front of its message.
    pub(crate) fn about(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(crate) fn cause(&self) -> Cause {
        self.cause
    }

    /// Whether there was no answer, as if the ensemble is away.
    pub(crate) fn is_of_connection(&self) -> bool {
        matches!(self.kind, Kind::Unreachable | Kind::TimedOut)
    }

    /// Whether the ensemble itself says that the session does not exist.
    pub(crate) fn is_end_of_session(&self) -> bool {
        self.cause == Cause::SessionGone && self.kind != Kind::Denied
    }

    /// Whether the request certainly did nothing and will do nothing.
    pub(crate) fn is_an_answer(&self) -> bool {
        self.unsent || self.cause != Cause::Unknown
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Failure> for BackendError {
    fn from(failure: Failure) -> Self {
        let error = Self::new(STORE, failure.kind, failure.message);
        let error = if failure.unsent { error.unsent() } else { error };
        if failure.advised { error.advised() } else { error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_says_what_to_do_has_no_other_advice_behind_it() {
        let failure = Failure::new(Kind::Unsupported, "it is too short; raise it").advised();
        let explained = BackendError::from(failure.about("zk://h:1").unsent()).explained().to_string();
        let trouble = "the store lacks something that is needed";
        assert_eq!(explained, format!("{trouble} (zookeeper: zk://h:1: it is too short; raise it)"));
    }

    #[test]
    fn the_words_of_a_server_are_as_harmless_as_they_are_long() {
        let said = format!("no\u{1b}[2J\u{202e}{}", "x".repeat(1_000));
        let shown = BackendError::from(Failure::of(&Error::UnexpectedError(said))).to_string();
        assert!(shown.contains("no\\u{1b}[2J\\u{202e}xxx") && shown.len() < 400, "{shown}");
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    }

    #[test]
    fn an_ensemble_that_refuses_is_there() {
        for (failure, away) in [
            (Failure::new(Kind::Unreachable, "nobody there"), true),
            (Failure::timed_out("opening a session", Duration::ZERO), true),
            (Failure::session_gone(), false),
            (Failure::of(&Error::AuthFailed), false),
        ] {
            assert_eq!(failure.is_of_connection(), away, "{failure}");
        }
    }

    #[test]
    fn only_what_the_server_said_is_an_answer() {
        for (error, kind, answer) in [
            (Error::NoNode, Kind::Protocol, true),
            (Error::NoAuth, Kind::Denied, true),
            (Error::SessionExpired, Kind::Unavailable, true),
            (Error::Throttled, Kind::Unavailable, true),
            (Error::ConnectionLoss, Kind::Unreachable, false),
            (Error::Timeout, Kind::Unreachable, false),
            (Error::NoHosts, Kind::Unreachable, true),
            (Error::UnexpectedErrorCode(-2), Kind::Protocol, false),
        ] {
            let failure = Failure::of(&error);
            assert_eq!((failure.kind(), failure.is_an_answer()), (&kind, answer), "{error:?}");
        }
    }
}
