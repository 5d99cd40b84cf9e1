//! [`Paced`]: what happens to many sessions at once, in at most one line for each cause and second.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use lock_core::{BootTime, Keeper};

/// How long nothing more is said of a cause after a line.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells the first at once. Those that come within a second after a line are counted, and told as the last of them when the second is
/// over. Clones share what they have told.
#[derive(Clone)]
pub(crate) struct Paced(Arc<Inner>);

struct Inner {
    keeper: Keeper,
    causes: Mutex<BTreeMap<&'static str, Said>>,
}

struct Said {
    at: BootTime,
    /// What came since: the last, and how many.
    more: Option<(Tell, u64)>,
}

type Tell = Box<dyn FnOnce(Option<u64>) + Send>;

impl Paced {
    pub(crate) fn new(keeper: &Keeper) -> Self {
        Self(Arc::new(Inner { keeper: keeper.clone(), causes: Mutex::default() }))
    }

    /// `tell` writes the line, and is given how many things it tells of if they are more than one. It runs the code of a subscriber:
    /// nothing may be locked.
    pub(crate) fn note(&self, cause: &'static str, tell: impl FnOnce(Option<u64>) + Send + 'static) {
        let (now, mut causes) = (self.0.keeper.now(), self.0.lock());
        let Some(said) = causes.get_mut(cause) else {
            causes.insert(cause, Said { at: now, more: None });
            drop(causes);
            return tell(None);
        };
        let (before, counted) = (said.more.take(), said.at + PAUSE);
        let times = before.as_ref().map_or(0, |(_, times)| *times) + 1;
        if now >= counted {
            said.at = now;
            drop(causes);
            return tell(many(times));
        }
        said.more = Some((Box::new(tell), times));
        drop(causes);
        if before.is_none() {
            self.tell_the_rest(cause, counted);
        }
    }

    /// Sees to it that what is counted is told, although nothing may follow.
    fn tell_the_rest(&self, cause: &'static str, at: BootTime) {
        let (inner, pause) = (Arc::downgrade(&self.0), self.0.keeper.sleep_until(at));
        self.0.keeper.spawn(async move {
            pause.await;
            let Some(inner) = inner.upgrade() else { return };
            let mut causes = inner.lock();
            let Some(said) = causes.get_mut(cause) else { return };
            let Some((tell, times)) = said.more.take() else { return };
            said.at = inner.keeper.now();
            drop(causes);
            tell(many(times));
        });
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Said>> {
        // Nothing panics while it is held, and each change to it is whole.
        self.causes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn many(times: u64) -> Option<u64> {
    (times > 1).then_some(times)
}

impl fmt::Debug for Paced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paced").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_crowd_is_told_of_at_once_and_a_second_later() {
        let (keeper, (told, lines)) = (Keeper::start().unwrap(), channel());
        let paced = Paced::new(&keeper);
        let began = keeper.now();
        for i in 0..1_000 {
            let told = told.clone();
            paced.note("away", move |times| told.send((i, times)).unwrap());
        }
        paced.note("lost", move |times| told.send((-1, times)).unwrap());
        let next = || lines.recv_timeout(Duration::from_secs(20)).unwrap();
        let mut seen = [next(), next(), next()];
        seen.sort_unstable();
        // On a machine that stood still, some seconds have passed, and as many lines.
        assert_eq!((seen[0], seen[1]), ((-1, None), (0, None)));
        if keeper.now() < began + PAUSE * 2 {
            assert_eq!(seen[2], (999, Some(999)));
            assert!(keeper.now() >= began + PAUSE);
        }
        keeper.stop();
    }
}
