//! [`Exit`]: what the command ends with, so that scripts can tell.

use std::process::ExitCode;

use nix::sys::signal::Signal;

/// An exit code. Those of our own keep to `sysexits.h` where it has a word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(u8);

impl Exit {
    /// Done.
    pub(crate) const DONE: Self = Self(0);
    /// `doctor` found problems; `break` took nothing away.
    pub(crate) const NO: Self = Self(1);
    /// The command line or the settings are wrong.
    pub(crate) const USAGE: Self = Self(64);
    /// The name is in use as another kind of lock.
    pub(crate) const KIND: Self = Self(65);
    /// The store cannot be reached, or refuses.
    pub(crate) const STORE: Self = Self(69);
    /// The lock was not granted: busy, or the wait was over.
    pub(crate) const NOT_GRANTED: Self = Self(75);
    /// The lock was lost, and the command could not be stopped.
    pub(crate) const NOT_STOPPED: Self = Self(77);
    /// The lock was lost.
    pub(crate) const LOST: Self = Self(79);
    /// The command is there, and cannot be run.
    pub(crate) const CANNOT_RUN: Self = Self(126);
    /// The command is not there.
    pub(crate) const NOT_FOUND: Self = Self(127);

    /// That of a command, or one that the user has chosen.
    pub(crate) fn of(code: u8) -> Self {
        Self(code)
    }

    /// Ended by a signal, as a shell tells it.
    pub(crate) fn by(signal: Signal) -> Self {
        Self::by_number(signal as i32)
    }

    /// The same for signals that have no name.
    pub(crate) fn by_number(signal: i32) -> Self {
        // Signals are numbers from 1 to 64.
        Self(128 + signal.to_le_bytes()[0])
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.0.into()
    }
}

/// For `--help` and the manual page.
pub(crate) const TABLE: &str = "\
Exit codes:
  0    done
  N    run: the exit code of the command
  128+N  run: the command was ended by signal N; distlock was, while it waited
  1    doctor: there are problems; break: nothing was taken away
  64   the command line or the settings are wrong
  65   the name is in use as another kind of lock
  69   the store cannot be reached, or refuses; also if --wait is over while it is away
  75   the lock was not granted: busy with --try, or --wait is over; -E sets it
  77   run: the lock was lost, and some of the command worked on without it: it ran as another user and could not be stopped
  79   the lock was lost: the command was stopped, or ended without it
  126  run: the command cannot be run
  127  run: the command is not there";
