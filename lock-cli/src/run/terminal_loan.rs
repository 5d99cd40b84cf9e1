//! [`TerminalLoan`]: the terminal, which the command gets while the job is in the foreground.

use super::{process_group::ProcessGroup, terminal::Terminal};

/// The controlling terminal, if there is one, and the group of the command that may get it.
#[derive(Debug)]
pub(crate) struct TerminalLoan {
    terminal: Option<Terminal>,
    group: ProcessGroup,
    /// Whether the group was given the terminal at least once.
    was_lent: bool,
}

impl TerminalLoan {
    /// Lends the terminal immediately if no other process of a pipeline needs it.
    pub(crate) fn new(group: ProcessGroup) -> Self {
        let mut loan = Self { terminal: Terminal::open(), group, was_lent: false };
        if Terminal::is_all_stdio() {
            loan.lend();
        }
        loan
    }

    /// Whether there is a terminal.
    pub(crate) fn has_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Whether the group is in the foreground.
    pub(crate) fn is_lent(&self) -> bool {
        self.terminal.as_ref().is_some_and(|terminal| terminal.is_foreground(self.group))
    }

    /// Puts the group into the foreground if our own is there. Returns whether the group is there now.
    pub(crate) fn lend(&mut self) -> bool {
        let Some(terminal) = &self.terminal else { return false };
        if terminal.is_ours() {
            terminal.give_to(self.group);
            self.was_lent = true;
            return true;
        }
        terminal.is_foreground(self.group)
    }

    /// The same when the job is continued, if the group had the terminal before.
    pub(crate) fn lend_again(&mut self) {
        if self.was_lent {
            self.lend();
        }
    }

    /// Puts our own group into the foreground again. If the group in the foreground is neither that of the command nor dead, a shell has
    /// the terminal: it has continued this job in the background, or runs on after the script around this job has ended.
    pub(crate) fn take_back(&self) {
        let Some(terminal) = self.terminal.as_ref().filter(|_| self.was_lent) else { return };
        let of_command = |group: ProcessGroup| group == self.group || group.exists() == Ok(false);
        if terminal.foreground().is_some_and(of_command) {
            terminal.take_back();
        }
    }

    /// Restores the modes that a killed command may have changed. A job in the background is stopped if it does that, and the modes are
    /// those of another job.
    pub(crate) fn restore_modes(&self) {
        if let Some(terminal) = self.terminal.as_ref().filter(|terminal| terminal.is_ours()) {
            terminal.restore_modes();
        }
    }
}
