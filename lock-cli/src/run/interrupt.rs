//! Ctrl-C and Ctrl-\ end the script around this process, as they do without it.
//!
//! They signal the foreground group, which is that of the command alone. A shell such as dash ends a script when it gets the signal itself;
//! bash also waits for the program that it runs, and ends the script only if that program has died of the signal.

use std::{ffi::OsString, os::unix::process::CommandExt, process::ExitCode};

use nix::{
    sys::signal::{Signal, kill, raise},
    unistd::Pid,
};

use super::{command::this_program, terminal::Terminal};
use crate::exit::Exit;

/// The first argument with which this program dies of a signal.
pub(super) const INTERNAL_ARG: &str = "__die";

/// Signals our own group, which had the terminal before the command. This process handles the signal.
pub(super) fn pass_on(signal: Signal) {
    // There is at least this process in the group.
    let _ = kill(Pid::from_raw(0), signal);
}

/// Dies of the signal of an interrupt in the foreground of a terminal. Otherwise, or if the signal has no effect, the exit code tells it.
pub(crate) fn die_if_interrupted(exit: Exit) {
    let Some(signal) = exit.interrupt() else { return };
    let is_in_foreground = || Terminal::open().is_some_and(|terminal| terminal.is_ours());
    if Terminal::is_any_stdio() && is_in_foreground() {
        // Safe code cannot remove the handler of this process. A program has none when it is executed.
        let _ = this_program().arg(INTERNAL_ARG).arg(signal.as_str()).exec();
    }
}

/// Dies of a signal. `args` is its name.
pub(super) fn die(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let signal = args.next().and_then(|name| name.to_str()?.parse::<Signal>().ok());
    let Some(signal) = signal else { return Exit::USAGE.into() };
    // It has no effect if it is ignored, and on the first process of a container.
    let _ = raise(signal);
    Exit::from_signal(signal).into()
}
