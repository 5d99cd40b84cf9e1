//! [`LogThrottle`]: logs repeated events in at most one line for each cause and second.

use std::{
    collections::{HashMap, hash_map},
    fmt,
    hash::Hash,
    mem,
    sync::Arc,
    thread,
    time::Duration,
};

use crate::{
    BootTime, Clock, Keeper,
    keeper::{LogWriter, WeakKeeper},
    linger::may_block,
    panic_isolation::isolate,
    sync::Mutex,
};

/// How long a cause is silent after a line.
const PAUSE: Duration = Duration::from_secs(1);

/// Logs what happens to many waiters, locks or connections at the same time as one line. The first event is logged immediately. Those within a
/// second after a line are counted, and logged as one line when the second is over: the line of the last event.
///
/// Events with the same cause (`C`) share a line. There should be few causes, such as a verb or a kind of error, and not a name, a session
/// or a connection: causes are kept until this is dropped. Clones share what they have logged. When the last one is dropped, what is counted
/// is logged at once; on a thread that runs tasks, the keeper does it, unless it has ended.
///
/// ```
/// use lock_core::{Keeper, LogThrottle};
///
/// let lines: LogThrottle<&str> = LogThrottle::new(&Keeper::shared());
/// for session in 1..=3 {
///     // Logs the first, and a second later the third, with `times=2`.
///     lines.note("not proved", move |times| tracing::warn!(session, times, "a session is not proved alive"));
/// }
/// ```
///
/// ### To ensure correctness
/// [`note`](Self::note) and the drop of the last clone run the code of a log subscriber: nothing may be locked that it could come back for.
pub struct LogThrottle<C>(Arc<Inner<C>>);

struct Inner<C> {
    clock: Arc<dyn Clock>,
    /// Weak, because a hold that outlives its guard must not keep the thread.
    keeper: WeakKeeper,
    /// The process of the keeper.
    pid: u32,
    causes: Mutex<HashMap<C, Said>>,
}

struct Said {
    at: BootTime,
    /// What came since: how to log the last event, and how many there were.
    more: Option<(Tell, u64)>,
}

type Tell = Box<dyn FnOnce(Option<u64>) + Send>;

impl<C: Clone + Eq + Hash + Send + 'static> LogThrottle<C> {
    /// Nothing is logged yet. The keeper's clock counts the seconds, and its thread logs what was counted; it is not kept alive
    /// by this.
    #[must_use]
    pub fn new(keeper: &Keeper) -> Self {
        let (clock, pid, keeper) = (Arc::clone(keeper.clock()), keeper.pid(), keeper.downgrade());
        Self(Arc::new(Inner { clock, keeper, pid, causes: Mutex::default() }))
    }

    /// Logs an event, now or together with others of that cause. `tell` writes the line, and receives for how many events it stands, if
    /// they are more than one: the value of the field `times`. A panic in it goes no further.
    pub fn note(&self, cause: C, tell: impl FnOnce(Option<u64>) + Send + 'static) {
        let now = self.0.clock.now();
        let mut causes = self.0.causes.lock();
        let said = match causes.entry(cause.clone()) {
            hash_map::Entry::Occupied(said) => said.into_mut(),
            hash_map::Entry::Vacant(nothing) => {
                nothing.insert(Said { at: now, more: None });
                drop(causes);
                return isolate(|| tell(None));
            }
        };
        let (before, counted) = (said.more.take(), said.at + PAUSE);
        let times = before.as_ref().map_or(0, |(_, times)| *times) + 1;
        if now >= counted {
            said.at = now;
            drop(causes);
            return isolate(|| tell(many(times)));
        }
        said.more = Some((Box::new(tell), times));
        drop(causes);
        if before.is_none() {
            self.tell_the_rest(cause, counted);
        }
    }

    /// Only counts an event, for a thread that must not run the code of a subscriber. Another one has to
    /// [write](Self::write_counted_on) the line.
    pub(crate) fn count(&self, cause: C, tell: impl FnOnce(Option<u64>) + Send + 'static) {
        let now = self.0.clock.now();
        let mut causes = self.0.causes.lock();
        let said = causes.entry(cause).or_insert(Said { at: now - PAUSE, more: None });
        let before = said.more.take();
        let times = before.as_ref().map_or(0, |(_, times)| *times) + 1;
        said.more = Some((Box::new(tell), times));
        drop(causes);
    }

    /// Has `writer` log what is counted of a cause, when the second after its last line is over. Nothing is kept alive meanwhile: what is
    /// counted when the last clone is dropped is logged then.
    pub(crate) fn write_counted_on(&self, writer: &Arc<LogWriter>, cause: C) {
        let lines = Arc::downgrade(&self.0);
        writer.write(move || {
            while let Some(left) = lines.upgrade().and_then(|lines| lines.write_counted(&cause)) {
                thread::sleep(left);
            }
        });
    }

    /// Has the keeper log what is counted, because no other event may follow.
    fn tell_the_rest(&self, cause: C, at: BootTime) {
        // Without a keeper no other event can follow.
        let Some(keeper) = self.0.keeper.upgrade() else { return };
        let (lines, pause, kept) = (Arc::downgrade(&self.0), keeper.sleep_until(at), keeper.clone());
        keeper.spawn(async move {
            pause.await;
            // The keeper is kept until here: without it the pause would not end.
            drop(kept);
            if let Some(lines) = lines.upgrade() {
                lines.write(&cause);
            }
        });
    }
}

impl<C: Eq + Hash> Inner<C> {
    /// Logs what is counted of a cause.
    fn write(&self, cause: &C) {
        let mut causes = self.causes.lock();
        let Some(said) = causes.get_mut(cause) else { return };
        let Some((tell, times)) = said.more.take() else { return };
        said.at = self.clock.now();
        drop(causes);
        isolate(|| tell(many(times)));
    }

    /// Logs what is counted of a cause, or returns how long the second after its last line still lasts. `None` if nothing is counted any
    /// more.
    fn write_counted(&self, cause: &C) -> Option<Duration> {
        let mut causes = self.causes.lock();
        let said = causes.get_mut(cause).filter(|said| said.more.is_some())?;
        let now = self.clock.now();
        let left = (said.at + PAUSE).since(now);
        if !left.is_zero() {
            return Some(left);
        }
        let (tell, times) = said.more.take()?;
        said.at = now;
        drop(causes);
        isolate(|| tell(many(times)));
        None
    }
}

impl<C> Drop for Inner<C> {
    fn drop(&mut self) {
        let causes = mem::take(self.causes.get_mut());
        let counted: Vec<_> = causes.into_values().filter_map(|said| said.more).collect();
        // In a fork they are the parent's.
        if counted.is_empty() || self.pid != std::process::id() {
            return;
        }
        let write = move || counted.into_iter().for_each(|(tell, times)| isolate(|| tell(many(times))));
        // A keeper that has ended drops what it is given.
        match self.keeper.upgrade().filter(|keeper| !may_block() && !keeper.has_ended()) {
            Some(keeper) => {
                let kept = keeper.clone();
                keeper.spawn(async move {
                    write();
                    drop(kept);
                });
            }
            None => write(),
        }
    }
}

/// For how many events a line stands, if they are more than one.
fn many(times: u64) -> Option<u64> {
    (times > 1).then_some(times)
}

impl<C> Clone for LogThrottle<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> fmt::Debug for LogThrottle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogThrottle").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_is_only_counted_is_written_later_as_one_line_a_second() {
        let keeper = Keeper::start().unwrap();
        let (lines, written) = (LogThrottle::new(&keeper), Arc::<Mutex<Vec<_>>>::default());
        let count = |number: u32| {
            let written = Arc::clone(&written);
            lines.count("lost", move |times| written.lock().push((number, times)));
        };
        let write = || {
            while let Some(left) = lines.0.write_counted(&"lost") {
                thread::sleep(left);
            }
        };
        (1..=3).for_each(count);
        assert!(written.lock().is_empty());
        let start = keeper.now();
        write();
        assert_eq!(*written.lock(), [(3, Some(3))]);
        count(4);
        write();
        assert_eq!(written.lock()[1..], [(4, None)]);
        assert!(keeper.now().since(start) >= PAUSE, "a second line within a second");
        write();
        assert_eq!(written.lock().len(), 2, "there was nothing to write");
    }

    /// A service that ends when it is told of a loss: the line must not wait for a thread that ends with the process.
    #[test]
    fn what_a_log_writer_has_not_written_is_written_when_the_last_clone_goes() {
        let (keeper, writer) = (Keeper::start().unwrap(), Arc::new(LogWriter::default()));
        let (go_on, blocked) = mpsc::channel::<()>();
        writer.write(move || {
            // The line after it waits.
            let _ = blocked.recv();
        });
        let (lines, written) = (LogThrottle::new(&keeper), Arc::<Mutex<Vec<_>>>::default());
        let line = Arc::clone(&written);
        lines.count("lost", move |times| line.lock().push(times));
        lines.write_counted_on(&writer, "lost");
        drop(lines);
        assert_eq!(*written.lock(), [None]);
        drop(go_on);
    }
}
