//! [`Journal`]: what a client has to say, in at most one line for each cause and second.

use std::{
    collections::{HashMap, hash_map},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    BackendError, BackendErrorKind, BootTime, Clock, Entry, FencingToken, Keeper, LostReason,
    keeper::WeakKeeper, telemetry,
};

/// How long nothing more is said of a cause after a line.
const PAUSE: Duration = Duration::from_secs(1);

/// What many locks and waiters meet at once, told as one. The first is told at once; those that come within a second after a
/// line are counted, and told as the last of them when the second is over.
#[derive(Debug)]
pub(crate) struct Journal {
    clock: Arc<dyn Clock>,
    /// Whoever only watches a lock keeps no thread.
    keeper: WeakKeeper,
    /// The process that connected.
    pid: u32,
    causes: Mutex<HashMap<Cause, Said>>,
}

/// Something that happened, as [`telemetry`] tells it.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Suspect { entry: Arc<Entry>, token: FencingToken, remaining: Duration },
    Recovered { entry: Arc<Entry>, token: FencingToken },
    Lost { entry: Arc<Entry>, token: FencingToken, reason: LostReason, held: Duration },
    PlaceLost { entry: Arc<Entry> },
    StoreAway { entry: Arc<Entry>, verb: &'static str, error: BackendError },
    CleanupAbandoned { entry: Arc<Entry>, error: BackendError },
}

/// What has the same cause is told in the same line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Cause {
    event: mem::Discriminant<Event>,
    verb: &'static str,
    error: Option<mem::Discriminant<BackendErrorKind>>,
    reason: Option<mem::Discriminant<LostReason>>,
}

#[derive(Debug)]
struct Said {
    at: BootTime,
    /// What came since: the last, and how many.
    more: Option<(Event, u64)>,
}

impl Journal {
    pub(crate) fn new(keeper: &Keeper) -> Self {
        let (clock, pid) = (Arc::clone(keeper.clock()), keeper.pid());
        Self { clock, keeper: keeper.downgrade(), pid, causes: Mutex::default() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Tells it, now or together with others. It runs the code of a subscriber: nothing may be locked.
    pub(crate) fn note(self: &Arc<Self>, event: Event) {
        let (cause, now) = (event.cause(), self.clock.now());
        let mut causes = self.lock();
        let said = match causes.entry(cause) {
            hash_map::Entry::Occupied(said) => said.into_mut(),
            hash_map::Entry::Vacant(nothing) => {
                nothing.insert(Said { at: now, more: None });
                drop(causes);
                return event.tell(1);
            }
        };
        let (before, counted) = (said.more.take(), said.at + PAUSE);
        let times = before.as_ref().map_or(0, |(_, times)| *times) + 1;
        if now >= counted {
            said.at = now;
            drop(causes);
            return event.tell(times);
        }
        said.more = Some((event, times));
        drop(causes);
        if before.is_none() {
            self.tell_the_rest(cause, counted);
        }
    }

    /// Sees to it that what is counted is told, although nothing may follow.
    fn tell_the_rest(self: &Arc<Self>, cause: Cause, at: BootTime) {
        // Without one nothing is to come that could be told with it.
        let Some(keeper) = self.keeper.upgrade() else { return };
        let (journal, pause, kept) = (Arc::downgrade(self), keeper.sleep_until(at), keeper.clone());
        keeper.spawn(async move {
            pause.await;
            // Up to here, or nobody would end the pause.
            drop(kept);
            let Some(journal) = journal.upgrade() else { return };
            let mut causes = journal.lock();
            let Some(said) = causes.get_mut(&cause) else { return };
            let Some((event, times)) = said.more.take() else { return };
            said.at = journal.clock.now();
            drop(causes);
            event.tell(times);
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Cause, Said>> {
        // Nothing panics while it is held, and each change to it is whole.
        self.causes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Event {
    fn cause(&self) -> Cause {
        let mut cause = Cause { event: mem::discriminant(self), verb: "", error: None, reason: None };
        match self {
            Self::StoreAway { verb, error, .. } => {
                (cause.verb, cause.error) = (*verb, Some(mem::discriminant(error.kind())));
            }
            Self::CleanupAbandoned { error, .. } => cause.error = Some(mem::discriminant(error.kind())),
            Self::Lost { reason, .. } => cause.reason = Some(mem::discriminant(reason)),
            Self::Suspect { .. } | Self::Recovered { .. } | Self::PlaceLost { .. } => {}
        }
        cause
    }

    /// As one line for so many.
    fn tell(&self, times: u64) {
        match self {
            Self::Suspect { entry, token, remaining } => telemetry::suspect(entry, *token, *remaining, times),
            Self::Recovered { entry, token } => telemetry::recovered(entry, *token, times),
            Self::Lost { entry, token, reason, held } => {
                telemetry::lost(entry, *token, *reason, *held, times);
            }
            Self::PlaceLost { entry } => telemetry::place_lost(entry, times),
            Self::StoreAway { entry, verb, error } => telemetry::store_away(entry, verb, error, times),
            Self::CleanupAbandoned { entry, error } => telemetry::cleanup_abandoned(entry, error, times),
        }
    }
}
