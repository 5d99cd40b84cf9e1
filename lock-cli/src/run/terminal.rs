//! [`Terminal`]: the terminal of the session, and which process group may read from it.

use std::{
    fs::{File, OpenOptions},
    io::IsTerminal,
};

use nix::{
    sys::{
        signal::{SigSet, Signal},
        termios::{SetArg, Termios, tcgetattr, tcsetattr},
    },
    unistd::{getpgrp, tcgetpgrp, tcsetpgrp},
};

use super::process_group::ProcessGroup;

/// The terminal of the session.
#[derive(Debug)]
pub(crate) struct Terminal {
    device: File,
    modes: Option<Termios>,
}

impl Terminal {
    /// The one there is, if any.
    pub(crate) fn open() -> Option<Self> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let modes = tcgetattr(&device).ok();
        Some(Self { device, modes })
    }

    /// Whether all that the command reads and writes is a terminal: then no other process of a pipeline wants it.
    pub(crate) fn is_all_stdio() -> bool {
        std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Whether it is our turn: our group is the one in the foreground.
    pub(crate) fn is_ours(&self) -> bool {
        self.is_foreground(ProcessGroup::new(getpgrp()))
    }

    /// Whether a group is the one in the foreground.
    pub(crate) fn is_foreground(&self, group: ProcessGroup) -> bool {
        tcgetpgrp(&self.device) == Ok(group.id())
    }

    /// Puts a group into the foreground.
    pub(crate) fn give_to(&self, group: ProcessGroup) {
        // Whoever is in the background is stopped by this signal for trying.
        let blocked = SigSet::from(Signal::SIGTTOU);
        let _ = blocked.thread_block();
        // A terminal that has hung up is nobody's.
        let _ = tcsetpgrp(&self.device, group.id());
        let _ = blocked.thread_unblock();
    }

    /// Puts our own group into the foreground again.
    pub(crate) fn take_back(&self) {
        self.give_to(ProcessGroup::new(getpgrp()));
    }

    /// Undoes what a command has set, that had no time to do so.
    pub(crate) fn restore_modes(&self) {
        if let Some(modes) = &self.modes {
            let _ = tcsetattr(&self.device, SetArg::TCSADRAIN, modes);
        }
    }
}
