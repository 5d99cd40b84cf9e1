//! [`EventLog`]: the log of a client, with at most one line for each cause and second.

use std::{collections::HashSet, mem, sync::Arc, time::Duration};

use crate::{
    BackendError, BackendErrorKind, Entry, FencingToken, Keeper, LogThrottle, LostReason, keeper::LogWriter,
    telemetry,
};

/// Logs what happens to many locks and waiters at the same time as one line.
#[derive(Debug)]
pub(crate) struct EventLog {
    lines: LogThrottle<Cause>,
    /// The process that connected.
    pid: u32,
}

/// Something that happened, as [`telemetry`] logs it.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Suspect { entry: Arc<Entry>, token: FencingToken, remaining: Duration },
    Recovered { entry: Arc<Entry>, token: FencingToken },
    Lost { entry: Arc<Entry>, token: FencingToken, reason: LostReason, held: Duration },
    PlaceLost { entry: Arc<Entry> },
    StoreAway { entry: Arc<Entry>, verb: &'static str, error: BackendError },
    CleanupAbandoned { entry: Arc<Entry>, error: BackendError },
    KeeperStandsStill { overdue: Duration },
}

/// Events with the same cause share a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Cause {
    event: mem::Discriminant<Event>,
    verb: &'static str,
    error: Option<mem::Discriminant<BackendErrorKind>>,
    reason: Option<mem::Discriminant<LostReason>>,
}

impl EventLog {
    pub(crate) fn new(keeper: &Keeper) -> Self {
        Self { lines: LogThrottle::new(keeper), pid: keeper.pid() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Logs it, now or together with others. Runs the code of a subscriber: nothing may be locked.
    pub(crate) fn note(&self, event: Event) {
        self.lines.note(event.cause(), move |times| event.write(times));
    }

    /// The same for a thread that must not run the code of a subscriber: `writer` writes the lines.
    pub(crate) fn note_on(&self, writer: &Arc<LogWriter>, events: Vec<Event>) {
        let causes: HashSet<_> = events.iter().map(Event::cause).collect();
        for event in events {
            self.lines.count(event.cause(), move |times| event.write(times));
        }
        for cause in causes {
            self.lines.write_counted_on(writer, cause);
        }
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
            Self::Suspect { .. }
            | Self::Recovered { .. }
            | Self::PlaceLost { .. }
            | Self::KeeperStandsStill { .. } => {}
        }
        cause
    }

    /// Writes one line for `times` events.
    fn write(&self, times: Option<u64>) {
        match self {
            Self::Suspect { entry, token, remaining } => telemetry::suspect(entry, *token, *remaining, times),
            Self::Recovered { entry, token } => telemetry::recovered(entry, *token, times),
            Self::Lost { entry, token, reason, held } => {
                telemetry::lost(entry, *token, *reason, *held, times);
            }
            Self::PlaceLost { entry } => telemetry::place_lost(entry, times),
            Self::StoreAway { entry, verb, error } => telemetry::store_away(entry, verb, error, times),
            Self::CleanupAbandoned { entry, error } => telemetry::cleanup_abandoned(entry, error, times),
            Self::KeeperStandsStill { overdue } => telemetry::keeper_stands_still(*overdue, times),
        }
    }
}
