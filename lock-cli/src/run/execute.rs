//! [`run`]: takes the lock, supervises the command, and releases the lock.

use std::{
    ffi::{OsStr, OsString},
    process::ExitCode,
    time::Duration,
};

use distlock::{AcquireOptions, Guard, LockName};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    command::{self, Command},
    interrupt,
    supervisor::{RunResult, Supervisor},
    timing::Timing,
    watchdog::{self, Dismissed, Watchdog, WatchdogResult},
};
use crate::{
    acquire::{Request, close, close_after_failure, release},
    args::RunArgs,
    exit::Exit,
    failure::Failure,
    output::Output,
    progress::Progress,
    settings::Settings,
    signals::Signals,
    store::Store,
};

/// Runs as the command's launcher or as the watchdog, or dies of a signal, if this program was started for that by itself.
pub(crate) fn internal(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    match args.next()?.to_str()? {
        command::INTERNAL_ARG => Some(command::exec(args)),
        watchdog::INTERNAL_ARG => Some(watchdog::run(args)),
        interrupt::INTERNAL_ARG => Some(interrupt::die(args)),
        _ => None,
    }
}

pub(crate) async fn run(args: RunArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    Progress::subscribe(output);
    // A mistake is reported, and a signal answered, while the store is away, too.
    let options = Request::options(&args.lock, settings, program(&args).as_deref())?;
    let grace = args.grace.or(settings.file.grace);
    Timing::new(&options, grace)?;
    let mut signals = Signals::terminating()?;
    let (store, waited) = Store::connect_for(&args.lock, settings, &mut signals, output).await?;
    let locks = &store.locks;
    let request = Request::new(locks, &args.lock, settings, options.clone(), waited)?;
    let guard = match request.acquire(&mut signals, output).await {
        Ok(guard) => guard,
        Err(failure) => {
            close_after_failure(locks, &failure).await;
            return Err(failure);
        }
    };
    let name = guard.name().clone();
    let ended = match hold_fast(&guard, &options, grace).await {
        Ok(timing) => {
            let url = args.pass_url.then_some(settings.url.as_str());
            supervise(&args, &store, &guard, timing, url, &mut signals, output).await
        }
        Err(failure) => Err(failure),
    };
    let was_lost = ended.as_ref().is_ok_and(|(ended, _)| ended.lost.is_some());
    let kept = if was_lost {
        drop(guard);
        close(locks).await;
        false
    } else {
        release(locks, guard, output).await
    };
    let (ended, watchdog) = ended?;
    // Only after the release: on a busy machine the watchdog may take long to end, and the next holder must not wait for that.
    let result = watchdog.map_or(WatchdogResult::Idle, Dismissed::result);
    let ended = ended.with_watchdog(result);
    if let Some(signal) = ended.interrupt {
        interrupt::pass_on(signal);
    }
    outcome(&name, kept, ended)
}

/// The exit code of the command, unless the lock was lost.
fn outcome(name: &LockName, kept: bool, ended: RunResult) -> Result<Exit, Failure> {
    match ended.lost {
        Some(why) if ended.unstoppable => {
            let message = format!(
                "lock `{name}` was lost: {why}; the command, or some of it, ran as another user, could not be stopped, and worked on \
                 without the lock"
            );
            Err(Failure::new(Exit::NOT_STOPPED, message)
                .hint("sudo distlock run …, and not distlock run … sudo"))
        }
        Some(why) => {
            Err(Failure::new(Exit::LOST, format!("lock `{name}` was lost: {why}; the command was stopped")))
        }
        None if !kept => {
            let message = format!(
                "lock `{name}` was lost before the command ended; what it did may not have been alone"
            );
            Err(Failure::new(Exit::LOST, message))
        }
        None => Ok(ended.exit),
    }
}

/// When the command has to be stopped, by the ttl that was granted. Extends a lease that is too short to start a command with: a lock may be
/// granted late in its lease.
async fn hold_fast(
    guard: &Guard,
    options: &AcquireOptions,
    grace: Option<Duration>,
) -> Result<Timing, Failure> {
    let timing = Timing::granted(options, grace, guard.ttl())?;
    if guard.remaining() > timing.needed_at_start() {
        return Ok(timing);
    }
    match guard.extend().await {
        Ok(_) => Ok(timing),
        Err(error) => Err(Failure::of_lock(&error)),
    }
}

async fn supervise(
    args: &RunArgs,
    store: &Store,
    guard: &Guard,
    timing: Timing,
    url: Option<&str>,
    signals: &mut Signals,
    output: &Output,
) -> Result<(RunResult, Option<Dismissed>), Failure> {
    let failed = |what: &'static str| move |error| Failure::new(Exit::CANNOT_RUN, what).because(&error);
    signals.add_forwarded()?;
    let children = signal(SignalKind::child()).map_err(failed("the end of a command cannot be noticed"))?;
    let process_file = store.process_file().await?;
    let watchdog = Watchdog::start(process_file);
    let mut watchdog = watchdog.map_err(failed("the watchdog cannot be started"))?;
    let words = words(args);
    let started = Command::start(&words, guard, url);
    let (command, report) = started.map_err(failed("this program cannot be started again"))?;
    watchdog.watch(command.group());
    let (ended, watchdog) = Supervisor::new(guard.hold(), command, watchdog, timing, output.clone())
        .watch(signals, children)
        .await;
    if ended.lost.is_none() && report.failed() {
        // The launcher has said why.
        return Err(Failure::silent(ended.exit));
    }
    Ok((ended, watchdog))
}

fn words(args: &RunArgs) -> Vec<OsString> {
    let in_shell = |line: OsString| vec!["/bin/sh".into(), "-c".into(), line];
    match &args.line {
        Some(line) => in_shell(line.clone()),
        None if args.shell => in_shell(args.words().join(OsStr::new(" "))),
        None => args.words().to_vec(),
    }
}

/// The name of the command: for a shell line, its first word.
fn program(args: &RunArgs) -> Option<OsString> {
    let first = args.line.as_ref().or_else(|| args.words().first())?;
    if args.line.is_none() && !args.shell {
        return Some(first.clone());
    }
    first.to_string_lossy().split_whitespace().next().map(OsString::from)
}
