//! Failures of requests to the cluster, as [`BackendError`]s.

use std::{fmt, time::Duration};

use etcd_client::Error;
use lock_core::{BackendError, BackendErrorKind as Kind, excerpt};
use tonic::{Code, Status};

/// The name of this store in [`BackendError`]s.
pub(crate) const STORE: &str = "etcd";

/// The start of every refusal of the server.
const SERVER: &str = "etcdserver";

/// The failure of a request, which may have been carried out. Every caller that waited for it gets a copy.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    unsent: bool,
    /// Whether the server itself said that it did not carry out the request.
    refused: bool,
    /// Whether the message says what to do.
    advised: bool,
    cause: Cause,
}

/// What the client has to do about a failure, apart from reporting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The member or the connection to it failed: another member may work.
    Member,
    /// The lease does not exist.
    LeaseGone,
    /// The server does not know the token of our user any more.
    StaleToken,
    /// No space is left for writes. Deletes are possible.
    NoSpace,
    /// The answer is too large to be read. The request was carried out.
    TooLarge,
    Other,
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message, unsent: false, refused: false, advised: false, cause: Cause::Other }
    }

    /// An error of the etcd client for a request to `address`.
    pub(crate) fn of(address: &dyn fmt::Display, error: &Error) -> Self {
        let (kind, cause, unsent, said) = match error {
            Error::GRpcStatus(status) => of_status(status),
            Error::TransportError(error) => (Kind::Unreachable, Cause::Member, true, chain(error)),
            Error::IoError(error) => (Kind::Unreachable, Cause::Member, false, error.to_string()),
            Error::LeaseKeepAliveError(said) if said.contains("not found") => {
                (Kind::Unavailable, Cause::LeaseGone, false, said.clone())
            }
            // One side closed the stream.
            Error::LeaseKeepAliveError(said) | Error::WatchError(said) => {
                (Kind::Unreachable, Cause::Member, false, said.clone())
            }
            other => (Kind::Protocol, Cause::Other, false, other.to_string()),
        };
        let refused = match (&kind, cause) {
            (_, Cause::LeaseGone | Cause::StaleToken) | (Kind::Denied, _) => true,
            (Kind::Unreachable | Kind::TimedOut | Kind::Unavailable, _) => false,
            // Any other error of the client comes after sending, and does not tell whether the request was carried out.
            _ => matches!(error, Error::GRpcStatus(status) if status.message().contains(SERVER)),
        };
        let said = excerpt(format_args!("{said}"));
        let message = if cause == Cause::TooLarge {
            format!("the answer of {address} was not read: {said}")
        } else {
            format!("{address} says: {said}")
        };
        Self { kind, message, unsent, refused, advised: false, cause }
    }

    /// `doing` at `address` took too long.
    pub(crate) fn timed_out(address: &dyn fmt::Display, doing: &str, limit: Duration) -> Self {
        let message = format!("{doing} at {address} was not done within {limit:?}");
        Self { cause: Cause::Member, ..Self::new(Kind::TimedOut, message) }
    }

    /// Whether there was no answer, as if the member is away.
    pub(crate) fn is_of_connection(&self) -> bool {
        matches!(self.kind, Kind::Unreachable | Kind::TimedOut)
    }

    /// The same failure, with the address in its message: its reader may use several stores.
    pub(crate) fn at(mut self, address: &dyn fmt::Display) -> Self {
        self.message = format!("{address}: {}", self.message);
        self
    }

    /// The same failure, whose message says what to do about it.
    pub(crate) fn advised(mut self) -> Self {
        self.advised = true;
        self
    }

    /// The same failure of a request that was certainly not sent.
    pub(crate) fn unsent(mut self) -> Self {
        self.unsent = true;
        self
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(crate) fn cause(&self) -> Cause {
        self.cause
    }

    /// Whether the server itself said that it did not carry out the request.
    pub(crate) fn is_an_answer(&self) -> bool {
        self.refused
    }

    /// The same failure of a request that was also sent before, and may have arrived then.
    pub(crate) fn perhaps_sent(mut self) -> Self {
        self.unsent = false;
        self
    }

    pub(crate) fn is_unsent(&self) -> bool {
        self.unsent
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

/// The failure for an answer that does not have the expected form.
pub(crate) fn misunderstood(what: &str) -> Failure {
    Failure::new(Kind::Protocol, format!("the answer to {what} is malformed"))
}

/// Whether a grant was refused because the lease exists already.
pub(crate) fn says_lease_exists(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.message().contains("lease already exists"))
}

fn of_status(status: &Status) -> (Kind, Cause, bool, String) {
    let said = status.message();
    let says = |words: &str| said.contains(words);
    let (kind, cause) = match status.code() {
        // The request was lost in an election, and can be repeated, at this member or another one.
        Code::Unavailable if says("no leader") => (Kind::Unavailable, Cause::Member),
        Code::Unavailable if says("etcdserver: server stopped") => (Kind::Unavailable, Cause::Member),
        Code::Unavailable if says("etcdserver:") => (Kind::Unavailable, Cause::Other),
        Code::ResourceExhausted if says("space exceeded") => (Kind::OutOfMemory, Cause::NoSpace),
        Code::ResourceExhausted => (Kind::Unavailable, Cause::Other),
        Code::NotFound if says("lease not found") => (Kind::Unavailable, Cause::LeaseGone),
        Code::Unauthenticated => (Kind::Denied, Cause::StaleToken),
        // For example, users were changed since we logged in.
        Code::InvalidArgument if says("auth store is old") => (Kind::Unavailable, Cause::StaleToken),
        Code::PermissionDenied => (Kind::Denied, Cause::Other),
        Code::InvalidArgument | Code::FailedPrecondition if says("authentica") || says("user name") => {
            (Kind::Denied, Cause::Other)
        }
        Code::DeadlineExceeded => (Kind::TimedOut, Cause::Member),
        Code::OutOfRange if !says(SERVER) => (Kind::Protocol, Cause::TooLarge),
        Code::DataLoss => (Kind::ReadOnly, Cause::Other),
        Code::Unimplemented => (Kind::Unsupported, Cause::Other),
        Code::Unavailable | Code::Cancelled => (Kind::Unreachable, Cause::Member),
        // The connection failed. The text comes from the layer that noticed first.
        Code::Unknown | Code::Internal if !says(SERVER) => (Kind::Unreachable, Cause::Member),
        _ => (Kind::Protocol, Cause::Other),
    };
    let told = chain(status_source(status).unwrap_or(status));
    // Nothing is sent over a connection that could not be opened (E4).
    let unsent = kind == Kind::Unreachable
        && (told.contains("tcp connect error")
            || told.contains("dns error")
            || told.contains("ConnectError"));
    let kind = if kind == Kind::Unreachable && is_distrust(&told) { Kind::Denied } else { kind };
    let said = if cause == Cause::Member && !says(SERVER) && !told.contains(said) {
        format!("{said}: {told}")
    } else if cause == Cause::Member && !says(SERVER) {
        told
    } else {
        said.to_owned()
    };
    (kind, cause, unsent, said)
}

fn status_source(status: &Status) -> Option<&(dyn std::error::Error + 'static)> {
    std::error::Error::source(status)
}

/// Whether one side does not trust the other, which an operator has to fix.
fn is_distrust(told: &str) -> bool {
    told.contains("invalid peer certificate") || told.contains("received fatal alert")
}

/// The error with all its causes: the outermost error says only that something failed.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_says_what_to_do_has_no_other_advice_behind_it() {
        let failure = Failure::new(Kind::Unavailable, "h:1 is a learner: promote it").advised();
        let explained = BackendError::from(failure.unsent()).explained().to_string();
        assert_eq!(explained, "the store is not ready (etcd: h:1 is a learner: promote it)");
    }

    #[test]
    fn every_refusal_of_the_server_has_a_kind() {
        use Code as C;
        for (code, said, kind, cause) in [
            (C::Unavailable, "etcdserver: no leader", Kind::Unavailable, Cause::Member),
            (C::Unavailable, "etcdserver: leader changed", Kind::Unavailable, Cause::Other),
            (C::Unavailable, "etcdserver: request timed out", Kind::Unavailable, Cause::Other),
            (C::Unavailable, "tcp connect error", Kind::Unreachable, Cause::Member),
            (
                C::Unknown,
                "h2 protocol error: error reading a body from connection",
                Kind::Unreachable,
                Cause::Member,
            ),
            (C::Unknown, "transport error", Kind::Unreachable, Cause::Member),
            (C::Cancelled, "operation was canceled", Kind::Unreachable, Cause::Member),
            (
                C::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                Kind::OutOfMemory,
                Cause::NoSpace,
            ),
            (C::ResourceExhausted, "etcdserver: too many requests", Kind::Unavailable, Cause::Other),
            (C::NotFound, "etcdserver: requested lease not found", Kind::Unavailable, Cause::LeaseGone),
            (C::PermissionDenied, "etcdserver: permission denied", Kind::Denied, Cause::Other),
            (C::Unauthenticated, "etcdserver: invalid auth token", Kind::Denied, Cause::StaleToken),
            (C::InvalidArgument, "etcdserver: user name is empty", Kind::Denied, Cause::Other),
            (
                C::InvalidArgument,
                "etcdserver: authentication failed, invalid user ID or password",
                Kind::Denied,
                Cause::Other,
            ),
            (C::FailedPrecondition, "etcdserver: authentication is not enabled", Kind::Denied, Cause::Other),
            (
                C::InvalidArgument,
                "etcdserver: revision of auth store is old",
                Kind::Unavailable,
                Cause::StaleToken,
            ),
            (C::DataLoss, "etcdserver: corrupt cluster", Kind::ReadOnly, Cause::Other),
            (
                C::InvalidArgument,
                "etcdserver: duplicate key given in txn request",
                Kind::Protocol,
                Cause::Other,
            ),
        ] {
            let failure = Failure::of(&"there", &Error::GRpcStatus(Status::new(code, said)));
            assert_eq!((failure.kind(), failure.cause()), (&kind, cause), "{code:?} {said}");
        }
    }

    #[test]
    fn an_answer_that_is_too_large_is_told_from_a_refusal() {
        let of = |said: &str| Failure::of(&"there", &Error::GRpcStatus(Status::new(Code::OutOfRange, said)));
        let ours = of("Error, decoded message length too large: found 5 bytes, the limit is: 4 bytes");
        assert_eq!(
            (ours.kind(), ours.cause(), ours.is_an_answer()),
            (&Kind::Protocol, Cause::TooLarge, false)
        );
        assert!(ours.to_string().starts_with("the answer of there was not read"), "{ours}");
        let theirs = of("etcdserver: mvcc: required revision has been compacted");
        assert_eq!(
            (theirs.kind(), theirs.cause(), theirs.is_an_answer()),
            (&Kind::Protocol, Cause::Other, true)
        );
    }

    #[test]
    fn a_failed_connect_sent_nothing_and_a_broken_connection_may_have() {
        let of = |said: &str| Failure::of(&"there", &Error::GRpcStatus(Status::new(Code::Unavailable, said)));
        assert!(of("tcp connect error").is_unsent());
        assert!(!of("transport error").is_unsent());
        assert!(!of("etcdserver: request timed out").is_unsent());
    }
}
