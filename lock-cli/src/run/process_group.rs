//! [`ProcessGroup`]: the process group of a command.

use std::{fs, path::Path, process};

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// The message about processes that cannot be signalled.
pub(super) const CANNOT_BE_STOPPED: &str =
    "the command runs as another user and cannot be stopped: it works on without the lock";

/// The processes of a command, without those that have left its group by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessGroup(Pid);

impl ProcessGroup {
    pub(crate) fn new(leader: Pid) -> Self {
        Self(leader)
    }

    /// The id of the group.
    pub(crate) fn id(self) -> Pid {
        self.0
    }

    /// Sends a signal to the group. An empty group is no error.
    ///
    /// # Errors
    /// If all processes of the group run as another user.
    pub(crate) fn signal(self, signal: Signal) -> Result<(), NotPermitted> {
        match killpg(self.0, signal) {
            Err(Errno::EPERM) => Err(NotPermitted),
            _ => Ok(()),
        }
    }

    /// Whether the group has a process, alive or a zombie.
    ///
    /// # Errors
    /// If all of them run as another user: an earlier signal may have reached other processes, and not these.
    pub(crate) fn exists(self) -> Result<bool, NotPermitted> {
        match killpg(self.0, None) {
            Err(Errno::EPERM) => Err(NotPermitted),
            Err(Errno::ESRCH) => Ok(false),
            _ => Ok(true),
        }
    }

    /// Whether the group has a living process. Zombies do not count: under an init that does not reap they stay forever. It reads the
    /// state of every process of the machine.
    ///
    /// # Errors
    /// As [`exists`](Self::exists).
    pub(crate) fn is_alive(self) -> Result<bool, NotPermitted> {
        Ok(self.exists()? && !self.is_all_dead())
    }

    /// Whether `/proc` shows processes of the group, and all of them are zombies.
    fn is_all_dead(self) -> bool {
        if !shows_all_processes() {
            return false;
        }
        let Ok(processes) = fs::read_dir("/proc") else { return false };
        let mut some = false;
        for entry in processes.filter_map(Result::ok) {
            // A process that has ended meanwhile cannot be read; other entries have no such file.
            let stat = fs::read(entry.path().join("stat")).unwrap_or_default();
            let Some((group, is_dead)) = read_stat(&String::from_utf8_lossy(&stat)) else { continue };
            if group == self.0.as_raw() {
                if !is_dead {
                    return false;
                }
                some = true;
            }
        }
        some
    }
}

/// Whether `/proc` exists, belongs to our namespace, and shows the processes of other users.
fn shows_all_processes() -> bool {
    let own = process::id().to_string();
    fs::read_link("/proc/self").is_ok_and(|shown| shown == Path::new(&own))
        && fs::metadata("/proc/1/stat").is_ok()
}

/// The process group of a process, and whether it is a zombie.
fn read_stat(stat: &str) -> Option<(i32, bool)> {
    // The name may contain parentheses, and nothing after it does.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let [state, group, threads] = [0, 2, 17].map(|field| fields.get(field).copied());
    // The main thread may have ended while others run.
    let is_dead = matches!(state?, "Z" | "X") && matches!(threads?, "0" | "1");
    Some((group?.parse().ok()?, is_dead))
}

/// A process of another user cannot be signalled: for example one that `sudo` has started, if this program does not run as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotPermitted;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{os::unix::process::CommandExt, process::Command};

    use nix::sys::wait::{Id, WaitPidFlag, waitid};

    use super::*;

    #[test]
    fn who_has_ended_and_is_not_waited_for_is_there_and_not_alive() {
        let mut child = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let group = ProcessGroup::new(Pid::from_raw(child.id().cast_signed()));
        assert_eq!((group.exists(), group.is_alive()), (Ok(true), Ok(true)));
        group.signal(Signal::SIGKILL).unwrap();
        // Waits for its end, and leaves the zombie.
        waitid(Id::Pid(group.id()), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
        assert_eq!((group.exists(), group.is_alive()), (Ok(true), Ok(false)));
        child.wait().unwrap();
        assert_eq!((group.exists(), group.is_alive()), (Ok(false), Ok(false)));
    }

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let stat = |name: &str, state: &str, threads: u32| {
            format!("7 ({name}) {state} 1 42 42 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 {threads} 0 1 0\n")
        };
        assert_eq!(read_stat(&stat("sleep", "S", 1)), Some((42, false)));
        assert_eq!(read_stat(&stat("a) Z 1 5 (b", "R", 1)), Some((42, false)));
        assert_eq!(read_stat(&stat("sleep", "Z", 1)), Some((42, true)));
        assert_eq!(read_stat(&stat("its other threads run", "Z", 3)), Some((42, false)));
        assert_eq!(read_stat(""), None);
    }
}
