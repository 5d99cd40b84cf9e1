//! [`ServerProgram`]: the program of a server, and where it runs.

use std::{env, fmt};

/// Selects where the servers of tests run: `process` (the default) or `docker`.
const PLACE_VARIABLE: &str = "LOCK_TEST_SERVERS";

/// A server program: one of this machine, or one in the image of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProgram {
    pub(crate) image: Option<String>,
    pub(crate) command: Vec<String>,
}

impl ServerProgram {
    /// A program on this machine: its file, or a name to look for on the `PATH`, and its first arguments.
    #[must_use]
    pub fn local<W: Into<String>>(command: impl IntoIterator<Item = W>) -> Self {
        Self { image: None, command: command.into_iter().map(Into::into).collect() }
    }

    /// A program in a container of the image that a variable names, or else of the default one.
    #[must_use]
    pub fn in_container<W: Into<String>>(
        variable: &str,
        default: &str,
        command: impl IntoIterator<Item = W>,
    ) -> Self {
        let named = env::var(variable).ok().filter(|image| !image.is_empty());
        let image = Some(named.unwrap_or_else(|| default.to_owned()));
        Self { image, ..Self::local(command) }
    }

    /// The same program, started by another one with these words before its own: by `env`, for example, with variables.
    #[must_use]
    pub fn started_by<W: Into<String>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        let mut command: Vec<String> = words.into_iter().map(Into::into).collect();
        command.append(&mut self.command);
        Self { command, ..self }
    }

    /// Whether servers are to run in containers: `LOCK_TEST_SERVERS=docker`.
    ///
    /// # Panics
    /// If the variable is set to anything but `process` or `docker`.
    #[must_use]
    pub fn wants_containers() -> bool {
        match env::var(PLACE_VARIABLE).as_deref() {
            Err(_) | Ok("" | "process") => false,
            Ok("docker") => true,
            Ok(other) => panic!("{PLACE_VARIABLE} is `{other}`, and has to be `process` or `docker`"),
        }
    }
}

impl fmt::Display for ServerProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.command.join(" "))?;
        self.image.as_ref().map_or(Ok(()), |image| write!(f, " in a container of `{image}`"))
    }
}
