//! `distlock hold`: holds a lock until a signal, or the end of its input.

use std::{
    fs::File,
    io::{IsTerminal, Read},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileTypeExt,
    },
    thread,
};

use distlock::{Guard, escape_unprintable};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::{
    acquire::{Request, close_after_failure, release},
    args::HoldArgs,
    exit::Exit,
    failure::Failure,
    output::Output,
    print,
    progress::Progress,
    ready::ReadyNotifier,
    run::Terminal,
    settings::Settings,
    signals::Signals,
    store::Store,
};

#[derive(Serialize)]
struct HeldLock<'a> {
    name: &'a str,
    /// Text, because JSON loses bits of numbers past 2^53.
    token: String,
    entry: String,
    ttl_ms: u128,
}

pub(crate) async fn hold(args: HoldArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    Progress::subscribe(output);
    // An input that ends while this process waits for the lock counts.
    let end_counts = args.until_eof || can_end();
    let ready = ReadyNotifier::new(args.ready_fd)?;
    let options = Request::options(&args.lock, settings, None)?;
    let mut signals = Signals::terminating()?;
    let (Store { locks, .. }, waited) =
        Store::connect_for(&args.lock, settings, &mut signals, output).await?;
    let request = Request::new(&locks, &args.lock, settings, options, waited)?;
    let guard = match request.acquire(&mut signals, output).await {
        Ok(guard) => guard,
        Err(failure) => {
            close_after_failure(&locks, &failure).await;
            return Err(failure);
        }
    };
    if let Err(failure) = tell(&args, &guard) {
        release(&locks, guard, output).await;
        return Err(failure);
    }
    ready.tell(output);
    let lost = guard.lost();
    let reason = tokio::select! {
        biased;
        reason = lost => Some(reason),
        _ = signals.next() => None,
        () = end_of_input(end_counts) => None,
    };
    let name = guard.name().clone();
    let kept = release(&locks, guard, output).await;
    match reason {
        Some(reason) => Err(Failure::new(Exit::LOST, format!("lock `{name}` was lost: {reason}"))),
        None if !kept => {
            Err(Failure::new(Exit::LOST, format!("lock `{name}` was lost before it was released")))
        }
        None => Ok(Exit::DONE),
    }
}

fn tell(args: &HoldArgs, guard: &Guard) -> Result<(), Failure> {
    let (name, token) = (guard.name(), guard.token());
    if args.json {
        let entry = guard.entry_id().to_string();
        let ttl_ms = guard.ttl().as_millis();
        print::json(&HeldLock { name: name.as_str(), token: token.to_string(), entry, ttl_ms })
    } else {
        print::text(&format!("holding `{}`, token {token}\n", escape_unprintable(&format!("{name}"))))
    }
}

/// Returns when the standard input has ended, if that counts. A background job never reads from its terminal: that would stop it.
async fn end_of_input(counts: bool) {
    if !counts {
        return std::future::pending().await;
    }
    if std::io::stdin().is_terminal() && !Terminal::open().is_some_and(|terminal| terminal.is_ours()) {
        return std::future::pending().await;
    }
    let (end, ended) = oneshot::channel::<()>();
    thread::spawn(move || {
        let mut buffer = [0; 1024];
        // An error counts as the end.
        while std::io::stdin().read(&mut buffer).is_ok_and(|read| read > 0) {}
        drop(end);
    });
    let _ = ended.await;
}

/// Whether the standard input is a terminal, a pipe or a socket, and has not ended yet. systemd gives `/dev/null`, and cron a pipe whose
/// other end is closed.
fn can_end() -> bool {
    let stdin = std::io::stdin();
    let found = stdin.as_fd().try_clone_to_owned().and_then(|stdin| File::from(stdin).metadata());
    let is_pipe = found.map(|found| found.file_type()).is_ok_and(|kind| kind.is_fifo() || kind.is_socket());
    (stdin.is_terminal() || is_pipe) && !has_ended(stdin.as_fd())
}

/// Whether the other end is closed, and nothing is left to read.
fn has_ended(input: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::new(input, PollFlags::POLLIN)];
    // If it fails, nothing is known, and no event is set.
    let _ = poll(&mut polled, PollTimeout::ZERO);
    let found = polled[0].revents().unwrap_or(PollFlags::empty());
    found.contains(PollFlags::POLLHUP) && !found.contains(PollFlags::POLLIN)
}
