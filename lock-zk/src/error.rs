//! What went wrong between us and the ensemble, as a [`BackendError`].

use std::{fmt, time::Duration};

use lock_core::{BackendError, BackendErrorKind as Kind, excerpt};
use zookeeper_client::Error;

/// What [`BackendError`]s of this store call it.
pub(crate) const STORE: &str = "zookeeper";

/// The error of a request that certainly was not and will not be sent: no client of ZooKeeper gives it in answer to one.
pub(crate) const NEVER_SENT: Error = Error::NoHosts;

/// A request that was not carried out, or perhaps was. Everybody who waited for it gets a copy.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    unsent: bool,
    /// The message says what to do.
    advised: bool,
    cause: Cause,
}

/// What has to be done about a failure, beyond telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The node that was named, or the one above it, is not there.
    NoNode,
    /// The node is there already.
    NodeExists,
    /// The session is over.
    SessionGone,
    /// The server said that it did not do it.
    Refused,
    /// There was no connection, and now there is another client: it can be sent there.
    NeverSent,
    /// It may have been carried out (Z3).
    Unknown,
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), unsent: false, advised: false, cause: Cause::Unknown }
    }

    /// What the client of ZooKeeper said. Whatever is not an error code of the server leaves it open what became of the
    /// request (Z3).
    pub(crate) fn of(error: &Error) -> Self {
        let (kind, cause) = match error {
            error if *error == NEVER_SENT => (Kind::Unreachable, Cause::NeverSent),
            Error::NoNode => (Kind::Protocol, Cause::NoNode),
            Error::NodeExists => (Kind::Protocol, Cause::NodeExists),
            // A session that was moved is used by somebody else, from elsewhere: it is not ours any more.
            Error::SessionExpired | Error::ClientClosed | Error::SessionMoved => {
                (Kind::Unavailable, Cause::SessionGone)
            }
            // The client's own words for: its task is gone, though nobody closed it. So the keeper is.
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

    /// The session is over, so nothing was sent on it.
    pub(crate) fn session_gone() -> Self {
        Self { cause: Cause::SessionGone, ..Self::new(Kind::Unavailable, "the session has ended") }.unsent()
    }

    /// The same failure of a request that certainly never left.
    pub(crate) fn unsent(mut self) -> Self {
        self.unsent = true;
        self
    }

    /// The same failure, whose message says what to do about it.
    pub(crate) fn advised(mut self) -> Self {
        self.advised = true;
        self
    }

    /// The same failure, with what it was about.
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

    /// Whether nobody answered, as where the ensemble is away.
    pub(crate) fn is_of_connection(&self) -> bool {
        matches!(self.kind, Kind::Unreachable | Kind::TimedOut)
    }

    /// Whether it is the ensemble's own word that a session that was to be attached to is not there.
    pub(crate) fn is_end_of_session(&self) -> bool {
        self.cause == Cause::SessionGone && self.kind != Kind::Denied
    }

    /// Whether it is certain that the request did nothing, and will not.
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
