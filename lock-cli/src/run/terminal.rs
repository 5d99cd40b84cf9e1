//! [`Terminal`]: the controlling terminal, and which process group may read from it.

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

/// The controlling terminal, with its modes at the start.
#[derive(Debug)]
pub(crate) struct Terminal {
    device: File,
    modes: Option<Termios>,
}

impl Terminal {
    /// The controlling terminal, if there is one.
    pub(crate) fn open() -> Option<Self> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let modes = tcgetattr(&device).ok();
        Some(Self { device, modes })
    }

    /// Whether stdin, stdout and stderr are terminals: then no other process of a pipeline needs it.
    pub(crate) fn is_all_stdio() -> bool {
        std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Whether stdin, stdout or stderr is a terminal.
    pub(crate) fn is_any_stdio() -> bool {
        std::io::stdin().is_terminal() || std::io::stdout().is_terminal() || std::io::stderr().is_terminal()
    }

    /// Whether our own group is in the foreground.
    pub(crate) fn is_ours(&self) -> bool {
        self.is_foreground(ProcessGroup::new(getpgrp()))
    }

    /// Whether a group is in the foreground.
    pub(crate) fn is_foreground(&self, group: ProcessGroup) -> bool {
        self.foreground() == Some(group)
    }

    /// The group in the foreground. A terminal that has hung up has none.
    pub(crate) fn foreground(&self) -> Option<ProcessGroup> {
        tcgetpgrp(&self.device).ok().map(ProcessGroup::new)
    }

    /// Puts a group into the foreground.
    pub(crate) fn give_to(&self, group: ProcessGroup) {
        // A background process that changes the foreground group is stopped by this signal.
        let blocked = SigSet::from(Signal::SIGTTOU);
        let _ = blocked.thread_block();
        // It fails on a terminal that has hung up, which has no foreground any more.
        let _ = tcsetpgrp(&self.device, group.id());
        let _ = blocked.thread_unblock();
    }

    /// Puts our own group into the foreground again.
    pub(crate) fn take_back(&self) {
        self.give_to(ProcessGroup::new(getpgrp()));
    }

    /// Restores the modes of the start.
    pub(crate) fn restore_modes(&self) {
        if let Some(modes) = &self.modes {
            let _ = tcsetattr(&self.device, SetArg::TCSADRAIN, modes);
        }
    }
}
