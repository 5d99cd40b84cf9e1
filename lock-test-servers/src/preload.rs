//! [`Preload`]: a library in C that stands between a program and its C library.

use std::path::PathBuf;

use lock_conformance::ServerProgram;

/// A library that is loaded before the C library of a program, and the variables that it reads.
#[derive(Clone, Debug)]
pub struct Preload {
    pub(crate) library: PathBuf,
    pub(crate) variables: Vec<String>,
}

impl Preload {
    /// The program with all of these.
    #[must_use]
    pub fn all(preloads: &[Self], program: ServerProgram) -> ServerProgram {
        if preloads.is_empty() {
            return program;
        }
        let library = |preload: &Self| preload.library.display().to_string();
        let libraries: Vec<_> = preloads.iter().map(library).collect();
        let words = ["env".to_owned(), format!("LD_PRELOAD={}", libraries.join(":"))];
        let variables = preloads.iter().flat_map(|preload| preload.variables.iter().cloned());
        program.started_by(words.into_iter().chain(variables))
    }
}
