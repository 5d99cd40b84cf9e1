//! [`ServerClock`]: the wall clock of a server, which a test sets.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use lock_conformance::shared_library;

use crate::preload::Preload;

/// Stands between a server and its C library.
const SHIM: &str = include_str!("server_clock.c");

/// Names the file that says how far the clock is ahead.
const VARIABLE: &str = "DISTLOCK_SERVER_CLOCK";

/// A wall clock that is set while servers run by it. Clones are the same clock. What counts from the start of the machine goes on as
/// ever. For programs that ask the C library of Linux for the time, as Redis and Java do; a static program, as etcd is, does not.
#[derive(Clone, Debug)]
pub struct ServerClock {
    library: PathBuf,
    ahead: PathBuf,
}

impl ServerClock {
    /// A clock that is right. Its files are in this folder, which has to be there as long as servers are started.
    ///
    /// # Panics
    /// If there is no compiler for C, or the folder cannot be written to.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let ahead = folder.join("ahead");
        fs::write(&ahead, 0_i64.to_ne_bytes()).expect("a folder of the test can be written to");
        Self { library: shared_library(folder, "server_clock", SHIM), ahead }
    }

    /// Sets it so many seconds ahead of the right time, or behind it.
    ///
    /// # Panics
    /// If its file is gone.
    pub fn set_ahead(&self, seconds: i64) {
        // In place, since servers have the file in their memory.
        let file = OpenOptions::new().write(true).open(&self.ahead);
        let set = file.and_then(|mut file| file.write_all(&seconds.to_ne_bytes()));
        set.expect("the file of a clock is there");
    }

    /// Sets it forward by so many seconds from what it shows, or back.
    ///
    /// # Panics
    /// If its file is gone.
    pub fn advance(&self, seconds: i64) {
        let ahead = fs::read(&self.ahead).ok().and_then(|ahead| <[u8; 8]>::try_from(ahead).ok());
        let ahead = i64::from_ne_bytes(ahead.expect("the file of a clock is there"));
        self.set_ahead(ahead + seconds);
    }

    /// What programs with this clock load.
    #[must_use]
    pub fn preload(&self) -> Preload {
        let variable = format!("{VARIABLE}={}", self.ahead.display());
        Preload { library: self.library.clone(), variables: vec![variable] }
    }
}
