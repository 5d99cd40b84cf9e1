//! Converts errors of the server to those of `lock-core`.

use std::{error::Error as _, io, time::Duration};

use lock_core::{BackendError, BackendErrorKind as Kind};
use tokio_postgres::{Error, error::SqlState};

pub(crate) const STORE: &str = "postgres";

/// Converts an error of the client library, or of the server at this address. The result never contains a password.
pub(crate) fn from_postgres(address: &str, error: Error) -> BackendError {
    let message = match (error.as_db_error(), error.source()) {
        (Some(said), _) => format!("{} ({})", said.message(), said.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    };
    BackendError::new(STORE, kind(&error), format!("{address}: {message}")).with_source(error)
}

fn kind(error: &Error) -> Kind {
    let Some(code) = error.code() else {
        let broke = error.is_closed() || error.source().is_some_and(<dyn std::error::Error>::is::<io::Error>);
        return if broke { Kind::Unreachable } else { Kind::Protocol };
    };
    match (code.code(), &code.code()[..2]) {
        ("25006", _) => Kind::ReadOnly,
        ("2200H", _) => Kind::TokensExhausted,
        ("42501", _) | (_, "28") => Kind::Denied,
        ("53100" | "53200", _) => Kind::OutOfMemory,
        ("55P03", _) | (_, "40" | "53" | "57") => Kind::Unavailable,
        (_, "08") => Kind::Unreachable,
        ("3D000", _) | (_, "42") => Kind::Unsupported,
        _ => Kind::Protocol,
    }
}

/// Whether the connection cannot be used after this error.
pub(crate) fn ends_connection(error: &Error) -> bool {
    matches!(kind(error), Kind::Unreachable)
        || error.code().is_some_and(|code| code.code().starts_with("57P"))
}

/// Whether the schema, or a part of it, is missing.
pub(crate) fn is_missing(error: &Error) -> bool {
    let missing = [&SqlState::UNDEFINED_FUNCTION, &SqlState::UNDEFINED_TABLE, &SqlState::INVALID_SCHEMA_NAME];
    error.code().is_some_and(|code| missing.contains(&code))
}

pub(crate) fn timed_out(address: &str, what: &str, limit: Duration) -> BackendError {
    BackendError::new(STORE, Kind::TimedOut, format!("{address}: {what} was not answered within {limit:?}"))
}

/// The error for an answer that none of our functions returns.
pub(crate) fn unexpected(what: &str) -> BackendError {
    let message =
        format!("{what} in an answer is none that this library writes; see what else writes to its schema");
    BackendError::new(STORE, Kind::Protocol, message).advised()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_says_what_to_do_has_no_other_advice_behind_it() {
        let explained = unexpected("a token").explained().to_string();
        assert!(explained.ends_with("; see what else writes to its schema)"), "{explained}");
    }
}
