//! [`Exit`]: who leaves a session while a create may still be under way.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// So many leave with one transaction: etcd takes 128 operations.
const AT_ONCE: usize = 100;

/// Those for whom the door has to be closed. To close it concerns all of a session, and goes wrong for all but one who
/// try at the same time: so whoever succeeds has done it for everybody who stands here.
#[derive(Debug, Default)]
pub(super) struct Exit(Mutex<Vec<Arc<Leaver>>>);

/// One who leaves.
#[derive(Debug)]
pub(super) struct Leaver {
    key: Vec<u8>,
    /// Whether its key was there, once it is gone.
    gone: OnceLock<bool>,
    /// A request that was not answered may have deleted it.
    perhaps: AtomicBool,
}

impl Leaver {
    /// Whether its key was there, if it is known to have gone. What a request did that was not answered is not found by a
    /// later one (PR10).
    pub(super) fn gone(&self) -> Option<bool> {
        self.gone.get().map(|was_there| *was_there || self.perhaps.load(Ordering::Relaxed))
    }
}

impl Exit {
    /// Joins those who leave, until what this gives is dropped.
    pub(super) fn join(&self, key: &[u8]) -> Leaving<'_> {
        let (gone, perhaps) = (OnceLock::new(), AtomicBool::new(false));
        let leaver = Arc::new(Leaver { key: key.to_vec(), gone, perhaps });
        self.lock().push(Arc::clone(&leaver));
        Leaving { exit: self, leaver }
    }

    /// The keys with which this one leaves: its own, and those of who has waited longest. `None` if it has gone.
    pub(super) fn with(&self, own: &Leaver) -> Option<BTreeSet<Vec<u8>>> {
        let leavers = self.lock();
        if own.gone.get().is_some() {
            return None;
        }
        let mut keys = BTreeSet::from([own.key.clone()]);
        for other in leavers.iter().filter(|other| other.gone.get().is_none()) {
            if keys.len() == AT_ONCE {
                break;
            }
            keys.insert(other.key.clone());
        }
        Some(keys)
    }

    /// These may be gone.
    pub(super) fn are_perhaps_gone(&self, keys: &BTreeSet<Vec<u8>>) {
        for leaver in self.lock().iter().filter(|leaver| keys.contains(&leaver.key)) {
            leaver.perhaps.store(true, Ordering::Relaxed);
        }
    }

    /// This one is gone, and the door is closed behind it.
    pub(super) fn is_gone(&self, key: &[u8], was_there: bool) {
        for leaver in self.lock().iter().filter(|leaver| leaver.key == key) {
            // Once is enough: the first to see it go knows whether it was there.
            let _ = leaver.gone.set(was_there);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Leaver>>> {
        // Nothing panics while it is held, and each change to it is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among those who leave.
#[derive(Debug)]
pub(super) struct Leaving<'a> {
    exit: &'a Exit,
    pub(super) leaver: Arc<Leaver>,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.exit.lock().retain(|leaver| !Arc::ptr_eq(leaver, &self.leaver));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_takes_along_the_others_but_not_more_than_the_store_takes() {
        let exit = Exit::default();
        let all: Vec<_> = (0..150_u8).map(|i| exit.join(&[i])).collect();
        let keys = exit.with(&all[149].leaver).unwrap();
        assert_eq!(keys.len(), 100);
        assert!(keys.contains(&[149_u8][..]) && keys.contains(&[0_u8][..]));
        for key in &keys {
            exit.is_gone(key, true);
        }
        assert_eq!(all.iter().filter(|one| one.leaver.gone() == Some(true)).count(), 100);
        assert_eq!(exit.with(&all[120].leaver).unwrap().len(), 50, "who is gone is not taken along again");
        assert!(exit.with(&all[149].leaver).is_none(), "its key may be somebody else's");
        drop(all);
        assert!(exit.lock().is_empty());
    }

    /// PR10.
    #[test]
    fn what_an_unanswered_request_may_have_deleted_was_there() {
        let exit = Exit::default();
        let [one, other] = [b"one", b"two"].map(|key| exit.join(key));
        exit.are_perhaps_gone(&BTreeSet::from([b"one".to_vec()]));
        assert_eq!(one.leaver.gone(), None);
        exit.is_gone(b"one", false);
        exit.is_gone(b"two", false);
        assert_eq!((one.leaver.gone(), other.leaver.gone()), (Some(true), Some(false)));
    }
}
