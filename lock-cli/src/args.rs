//! [`Args`]: what the user asks for.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use distlock::{EntryId, InputError, LockName, NameError};

use crate::{
    exit::{self, ExitCodes},
    machine::SetupArgs,
};

/// Holds a distributed lock while a command runs, and shows who holds one.
///
/// Unless you name a store, the locks are those of this user, this machine: other users, root too, and other machines have their own.
/// `--url` names a shared store.
#[derive(Debug, Parser)]
#[command(name = "distlock", version, disable_help_subcommand = true, after_help = exit::TABLE)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    #[command(subcommand)]
    pub(crate) task: Task,
}

/// The heading of the options that every command has, in the help.
const FOR_ALL: &str = "For all commands";

/// Where the locks are.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// The store; without it `DISTLOCK_URL`, then `url` of the settings file, then the default, `sqlite:`: this user, this machine.
    /// Every user of this machine can see a password in the URL, in the list of processes: use `--url-file`, the settings file, or
    /// `?password_file=…` instead
    #[arg(long, global = true, help_heading = FOR_ALL, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// A file with the URL of the store in its only line
    #[arg(long, global = true, help_heading = FOR_ALL, value_name = "FILE", conflicts_with = "url")]
    pub(crate) url_file: Option<PathBuf>,

    /// Use the locks that all users of a group share on this machine, like the URL `sqlite:machine`; `setup-machine` prepares them once.
    /// Each of these users can take the locks of the others: as root, use them only if you trust all of them
    #[arg(long, global = true, help_heading = FOR_ALL, conflicts_with_all = ["url", "url_file"])]
    pub(crate) machine: bool,

    /// The settings file, in TOML: `url`, `ttl`, `wait`, `grace`; default `~/.config/distlock/config.toml`
    #[arg(long, global = true, help_heading = FOR_ALL, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Print only errors
    #[arg(long, short, global = true, help_heading = FOR_ALL)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Hold a lock while a command runs
    ///
    /// The command gets `DISTLOCK_NAME` and `DISTLOCK_TOKEN`, the standard input, the terminal and the signals; its exit code is
    /// passed on. If the lock is lost, the command is stopped: SIGTERM, the grace, SIGKILL to its process group. If no renewal succeeds
    /// in time, or `--max-hold` is over, this is done before the next holder can be admitted. If the lock was taken away (`break`), or the
    /// store has lost it, the next holder may work during the grace; `--grace 0s` leaves the command no time. If distlock is killed, the
    /// command is killed too. A command that runs as another user cannot be killed: use `sudo distlock run`, not `distlock run … sudo`.
    ///
    /// On a terminal, Ctrl-C that ends the command or the wait ends a script around distlock as well. Ctrl-Z stops the job, unless no shell can
    /// continue it, as in a container.
    #[command(after_help = exit::TABLE)]
    Run(RunArgs),
    /// Hold a lock until a signal comes, or the standard input ends
    ///
    /// The end of the standard input counts only if it is a terminal, a pipe or a socket, and open at the start: the input that systemd and cron
    /// give has already ended. As a service of `Type=notify`, it reports to systemd when the lock is held.
    Hold(HoldArgs),
    /// Show who holds a lock, and who waits for it
    ///
    /// With `--quiet` it prints nothing; the exit code is 0 if the lock is held, and 1 if it is not.
    Show(ShowArgs),
    /// List the locks that are held or waited for
    List(ListArgs),
    /// Take a lock away from its holders by force
    ///
    /// A holder is notified immediately, but may work on for a moment, and the command of `run` for its grace. Only a resource that checks
    /// tokens is protected from that.
    Break(BreakArgs),
    /// Print when a waiter joins the queue of a lock, gets the lock, or leaves
    ///
    /// It reads the queue at intervals, and does not see a hold that begins and ends between two reads. It reads no record of holds that
    /// have ended: etcd keeps old revisions until they are compacted, but distlock does not read them.
    Watch(WatchArgs),
    /// Prepare the locks that all users of a group share on this machine, for `--machine` and `sqlite:machine`. Needs root
    SetupMachine(SetupArgs),
    /// Examine the store: what it promises, and what is wrong with its settings
    Doctor(DoctorArgs),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Print the manual page of distlock, or of one command
    Man(ManArgs),
}

impl Task {
    /// The exit codes that the user has chosen.
    pub(crate) fn codes(&self) -> ExitCodes {
        let (Self::Run(RunArgs { lock, .. }) | Self::Hold(HoldArgs { lock, .. })) = self else {
            return ExitCodes::default();
        };
        let busy = lock.conflict_exit_code.map(ExitCodes::for_busy);
        busy.or_else(|| lock.exit.clone()).unwrap_or_default()
    }

    /// Whether the output is JSON.
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Hold(HoldArgs { json, .. })
            | Self::Show(ShowArgs { json, .. })
            | Self::List(ListArgs { json, .. })
            | Self::Break(BreakArgs { json, .. })
            | Self::Watch(WatchArgs { json, .. })
            | Self::Doctor(DoctorArgs { json, .. }) => *json,
            Self::Run(_) | Self::SetupMachine(_) | Self::Completions(_) | Self::Man(_) => false,
        }
    }

    /// The file of `--status-file`.
    pub(crate) fn status_file(&self) -> Option<&Path> {
        match self {
            Self::Run(run) => run.status_file.as_deref(),
            _ => None,
        }
    }
}

/// Which lock, and how to wait for it.
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct LockArgs {
    /// The name of the lock. Put `--` before a name that begins with `-`
    #[arg(value_parser = name)]
    pub(crate) name: LockName,

    /// Take the reading side of a read-write lock, beside other readers
    #[arg(long, conflicts_with_all = ["exclusive", "of"])]
    pub(crate) shared: bool,

    /// Take the writing side of a read-write lock, alone
    #[arg(long, conflicts_with = "of")]
    pub(crate) exclusive: bool,

    /// How many permits of the semaphore to take, all or none; default 1
    #[arg(long, value_name = "K", requires = "of")]
    pub(crate) permits: Option<u32>,

    /// How many permits the semaphore has: the same number everywhere
    #[arg(long, value_name = "N")]
    pub(crate) of: Option<u32>,

    /// Give up after this time; default: wait forever
    #[arg(short, long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,

    /// Give up at once if the lock is not free
    #[arg(short = 'n', long = "try", conflicts_with_all = ["wait", "outage"])]
    pub(crate) only_try: bool,

    /// What to do while the store is away; default: give up at the start, and try again once in the queue
    #[arg(long, value_name = "WHAT")]
    pub(crate) outage: Option<OutagePolicy>,

    /// How long the lease lives without being renewed; default 30s
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,

    /// Hold the lock for at most this time; after that it counts as lost
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) max_hold: Option<Duration>,

    /// A text that people see in the queue; default: the name of the command
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    /// Print once who holds the lock while waiting for it; on a terminal that is always shown
    #[arg(long)]
    pub(crate) verbose: bool,

    /// The exit code when the lock is not granted; default 75. The same as `--exit busy=CODE`
    #[arg(short = 'E', long, value_name = "CODE", conflicts_with = "exit")]
    pub(crate) conflict_exit_code: Option<u8>,

    /// Your own exit codes for `busy`, `unavailable`, `lost`, `unstopped` and `kind`, as in `busy=0,lost=80`
    #[arg(long, value_name = "NAME=CODE,…", value_parser = codes)]
    pub(crate) exit: Option<ExitCodes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutagePolicy {
    /// Try again until the store is back or the wait is over, at the start too
    Wait,
    /// Give up at once
    Fail,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) lock: LockArgs,

    /// How long the command has between SIGTERM and SIGKILL; default: a quarter of the ttl, 10s at most
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) grace: Option<Duration>,

    /// Write to this file how it ended: `command CODE`, or a reason and our exit code, as `busy 75`, `unavailable 69`, `lost 79`, `failed 127`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) status_file: Option<PathBuf>,

    /// Give the command the URL of the store, with its password, in `DISTLOCK_URL`; by default it gets none
    #[arg(long)]
    pub(crate) pass_url: bool,

    /// The command is a line for `/bin/sh -c`
    #[arg(long)]
    pub(crate) shell: bool,

    /// The command is this text, a line for `/bin/sh -c`
    #[arg(short = 'c', long = "command", value_name = "TEXT", conflicts_with_all = ["command", "shell"])]
    pub(crate) line: Option<OsString>,

    /// The command and its arguments: everything after the name, or after `--`, even if it begins with `-`
    #[arg(
        trailing_var_arg = true,
        required_unless_present = "line",
        num_args = 1..,
        value_name = "COMMAND",
        value_hint = ValueHint::CommandWithArguments
    )]
    command: Vec<OsString>,
}

impl RunArgs {
    /// The command and its arguments. After a name that came after `--` there may be another `--`.
    pub(crate) fn words(&self) -> &[OsString] {
        match self.command.as_slice() {
            [escape, words @ ..] if escape == "--" && !words.is_empty() => words,
            words => words,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct HoldArgs {
    #[command(flatten)]
    pub(crate) lock: LockArgs,

    /// End when the standard input ends, even if it had ended before the start
    #[arg(long)]
    pub(crate) until_eof: bool,

    /// Write an empty line to this descriptor when the lock is held: a pipe or a file that this user may open
    #[arg(long, value_name = "N")]
    pub(crate) ready_fd: Option<u32>,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The name of the lock
    #[arg(value_parser = name)]
    pub(crate) name: LockName,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// List only names that begin with this
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,

    /// Print only the names, one per line
    #[arg(long, conflicts_with = "json")]
    pub(crate) names: bool,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BreakArgs {
    /// The name of the lock
    #[arg(value_parser = name)]
    pub(crate) name: LockName,

    /// Take away only this entry, a holder or a waiter, by the id that `show` prints; default: all holders
    #[arg(long, value_name = "ID", value_parser = entry)]
    pub(crate) entry: Option<EntryId>,

    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    /// The name of the lock
    #[arg(value_parser = name)]
    pub(crate) name: LockName,

    /// How often to look
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "500ms")]
    pub(crate) interval: Duration,

    /// Write JSON, one object for each line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The command whose page to print
    pub(crate) command: Option<String>,
}

fn name(text: &str) -> Result<LockName, NameError> {
    LockName::new(text)
}

fn codes(text: &str) -> Result<ExitCodes, String> {
    text.parse()
}

fn entry(text: &str) -> Result<EntryId, InputError> {
    text.parse()
}

/// A duration as this library reads it, or seconds, as `flock` and `timeout` take them.
pub(crate) fn duration(text: &str) -> Result<Duration, &'static str> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds = text.parse::<f64>().ok().filter(|_| is_number);
    let seconds = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let duration = seconds.or_else(|| distlock::settings::duration::parse(text));
    duration.ok_or("write seconds, or a unit as well, such as 500ms, 30s or 1m 30s")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_number_is_one_of_seconds() {
        let ms = |ms| Ok(Duration::from_millis(ms));
        for (text, read) in
            [("5", ms(5_000)), ("0.25", ms(250)), ("0", ms(0)), ("1m 30s", ms(90_000)), ("500ms", ms(500))]
        {
            assert_eq!(duration(text), read, "{text:?}");
        }
        for text in ["", ".", "-1", "1e3", "inf", "nan", "1.2.3", "5 x", "five", &"9".repeat(400)] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }
}
