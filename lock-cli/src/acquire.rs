//! Takes a lock, shows the place in the queue while it waits, and releases the lock.

use std::{ffi::OsStr, path::Path, pin::pin, sync::Arc, time::Duration};

use distlock::{
    AcquireOptions, AcquireProgress, Claim, DistributedLock, EntryId, Error, Guard, Identity, Keeper, Locks,
    Outage, QueueRow, Released,
};
use tokio::time;

use crate::{
    args::{LockArgs, OutagePolicy},
    entry_view::{EntryState, entry_views},
    exit::Exit,
    failure::Failure,
    output::Output,
    render,
    settings::Settings,
    shell::show_command,
    signals::Signals,
};

/// A shorter wait is not shown.
const SHORT_WAIT: Duration = Duration::from_millis(300);

/// How often the shown place is refreshed: at first, and after a while.
const REFRESH_INTERVALS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// How long before the end of a wait the store is asked for the queue: the time limit of a request, and half a second more.
const EARLY_PROBE: Duration = Duration::from_millis(2_500);

/// The lease of a waiter, on stores where only its end shows that the process is dead.
const WAITING_TTL: Duration = Duration::from_secs(10);

/// How long the last answer may take. A store that was away at the early probe gets less: if it is back, it answers immediately.
const LAST_PROBE_TIMEOUT: Duration = Duration::from_secs(1);
const SHORT_PROBE_TIMEOUT: Duration = Duration::from_millis(250);

/// What the store says about the queue, or `None` if it does not answer in time.
type QueueProbe = Option<Result<Vec<QueueRow>, Error>>;

/// The lock to take, and how.
#[derive(Debug)]
pub(crate) struct Request {
    lock: Arc<dyn DistributedLock>,
    options: AcquireOptions,
    only_try: bool,
    verbose: bool,
    /// The address of the store, for messages.
    store: String,
    /// The wait that the user asked for. `options.wait` may be shorter: connecting counts, too.
    wait: Option<Duration>,
}

impl Request {
    /// How to take the lock. Call it before connecting: a mistake is reported while the store is away, too.
    ///
    /// # Errors
    /// What is wrong with the command line or the settings.
    pub(crate) fn options(
        args: &LockArgs,
        settings: &Settings,
        command: Option<&OsStr>,
    ) -> Result<AcquireOptions, Failure> {
        let wrong = |error| Failure::of_input(&error);
        if let Some(of) = args.of {
            Claim::semaphore(args.permits.unwrap_or(1), of).map_err(wrong)?;
        }
        let file = &settings.file;
        let label = args.label.clone().or_else(|| program(command?));
        let mut options = AcquireOptions::new().label(own_label(&label.unwrap_or_default())?);
        options.wait = args.wait.or(file.wait).filter(|_| !args.only_try);
        options.outage = args.outage.map(|outage| match outage {
            OutagePolicy::Wait => Outage::Wait,
            OutagePolicy::Fail => Outage::Fail,
        });
        options.max_hold = args.max_hold;
        options.ttl = args.ttl.or(file.ttl).unwrap_or(options.ttl);
        // On SQLite, waiters notice by themselves that a process has died.
        options.waiting_ttl = (!settings.is_file()).then_some(WAITING_TTL);
        options.validate().map_err(wrong)?;
        Ok(options)
    }

    /// `waited` is the part of the wait that connecting has taken.
    ///
    /// # Errors
    /// If the store does not take such a lock.
    pub(crate) fn new(
        locks: &Locks,
        args: &LockArgs,
        settings: &Settings,
        mut options: AcquireOptions,
        waited: Duration,
    ) -> Result<Self, Failure> {
        let wrong = |error| Failure::of_lock(&error);
        let name = &args.name;
        let lock: Arc<dyn DistributedLock> = match (args.of, args.shared, args.exclusive) {
            (Some(of), ..) => {
                let semaphore = locks.semaphore(name, of).map_err(wrong)?;
                Arc::new(semaphore.permits(args.permits.unwrap_or(1)).map_err(wrong)?)
            }
            (None, true, _) => Arc::new(locks.rwlock(name).map_err(wrong)?.read()),
            (None, _, true) => Arc::new(locks.rwlock(name).map_err(wrong)?.write()),
            (None, false, false) => Arc::new(locks.mutex(name).map_err(wrong)?),
        };
        let wait = options.wait;
        options.wait = wait.map(|wait| wait.saturating_sub(waited));
        let (only_try, verbose, store) = (args.only_try, args.verbose, settings.store_address());
        Ok(Self { lock, options, only_try, verbose, store, wait })
    }

    /// Takes the lock. A signal ends the attempt.
    pub(crate) async fn acquire(&self, signals: &mut Signals, output: &Output) -> Result<Guard, Failure> {
        let progress = AcquireProgress::new();
        let granted = tokio::select! {
            biased;
            signal = signals.next() => Err(Failure::silent(Exit::from_signal(signal))),
            granted = self.take(&progress, output) => granted,
            never = self.show_place(&progress, output) => never,
        };
        output.status("");
        granted
    }

    /// With `--quiet`, only the exit code tells that the lock is busy.
    async fn take(&self, progress: &AcquireProgress, output: &Output) -> Result<Guard, Failure> {
        let (granted, seen) = if self.only_try {
            (self.lock.try_acquire_with(&self.options).await, None)
        } else {
            let (granted, seen) = self.wait(progress).await;
            (granted.map(Some), seen)
        };
        match granted {
            Ok(Some(guard)) => Ok(guard),
            Ok(None) if output.is_quiet() => Err(Failure::silent(Exit::NOT_GRANTED)),
            Ok(None) => {
                let name = self.lock.name();
                let failure = Failure::new(Exit::NOT_GRANTED, format!("lock `{name}` is busy"));
                Err(failure.hint(format!("--wait 30s, or {}", show_command(name))))
            }
            Err(Error::WaitTimeout { waited, .. }) => Err(self.wait_timed_out(waited, seen, output)),
            Err(error) => Err(Failure::of_lock(&error)),
        }
    }

    /// Waits for the lock. At the end of the wait the store is asked for the queue: its answer tells a busy lock from an outage. It is
    /// asked shortly before the end, too, so that an outage that has lasted for a while does not lengthen the wait.
    async fn wait(&self, progress: &AcquireProgress) -> (Result<Guard, Error>, QueueProbe) {
        let mut look = pin!(self.early_probe());
        let mut early = None;
        let granted = {
            let mut acquiring = pin!(self.lock.acquire_observed(&self.options, progress));
            loop {
                tokio::select! {
                    biased;
                    granted = &mut acquiring => break granted,
                    queue = &mut look, if early.is_none() => early = Some(queue),
                }
            }
        };
        if !matches!(granted, Err(Error::WaitTimeout { .. })) {
            return (granted, None);
        }
        let was_away = matches!(&early, Some(Err(error)) if error.is_transient());
        let within = if was_away { SHORT_PROBE_TIMEOUT } else { LAST_PROBE_TIMEOUT };
        let seen = time::timeout(within, self.lock.queue()).await.ok();
        // An earlier error says more than no answer.
        (granted, seen.or(early.filter(|_| was_away)))
    }

    async fn early_probe(&self) -> Result<Vec<QueueRow>, Error> {
        let Some(wait) = self.options.wait else { return std::future::pending().await };
        // The clock that ends the wait: it counts the time that the machine sleeps.
        let keeper = Keeper::shared();
        keeper.sleep_until(keeper.now() + wait.saturating_sub(EARLY_PROBE)).await;
        self.lock.queue().await
    }

    /// Why the wait is over: only a store that answers shows that the lock was busy.
    fn wait_timed_out(&self, waited: Duration, seen: QueueProbe, output: &Output) -> Failure {
        let (name, store) = (self.lock.name(), &self.store);
        let waited = render::duration(self.wait.unwrap_or(waited));
        let mut message = format!("lock `{name}` was not granted within {waited}");
        let queue = match seen {
            None => {
                let failure =
                    Failure::new(Exit::STORE, format!("{message}, and the store {store} does not answer"));
                return failure.hint("distlock doctor");
            }
            Some(Err(error)) if error.is_transient() => {
                let failure = Failure::new(Exit::STORE, format!("{message}, and the store {store} is away"));
                return failure.because(&error).hint("distlock doctor");
            }
            Some(_) if output.is_quiet() => return Failure::silent(Exit::NOT_GRANTED),
            // A user who may take a lock may lack the right to read its queue.
            Some(queue) => queue.unwrap_or_default(),
        };
        if let Some(holders) = holders(&queue) {
            message = format!("{message}; it is held by {holders}");
        }
        let failure = Failure::new(Exit::NOT_GRANTED, message);
        failure.hint(format!("a longer --wait, or {}", show_command(name)))
    }

    /// Shows the place in the queue and the holders: on a terminal all the time, elsewhere once and only with `--verbose`.
    async fn show_place(&self, progress: &AcquireProgress, output: &Output) -> Result<Guard, Failure> {
        let again = output.shows_status();
        if self.only_try || !(again || self.verbose) {
            return std::future::pending().await;
        }
        time::sleep(SHORT_WAIT).await;
        for look in 0_u32.. {
            // An outage is reported by `Progress`.
            if let Ok(queue) = self.lock.queue().await {
                let place = self.place(&queue, progress.entry());
                if !again {
                    output.timed_line(place);
                    break;
                }
                output.status(format!("distlock: {place}"));
            }
            time::sleep(REFRESH_INTERVALS[usize::from(look > 30)]).await;
        }
        std::future::pending().await
    }

    /// Our place in the queue, in a sentence.
    fn place(&self, queue: &[QueueRow], mine: Option<EntryId>) -> String {
        let before = queue.iter().take_while(|row| row.entry != mine);
        let ahead = before.filter(|row| !row.admitted).count();
        let waiting = queue.iter().filter(|row| !row.admitted).count();
        let holders = holders(queue).unwrap_or_else(|| "nobody any more".to_owned());
        let place = if mine.is_some_and(|mine| queue.iter().any(|row| row.entry == Some(mine))) {
            format!("place {} of {waiting} in the queue", ahead + 1)
        } else {
            "not in the queue yet".to_owned()
        };
        format!("waiting for `{}`: {place}; held by {holders}", self.lock.name())
    }
}

/// The label of our entry: the user's words, the host and the process.
fn own_label(words: &str) -> Result<String, Failure> {
    let label = Identity::of_this_process(words).to_string();
    let room = (AcquireOptions::MAX_LABEL + words.len()).saturating_sub(label.len());
    if words.len() > room {
        let message = format!("--label is too long with its {} bytes; use at most {room}", words.len());
        return Err(Failure::new(Exit::USAGE, message));
    }
    Ok(label)
}

/// The holders of the lock, in a sentence.
fn holders(queue: &[QueueRow]) -> Option<String> {
    let rows = entry_views(queue);
    let mut holders = rows.iter().filter(|row| row.state == EntryState::Holding);
    let first = holders.next()?.who();
    Some(match holders.count() {
        0 => first,
        others => format!("{first} and {others} more"),
    })
}

/// Releases a lock. Returns whether it was held until now.
pub(crate) async fn release(locks: &Locks, guard: Guard, output: &Output) -> bool {
    if !guard.is_held() {
        // The lock is lost: there is no need to wait for the store.
        drop(guard);
        close(locks).await;
        return false;
    }
    let name = guard.name().clone();
    let kept = match guard.release().await {
        Ok(Released::Pending { free_within, cause, .. }) => {
            let free = match free_within {
                Some(time) => format!("within {} at the latest", render::duration(time)),
                // Other locks of this process may share its lease, which then ends with the process.
                None => "when its lease ends".to_owned(),
            };
            output.line(format!(
                "the release of lock `{name}` is not confirmed: {} ({cause}); it is free {free}",
                cause.kind()
            ));
            true
        }
        Ok(_) => true,
        Err(_) => false,
    };
    close(locks).await;
    kept
}

/// Removes what this process has in the store, if the store can be reached.
pub(crate) async fn close(locks: &Locks) {
    close_within(locks, Duration::from_secs(1)).await;
}

/// The same after a failed attempt. A store that is away is given only a moment.
pub(crate) async fn close_after_failure(locks: &Locks, failure: &Failure) {
    let is_away = failure.exit() == Exit::STORE;
    close_within(locks, Duration::from_millis(if is_away { 100 } else { 1_000 })).await;
}

async fn close_within(locks: &Locks, within: Duration) {
    // What the store does not confirm in time ends with its lease.
    let _ = locks.close(within).await;
}

fn program(command: &OsStr) -> Option<String> {
    let name = Path::new(command).file_name()?.to_string_lossy();
    Some(name.chars().take(40).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_that_does_not_fit_says_how_many_bytes_do() {
        let failure = own_label(&"x".repeat(256)).unwrap_err().to_string();
        let room: usize = failure.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(failure.contains("256 bytes; use at most "), "{failure}");
        assert!(
            own_label(&"x".repeat(room)).is_ok() && own_label(&"x".repeat(room + 1)).is_err(),
            "{failure}"
        );
    }
}
