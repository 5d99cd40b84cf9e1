//! [`Exit`]: the exit codes, which scripts rely on.

use std::{fmt, process::ExitCode, str::FromStr};

use nix::sys::signal::Signal;

/// An exit code. Ours follow `sysexits.h` where it has one that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    code: u8,
    /// The signal that has ended the command, or the wait for the lock. Those without a name are not told.
    signal: Option<Signal>,
}

impl Exit {
    /// Done.
    pub(crate) const DONE: Self = Self::from_code(0);
    /// `doctor` found problems, `break` took nothing away, or `show --quiet` found the lock free.
    pub(crate) const NO: Self = Self::from_code(1);
    /// The command line or the settings are wrong.
    pub(crate) const USAGE: Self = Self::from_code(64);
    /// The name is in use as another kind of lock.
    pub(crate) const KIND: Self = Self::from_code(65);
    /// The store cannot be reached, or refuses.
    pub(crate) const STORE: Self = Self::from_code(69);
    /// The lock was not granted: busy, or the wait was over.
    pub(crate) const NOT_GRANTED: Self = Self::from_code(75);
    /// The lock was lost, and the command could not be stopped.
    pub(crate) const NOT_STOPPED: Self = Self::from_code(77);
    /// The lock was lost.
    pub(crate) const LOST: Self = Self::from_code(79);
    /// The command exists, but cannot be run.
    pub(crate) const CANNOT_RUN: Self = Self::from_code(126);
    /// The command does not exist.
    pub(crate) const NOT_FOUND: Self = Self::from_code(127);

    /// The exit code of a command.
    pub(crate) const fn from_code(code: u8) -> Self {
        Self { code, signal: None }
    }

    /// 128 and the number of the signal, as in a shell.
    pub(crate) fn from_signal(signal: Signal) -> Self {
        Self::from_signal_number(signal as i32)
    }

    /// The same for a signal without a name.
    pub(crate) fn from_signal_number(signal: i32) -> Self {
        // Signals are numbers from 1 to 64.
        Self { code: 128 + signal.to_le_bytes()[0], signal: Signal::try_from(signal).ok() }
    }

    pub(crate) fn code(self) -> u8 {
        self.code
    }

    /// The signal, if it is that of Ctrl-C or Ctrl-\.
    pub(crate) fn interrupt(self) -> Option<Signal> {
        self.signal.filter(|signal| matches!(signal, Signal::SIGINT | Signal::SIGQUIT))
    }

    /// What happened, in a word: as in `--exit`, in JSON and in status files.
    pub(crate) fn name(self) -> &'static str {
        match NAMES.iter().find(|(_, exit)| *exit == self) {
            Some(&(word, _)) => word,
            None if self == Self::USAGE => "usage",
            None if self.code > 128 => "interrupted",
            None => "failed",
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)
    }
}

/// The codes that `--exit` can replace, by name.
const NAMES: [(&str, Exit); 5] = [
    ("busy", Exit::NOT_GRANTED),
    ("unavailable", Exit::STORE),
    ("lost", Exit::LOST),
    ("unstopped", Exit::NOT_STOPPED),
    ("kind", Exit::KIND),
];

/// The codes that the user has chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExitCodes(Vec<(Exit, Exit)>);

impl ExitCodes {
    /// With another code for a busy lock.
    pub(crate) fn for_busy(code: u8) -> Self {
        Self(vec![(Exit::NOT_GRANTED, Exit::from_code(code))])
    }

    /// The code to end with.
    pub(crate) fn of(&self, exit: Exit) -> Exit {
        self.0.iter().find(|(ours, _)| *ours == exit).map_or(exit, |(_, chosen)| *chosen)
    }
}

/// `busy=0,lost=79`.
impl FromStr for ExitCodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pair = |pair: &str| {
            let (name, code) = pair.split_once('=')?;
            let (_, ours) = NAMES.iter().find(|(known, _)| *known == name)?;
            Some((*ours, Exit::from_code(code.parse().ok()?)))
        };
        text.split(',').map(pair).collect::<Option<Vec<_>>>().map(Self).ok_or_else(|| {
            let names = NAMES.map(|(name, _)| name).join(", ");
            format!(
                "write NAME=CODE, or several with commas between them: names are {names}; codes are 0 to 255"
            )
        })
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code.into()
    }
}

/// For `--help` and the manual page.
pub(crate) const TABLE: &str = "\
Exit codes:
  0    done
  N    run: the exit code of the command
  128+N  signal N ended the command of run, or distlock itself while it waited
  1    doctor: there are problems; break: nothing was taken away; show --quiet: nobody holds the lock
  64   the command line or the settings are wrong
  65   the name is in use as another kind of lock
  69   the store cannot be reached, or refuses; also if --wait is over while it is away
  75   the lock was not granted: busy with --try, or --wait is over
  77   run: the lock was lost, and a part of the command worked on: it ran as another user and could not be stopped
  79   the lock was lost: the command was stopped, or ended without it
  126  run: the command cannot be run
  127  run: the command does not exist
Set other codes for 75, 69, 79, 77 and 65 with --exit busy=…,unavailable=…,lost=…,unstopped=…,kind=…
With --status-file, distlock writes whether a code is from the command or from itself";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_by_their_names() {
        let codes: ExitCodes = "busy=0,lost=5".parse().unwrap();
        assert_eq!(
            [Exit::NOT_GRANTED, Exit::LOST, Exit::STORE].map(|exit| codes.of(exit)),
            [Exit::DONE, Exit::from_code(5), Exit::STORE]
        );
        for wrong in ["", "busy", "busy=", "busy=256", "busy=-1", "late=3", "busy=1,", "busy=1 lost=2"] {
            assert!(wrong.parse::<ExitCodes>().unwrap_err().contains("busy, unavailable, lost"), "{wrong:?}");
        }
    }
}
