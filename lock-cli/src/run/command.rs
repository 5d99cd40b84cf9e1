//! [`Command`]: what runs under the lock.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, ErrorKind, PipeReader, Read, Write},
    os::{
        fd::AsRawFd,
        unix::{
            fs::OpenOptionsExt,
            process::{CommandExt, ExitStatusExt},
        },
    },
    process::{self, ExitCode},
};

use distlock::Guard;
use nix::{
    fcntl::{FcntlArg, FdFlag, OFlag, fcntl},
    sys::signal::{SigSet, Signal},
    unistd::{Pid, close, getppid},
};

use super::process_group::ProcessGroup;
use crate::{exit::Exit, print};

/// The first argument with which this program becomes the command.
pub(super) const INTERNAL_ARG: &str = "__exec";

/// The command as a child process.
#[derive(Debug)]
pub(crate) struct Command {
    child: process::Child,
}

/// What the launcher reports: its exit codes are also codes of commands.
#[derive(Debug)]
pub(crate) struct LaunchReport(PipeReader);

impl LaunchReport {
    /// Whether the command could not be run. Call it after the end of the child process.
    pub(crate) fn failed(mut self) -> bool {
        self.0.read(&mut [0]).is_ok_and(|read| read > 0)
    }
}

/// A change of the child process since the last look.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StateChange {
    Ended(Exit),
    Stopped(Signal),
}

impl Command {
    /// Starts the command in a process group of its own. It gets the URL of the store only with `--pass-url`: there may be a password in it.
    ///
    /// ### To ensure correctness
    /// Call it on a thread that lives as long as the process: the end of that thread sends the parent-death signal.
    pub(crate) fn start(
        words: &[OsString],
        guard: &Guard,
        url: Option<&str>,
    ) -> io::Result<(Self, LaunchReport)> {
        let (report, reporter) = io::pipe()?;
        fcntl(&report, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        // The launcher inherits it.
        fcntl(&reporter, FcntlArg::F_SETFD(FdFlag::empty()))?;
        let mut command = this_program();
        command.arg(INTERNAL_ARG).arg(process::id().to_string());
        command.arg(reporter.as_raw_fd().to_string()).args(words);
        command.env("DISTLOCK_NAME", guard.name().as_str()).env("DISTLOCK_TOKEN", guard.token().to_string());
        match url {
            Some(url) => command.env("DISTLOCK_URL", url),
            None => command.env_remove("DISTLOCK_URL"),
        };
        let child = command.process_group(0).spawn()?;
        Ok((Self { child }, LaunchReport(report)))
    }

    pub(crate) fn group(&self) -> ProcessGroup {
        // Linux has no process ids above 2^22.
        ProcessGroup::new(Pid::from_raw(self.child.id().cast_signed()))
    }

    /// The next change, if there is one since the last look.
    pub(crate) fn poll_change(&mut self) -> Option<StateChange> {
        // Nobody else waits for this child, so this cannot fail.
        if let Some(status) = self.child.try_wait().ok()? {
            let by_signal = status.signal().map(Exit::from_signal_number);
            // The kernel passes on only the lowest eight bits.
            let exit =
                by_signal.unwrap_or_else(|| Exit::from_code(status.code().unwrap_or(0).to_le_bytes()[0]));
            return Some(StateChange::Ended(exit));
        }
        self.stopped_by().map(StateChange::Stopped)
    }

    #[cfg(target_os = "linux")]
    fn stopped_by(&self) -> Option<Signal> {
        use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

        match waitid(Id::Pid(self.group().id()), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG) {
            Ok(WaitStatus::Stopped(_, signal)) => Some(signal),
            _ => None,
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn stopped_by(&self) -> Option<Signal> {
        None
    }
}

/// Starts this program, even if its file was replaced meanwhile.
pub(super) fn this_program() -> process::Command {
    let path = if cfg!(target_os = "linux") {
        "/proc/self/exe".into()
    } else {
        // If the file is gone, starting it fails, too.
        std::env::current_exe().unwrap_or_else(|_| "distlock".into())
    };
    let mut program = process::Command::new(path);
    program.arg0("distlock");
    program
}

/// Becomes the command. `args` are the process id of the supervisor, the descriptor for the [report](LaunchReport), and the words of the
/// command.
pub(super) fn exec(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut number = || args.next().and_then(|number| number.to_str()?.parse::<i32>().ok());
    let (parent, reporter) = (number(), number());
    let (Some(parent), Some(reporter), Some(program)) = (parent, reporter, args.next()) else {
        return Exit::USAGE.into();
    };
    let reporter = closed_by_exec(reporter);
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL) {
        let message = format!("the command cannot be made to die with this process: {error}");
        return failed(reporter, &message, Exit::CANNOT_RUN);
    }
    // The supervisor may have ended before the signal was set.
    if getppid() != Pid::from_raw(parent) {
        return Exit::LOST.into();
    }
    let error = process::Command::new(&program).args(args).exec();
    let program = program.to_string_lossy();
    let (exit, next) = match error.kind() {
        ErrorKind::NotFound => (Exit::NOT_FOUND, "check its name and PATH"),
        _ => (Exit::CANNOT_RUN, "check that it is executable"),
    };
    let message = format!("`{program}` cannot be run: {error}; {next}, or use --shell for a line of shell");
    failed(reporter, &message, exit)
}

/// Another descriptor for the same pipe, which the command does not inherit. The given one is closed.
fn closed_by_exec(reporter: i32) -> Option<File> {
    // Without a supervisor that reads, it would block.
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let another = options.open(format!("/dev/fd/{reporter}")).ok();
    // Nothing else in this process knows it.
    let _ = close(reporter);
    another
}

/// Reports that the command could not be run.
fn failed(reporter: Option<File>, message: &str, exit: Exit) -> ExitCode {
    // The attempt to run the command has given SIGPIPE its default effect: a closed standard error would end this process.
    let _ = SigSet::from(Signal::SIGPIPE).thread_block();
    // If the supervisor is gone, nobody wants to know.
    let _ = reporter.map(|mut reporter| reporter.write_all(b"\n"));
    print::message(&format!("distlock: {message}"));
    exit.into()
}
