//! [`Failure`]: why the command failed, and what to do next.

use std::{error::Error, fmt, time::Duration};

use distlock::{BackendError, BackendErrorKind, ConnectError, InputError, escape_unprintable};
use serde::Serialize;

use crate::{exit::Exit, render, shell::show_command};

/// A message for people, and the exit code for scripts.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
    is_transient: bool,
}

/// A failure as JSON.
#[derive(Serialize)]
struct FailureJson<'a> {
    error: &'a str,
    because: &'a [String],
    #[serde(rename = "try")]
    hint: Option<&'a str>,
    /// Its name in `--exit`, and the exit code.
    kind: &'static str,
    code: u8,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), causes: Vec::new(), hint: None, is_transient: false }
    }

    /// Ends with this code and prints nothing: the user knows the reason, or the output is closed.
    pub(crate) fn silent(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    /// The same failure, with the error that caused it.
    pub(crate) fn because(mut self, error: &dyn Error) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            self.causes.push(error.to_string());
            cause = error.source();
        }
        self
    }

    /// The same failure, with what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// As one line of JSON, with the exit code.
    pub(crate) fn json(&self, code: Exit) -> String {
        let Self { exit, message, causes, hint, .. } = self;
        let (kind, hint) = (exit.name(), hint.as_deref());
        let told = FailureJson { error: message, because: causes, hint, kind, code: code.code() };
        // Serializing texts and a number cannot fail.
        render::json_line(&told).unwrap_or_else(|error| error.to_string())
    }

    /// Whether trying again later may help.
    pub(crate) fn is_transient(&self) -> bool {
        self.is_transient
    }

    /// The first cause, or the message if there is none.
    pub(crate) fn cause(&self) -> &str {
        self.causes.first().unwrap_or(&self.message)
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.message.is_empty()
    }

    /// A lock that could not be taken.
    pub(crate) fn of_lock(error: &distlock::Error) -> Self {
        use distlock::Error as E;
        let (exit, hint) = match error {
            E::WaitTimeout { name, .. } => (Exit::NOT_GRANTED, Some(show_command(name))),
            E::ClaimMismatch { .. } => (
                Exit::KIND,
                Some("--shared goes with --exclusive, and --of with the same number everywhere".to_owned()),
            ),
            E::Input(error) => return Self::of_input(error),
            E::Lost { .. } => (Exit::LOST, None),
            E::TooSlow { .. } => (Exit::STORE, Some("a longer --ttl".to_owned())),
            _ => (Exit::STORE, Some("distlock doctor".to_owned())),
        };
        let mut failure = Self::new(exit, error.to_string());
        if let Some(source) = error.source() {
            failure = failure.because(source);
        }
        failure.hint = hint;
        failure
    }

    /// Input that is not allowed, with durations as people write them.
    pub(crate) fn of_input(error: &InputError) -> Self {
        let message = match error {
            InputError::Duration { option, given, least, most } => {
                let [given, least] = [given, least].map(|duration| render::duration(*duration));
                let range = if *most == Duration::MAX {
                    format!("{least} or more")
                } else {
                    format!("{least} to {}", render::duration(*most))
                };
                format!("`{}` cannot be {given}; use {range}", option.replace('_', "-"))
            }
            error => error.to_string(),
        };
        Self::new(Exit::USAGE, message)
    }

    /// A mistake in the command line, without the usage and the tips that `clap` adds for people.
    pub(crate) fn of_command_line(error: &clap::Error) -> Self {
        let text = error.to_string();
        let message = text.split("\n\n").next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        let message = message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        Self::new(Exit::USAGE, message).hint("distlock --help")
    }

    /// A request of an operator that the store did not carry out.
    pub(crate) fn of_store(what: &str, error: &BackendError) -> Self {
        let exit = if *error.kind() == BackendErrorKind::ForeignData { Exit::KIND } else { Exit::STORE };
        Self::new(exit, format!("{what}: {}", error.kind())).because(error)
    }
}

/// A URL that cannot be connected to.
impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let failure = match &error {
            ConnectError::Backend { .. } => Self::new(Exit::STORE, error.to_string()),
            ConnectError::MissingFeature { scheme, feature } => {
                let message = format!("this `distlock` was built without the store of `{scheme}:` URLs");
                // From the repository: that works before a release, too.
                let command = concat!("cargo install --git ", env!("CARGO_PKG_REPOSITORY"), " lock-cli");
                return Self::new(Exit::USAGE, message).hint(format!("{command} --features {feature}"));
            }
            _ => Self::new(Exit::USAGE, error.to_string()),
        };
        let failure = match error.source() {
            Some(source) => failure.because(source),
            None => failure,
        };
        let is_transient = error.is_transient();
        Self { is_transient, ..failure.hint("another --url, or DISTLOCK_URL") }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "distlock: {}", escape_unprintable(&self.message))?;
        let mut told = self.message.as_str();
        for cause in &self.causes {
            // Some messages already contain their cause.
            if !told.contains(cause.as_str()) {
                write!(f, "\n  because: {}", escape_unprintable(cause))?;
            }
            told = cause;
        }
        match &self.hint {
            Some(hint) => write!(f, "\n  try: {}", escape_unprintable(hint)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The errors of a server may contain any characters.
    #[test]
    fn what_a_store_says_cannot_write_on_the_terminal() {
        let said = std::io::Error::other("ERR \u{1b}]0;owned\u{7}\r\u{202e}");
        let told = Failure::new(Exit::STORE, "the store is no store: \u{9b}2J").because(&said).to_string();
        assert!(!told.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{told:?}");
        assert!(told.contains(r"because: ERR \u{1b}]0;owned\u{7}\r\u{202e}"), "{told}");
    }

    #[test]
    fn the_hint_for_a_missing_store_is_right_before_a_release_too() {
        let told =
            Failure::from(ConnectError::MissingFeature { scheme: "zks", feature: "zk-tls" }).to_string();
        let hint = "try: cargo install --git https://github.com/distlock/distlock lock-cli --features zk-tls";
        assert!(told.ends_with(hint), "{told}");
    }
}
