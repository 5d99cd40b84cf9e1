//! Errors of the connection and the server, as [`BackendError`]s.

use std::{error::Error as StdError, io, sync::Arc, time::Duration};

use lock_core::{BackendError, BackendErrorKind as Kind, excerpt};
use redis::{ErrorKind, RedisError, ServerError};
use tokio_rustls::rustls;

/// The name of this store in [`BackendError`]s.
pub(crate) const STORE: &str = "redis";

/// Servers that cannot keep locks, and what to use instead.
pub(crate) const CLUSTER_NODE: &str =
    "the server is a node of a cluster, which is not supported yet; use a server that stands alone";
pub(crate) const SENTINEL: &str =
    "the server is a sentinel, which keeps no data; connect to the master that it names";
pub(crate) const REPLICA: &str = "the server is a replica, which takes no writes; connect to its master";

/// Ports that speak TLS and should not, or the other way round. The error names doing without TLS last, because an attacker on the network
/// may want exactly that.
pub(crate) const WITHOUT_TLS: &str =
    "the server does not speak tls there; use its port for tls, or redis:// to do without";
pub(crate) const WITH_TLS: &str = "the server speaks tls there; use rediss://";

/// A connection that could not be opened. Every caller that waited for it gets a copy.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
    unanswered: bool,
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None, unanswered: false }
    }

    /// The network or TLS failed, at `doing` (`connecting to host:port`).
    pub(crate) fn io(doing: &str, error: io::Error) -> Self {
        let kind = kind_of_io(&error);
        let message = format!("{doing}: {error}");
        Self { kind, message, source: Some(Arc::new(error)), unanswered: false }
    }

    /// `doing` at `address` took too long.
    pub(crate) fn timed_out(address: &str, doing: &str, limit: Duration) -> Self {
        Self::new(Kind::TimedOut, format!("{doing} at {address} was not done within {limit:?}"))
    }

    /// The same failure, before the server has answered anything.
    pub(crate) fn unanswered(self) -> Self {
        Self { unanswered: true, ..self }
    }

    pub(crate) fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Whether the server is away, or takes no more clients.
    pub(crate) fn is_of_connection(&self) -> bool {
        matches!(self.kind, Kind::Unreachable | Kind::TimedOut | Kind::Unavailable)
    }

    /// For a command that waited for this connection, and so was not sent.
    pub(crate) fn to_unsent(&self) -> BackendError {
        let error = BackendError::new(STORE, self.kind.clone(), self.message.clone()).unsent();
        match &self.source {
            Some(source) => error.with_source(Arc::clone(source)),
            None => error,
        }
    }
}

/// Before 7.0, the errors of a script begin with this.
const SCRIPT: &str = "@user_script:";

/// The server refused a command.
pub(crate) fn refused(address: &str, error: &ServerError) -> BackendError {
    let (code, text) = (error.code(), error.details().unwrap_or_default());
    let said = excerpt(format_args!("{code} {text}"));
    BackendError::new(STORE, kind_of_code(code, text), format!("{address} says: {said}"))
}

/// A command got no answer because the connection failed.
pub(crate) fn broken(address: &str, error: RedisError) -> BackendError {
    let said = excerpt(format_args!("{error}"));
    let message = format!("the connection to {address} failed: {said}");
    BackendError::new(STORE, kind_of_failure(&error), message).with_source(error)
}

/// The error of a command whose connection ended before it was answered.
pub(crate) fn connection_ended() -> RedisError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}

/// The type in which the driver keeps the cause of an error.
type Shared = Arc<dyn StdError + Send + Sync>;

/// What an error of the driver means.
pub(crate) fn kind_of_failure(error: &RedisError) -> Kind {
    let said = StdError::source(error).and_then(|source| source.downcast_ref::<Shared>());
    let said = said.and_then(|source| source.downcast_ref::<io::Error>());
    match (error.kind(), error.code()) {
        // The bytes received are not a reply of Redis.
        (ErrorKind::Io, _) if said.is_some_and(|said| said.kind() == io::ErrorKind::InvalidData) => {
            Kind::Protocol
        }
        (ErrorKind::Io, _) => Kind::Unreachable,
        (_, Some(code)) => kind_of_code(code, error.detail().unwrap_or_default()),
        _ => Kind::Protocol,
    }
}

/// What an error line of the server means: its first word, and the rest of it.
pub(crate) fn kind_of_code(code: &str, text: &str) -> Kind {
    match code {
        "LOADING" | "BUSY" | "UNKILLABLE" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "NOREPLICAS" => {
            Kind::Unavailable
        }
        "OOM" => Kind::OutOfMemory,
        "READONLY" | "MISCONF" => Kind::ReadOnly,
        "NOPERM" | "NOAUTH" | "WRONGPASS" | "DENIED" => Kind::Denied,
        "WRONGTYPE" => Kind::ForeignData,
        "MOVED" | "ASK" | "CROSSSLOT" => Kind::WrongServer(CLUSTER_NODE),
        "ERR" => kind_of_text(text),
        // Before 7.0, an error that a script caught begins with its origin.
        SCRIPT => kind_inside_a_script(text),
        _ => Kind::Protocol,
    }
}

/// Old servers use the plain code for many errors.
fn kind_of_text(text: &str) -> Kind {
    let lower = text.to_ascii_lowercase();
    let says = |words: &str| lower.contains(words);
    if says("unknown command") || says("unknown subcommand") || says("db index is out of range") {
        return Kind::Unsupported;
    }
    // The database is another one than 0.
    if says("not allowed in cluster mode") {
        return Kind::WrongServer(CLUSTER_NODE);
    }
    if says("max number of clients") {
        return Kind::Unavailable;
    }
    if says("invalid password") || says("without any password configured") {
        return Kind::Denied;
    }
    // Before 7.0, an error inside a script is wrapped:
    // `Error running script (call to f_…): @user_script:1: @user_script: 1: -OOM …`.
    text.split_once(SCRIPT).map_or(Kind::Protocol, |(_, rest)| kind_inside_a_script(rest))
}

/// `1: -OOM …`, after anything.
fn kind_inside_a_script(text: &str) -> Kind {
    match text.split_once(" -").and_then(|(_, inner)| inner.split_once(' ')) {
        Some((code, text)) if code != "ERR" => kind_of_code(code, text),
        _ => Kind::Protocol,
    }
}

fn kind_of_io(error: &io::Error) -> Kind {
    use rustls::Error as Tls;
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Tls>()) {
        // One side does not trust the other, which has to be fixed.
        Some(
            Tls::InvalidCertificate(_)
            | Tls::InvalidCertRevocationList(_)
            | Tls::NoCertificatesPresented
            | Tls::AlertReceived(_),
        ) => Kind::Denied,
        Some(_) => Kind::Protocol,
        None if error.kind() == io::ErrorKind::TimedOut => Kind::TimedOut,
        None => Kind::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Characters that move the cursor, and characters that change the direction of text.
    const LINE: &str = "-ERR no\u{1b}[2J\u{202e}\r\n";

    #[test]
    fn the_words_of_a_server_are_harmless_in_each_error() {
        let Ok(redis::Value::ServerError(line)) = redis::parse_redis_value(LINE.as_bytes()) else { panic!() };
        for error in [refused("h:1", &line), broken("h:1", line.into())] {
            let shown = error.to_string();
            assert!(shown.contains("\\u{1b}[2J\\u{202e}"), "{shown}");
            assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
        }
    }

    #[test]
    fn every_code_of_the_server_has_a_kind() {
        for (line, kind) in [
            ("LOADING Redis is loading the dataset in memory", Kind::Unavailable),
            ("BUSY Redis is busy running a script.", Kind::Unavailable),
            ("MASTERDOWN Link with MASTER is down", Kind::Unavailable),
            ("CLUSTERDOWN The cluster is down", Kind::Unavailable),
            ("ERR max number of clients reached", Kind::Unavailable),
            ("OOM command not allowed when used memory > 'maxmemory'.", Kind::OutOfMemory),
            ("READONLY You can't write against a read only replica.", Kind::ReadOnly),
            ("MISCONF Redis is configured to save RDB snapshots", Kind::ReadOnly),
            ("NOPERM this user has no permissions", Kind::Denied),
            ("NOAUTH Authentication required.", Kind::Denied),
            ("WRONGPASS invalid username-password pair", Kind::Denied),
            ("ERR unknown command 'EVALSHA'", Kind::Unsupported),
            ("ERR DB index is out of range", Kind::Unsupported),
            ("MOVED 1 127.0.0.1:7000", Kind::WrongServer(CLUSTER_NODE)),
            ("ERR SELECT is not allowed in cluster mode", Kind::WrongServer(CLUSTER_NODE)),
            ("WRONGTYPE Operation against a key", Kind::ForeignData),
            (
                "ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed",
                Kind::OutOfMemory,
            ),
            ("ERR Error running script (call to f_1): @user_script:1: -ERR whatever", Kind::Protocol),
            (
                "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -READONLY You can't write",
                Kind::ReadOnly,
            ),
            ("@user_script: 1: -READONLY You can't write against a read only replica.", Kind::ReadOnly),
            ("@user_script: 1: The user executing the script can't publish", Kind::Protocol),
            ("ERR something else", Kind::Protocol),
            ("WHAT is this", Kind::Protocol),
        ] {
            let (code, text) = line.split_once(' ').unwrap();
            assert_eq!(kind_of_code(code, text), kind, "{line}");
        }
    }
}
