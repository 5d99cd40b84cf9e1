//! `distlock run`: a lock is held while a command runs.
//!
//! Three processes do it. The supervisor holds the lock. The command runs in a process group of its own, with SIGKILL as
//! its parent-death signal. The watchdog knows the group and the time by which it has to be dead, and kills it when that
//! time has come or the supervisor is gone: a supervisor that is stopped, starved or killed leaves no command behind
//! that works without the lock. Should the watchdog end, the supervisor starts another one.

mod command;
mod group;
mod supervisor;
mod terminal;
mod timing;
mod watchdog;

use std::{
    ffi::{OsStr, OsString},
    process::ExitCode,
};

use distlock::Guard;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use self::terminal::Terminal;
use self::{
    command::Command,
    supervisor::{Ended, Supervisor},
    timing::Timing,
    watchdog::{Dismissed, Duty, Watchdog},
};
use crate::{
    args::RunArgs,
    connect::Store,
    exit::Exit,
    failure::Failure,
    granting::{Request, close, close_without, give_back},
    settings::Settings,
    signals::Signals,
    traces::Traces,
    voice::Voice,
};

/// Does what this program is started for by itself, if that is so.
pub(crate) fn inner(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    match args.next()?.to_str()? {
        command::INNER => Some(command::exec(args)),
        watchdog::INNER => Some(watchdog::watch(args)),
        _ => None,
    }
}

pub(crate) async fn run(args: RunArgs, settings: &Settings, voice: &Voice) -> Result<Exit, Failure> {
    let own = Traces::listen(voice);
    let (store, waited) = Store::connect_for(&args.lock, settings, voice).await?;
    let locks = &store.locks;
    let mut signals = Signals::ending()?;
    let request = Request::new(locks, &args.lock, settings, program(&args).as_deref(), waited)?;
    let timing = Timing::new(&request.options, args.grace.or(settings.file.grace))?;
    let guard = match request.granted(&own, &mut signals, voice).await {
        Ok(guard) => guard,
        Err(failure) => {
            close_without(locks, &failure).await;
            return Err(failure);
        }
    };
    let name = guard.name().clone();
    let ended = match hold_fast(&guard, timing).await {
        Ok(()) => {
            let url = args.pass_url.then_some(settings.url.as_str());
            supervise(&args, &store, &guard, timing, url, &mut signals, voice).await
        }
        Err(failure) => Err(failure),
    };
    let was_lost = ended.as_ref().is_ok_and(|(ended, _)| ended.lost.is_some());
    let kept = if was_lost {
        drop(guard);
        close(locks).await;
        false
    } else {
        give_back(locks, guard, voice).await
    };
    let (ended, watchdog) = ended?;
    // Only now: it ends when it gets processor time, and nobody has to wait for the lock until then.
    let duty = watchdog.map_or(Duty::Watched, Dismissed::duty);
    let Ended { exit, lost, out_of_reach } = ended.and(duty);
    match lost {
        Some(why) if out_of_reach => {
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
        None => Ok(exit),
    }
}

/// A lease that is granted may be an old one. A command is started only with one that can be renewed in time.
async fn hold_fast(guard: &Guard, timing: Timing) -> Result<(), Failure> {
    if guard.remaining() > timing.needed_at_start() {
        return Ok(());
    }
    match guard.extend().await {
        Ok(_) => Ok(()),
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
    voice: &Voice,
) -> Result<(Ended, Option<Dismissed>), Failure> {
    let failed = |what: &'static str| move |error| Failure::new(Exit::CANNOT_RUN, what).because(&error);
    signals.add_passed_on()?;
    let children = signal(SignalKind::child()).map_err(failed("the end of a command cannot be noticed"))?;
    let sign_of_life = store.sign_of_life().await?;
    let watchdog = Watchdog::start(sign_of_life);
    let mut watchdog = watchdog.map_err(failed("the watchdog cannot be started"))?;
    let words = words(args);
    let command =
        Command::start(&words, guard, url).map_err(failed("this program cannot be started again"))?;
    watchdog.guard(command.group());
    Ok(Supervisor::new(guard.hold(), command, watchdog, timing, voice.clone()).watch(signals, children).await)
}

fn words(args: &RunArgs) -> Vec<OsString> {
    let in_shell = |line: OsString| vec!["/bin/sh".into(), "-c".into(), line];
    match &args.line {
        Some(line) => in_shell(line.clone()),
        None if args.shell => in_shell(args.words().join(OsStr::new(" "))),
        None => args.words().to_vec(),
    }
}

/// What the command is called: of a line for a shell, its first word.
fn program(args: &RunArgs) -> Option<OsString> {
    let first = args.line.as_ref().or_else(|| args.words().first())?;
    if args.line.is_none() && !args.shell {
        return Some(first.clone());
    }
    first.to_string_lossy().split_whitespace().next().map(OsString::from)
}
