//! [`Paced`]: what happens again and again, in at most one line for each cause and second.

use std::{
    collections::{HashMap, hash_map},
    fmt,
    hash::Hash,
    sync::Arc,
    time::Duration,
};

use crate::{BootTime, Clock, Keeper, keeper::WeakKeeper, panic_isolation::isolate, sync::Mutex};

/// How long nothing more is said of a cause after a line.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells people what many waiters, locks or connections meet at once as one line. The first is told at once; those that come
/// within a second after a line are counted, and told as the last of them when the second is over.
///
/// A cause (`C`) is one of a few, as a verb or a kind of error: what has the same cause is told in the same line. Not a name, a
/// session or a connection, for causes are kept until this is dropped. Clones share what they have told.
///
/// ```
/// use lock_core::{Keeper, Paced};
///
/// let lines: Paced<&str> = Paced::new(&Keeper::shared());
/// for session in 1..=3 {
///     // Told are the first, and a second later the third, with `times=2`.
///     lines.note("not proved", move |times| tracing::warn!(session, times, "a session is not proved alive"));
/// }
/// ```
///
/// ### To ensure correctness
/// [`note`](Self::note) runs the code of a log subscriber: nothing may be locked that it could come back for.
pub struct Paced<C>(Arc<Inner<C>>);

struct Inner<C> {
    clock: Arc<dyn Clock>,
    /// Whoever only watches a lock keeps no thread.
    keeper: WeakKeeper,
    causes: Mutex<HashMap<C, Said>>,
}

struct Said {
    at: BootTime,
    /// What came since: the last, and how many.
    more: Option<(Tell, u64)>,
}

type Tell = Box<dyn FnOnce(Option<u64>) + Send>;

impl<C: Clone + Eq + Hash + Send + 'static> Paced<C> {
    /// Nothing is told yet. The keeper's clock counts the seconds, and what is counted is told on its thread; it is not kept alive
    /// by this.
    #[must_use]
    pub fn new(keeper: &Keeper) -> Self {
        let (clock, keeper) = (Arc::clone(keeper.clock()), keeper.downgrade());
        Self(Arc::new(Inner { clock, keeper, causes: Mutex::default() }))
    }

    /// Tells it, now or together with others of that cause. `tell` writes the line, and is given how many things it tells of if
    /// they are more than one: the value of the field `times`. A panic in it ends there.
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

    /// Sees to it that what is counted is told, although nothing may follow.
    fn tell_the_rest(&self, cause: C, at: BootTime) {
        // Without one nothing is to come that could be told with it.
        let Some(keeper) = self.0.keeper.upgrade() else { return };
        let (lines, pause, kept) = (Arc::downgrade(&self.0), keeper.sleep_until(at), keeper.clone());
        keeper.spawn(async move {
            pause.await;
            // Up to here, or nobody would end the pause.
            drop(kept);
            let Some(lines) = lines.upgrade() else { return };
            let mut causes = lines.causes.lock();
            let Some(said) = causes.get_mut(&cause) else { return };
            let Some((tell, times)) = said.more.take() else { return };
            said.at = lines.clock.now();
            drop(causes);
            isolate(|| tell(many(times)));
        });
    }
}

/// The number of what a line tells of, if it is more than one.
fn many(times: u64) -> Option<u64> {
    (times > 1).then_some(times)
}

impl<C> Clone for Paced<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> fmt::Debug for Paced<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paced").finish_non_exhaustive()
    }
}
