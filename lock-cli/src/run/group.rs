//! [`Group`]: the process group of a command.

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// All processes of a command that have not left its group by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group(Pid);

impl Group {
    pub(crate) fn new(leader: Pid) -> Self {
        Self(leader)
    }

    /// The id of the group.
    pub(crate) fn id(self) -> Pid {
        self.0
    }

    /// Sends a signal to all of it. That nobody is there any more is no error.
    ///
    /// # Errors
    /// If all who are there run as another user.
    pub(crate) fn signal(self, signal: Signal) -> Result<(), OutOfReach> {
        match killpg(self.0, signal) {
            Err(Errno::EPERM) => Err(OutOfReach),
            _ => Ok(()),
        }
    }

    /// Whether somebody is in it, or has ended and was not waited for.
    ///
    /// # Errors
    /// If all who are there run as another user: a signal to all of the group may have reached others and not them.
    pub(crate) fn is_there(self) -> Result<bool, OutOfReach> {
        match killpg(self.0, None) {
            Err(Errno::EPERM) => Err(OutOfReach),
            Err(Errno::ESRCH) => Ok(false),
            _ => Ok(true),
        }
    }
}

/// A process of another user cannot be sent signals: one behind `sudo`, where this program is not root's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfReach;
