//! [`Crowds`]: where others were met.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lock_core::{BootTime, Keeper};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::connection::by;

/// So many names are told apart, more or less.
const NAMES: u64 = 1024;

/// So many looks at one queue are under way at once. Each takes etcd the longer the more stand there, and it answers them
/// one by one: of a thousand that came together the last would be answered after its time limit, and be sent again.
const LOOKS_AT_ONCE: usize = 16;

/// What is known of queues, so that the next request is made for that.
///
/// It is about speed only: whoever is wrong about a queue sends one transaction more, or one that is longer than it need
/// be. So names may share a place, and nothing is kept for a name.
pub(crate) struct Crowds {
    places: Box<[Crowd]>,
    hashes: RandomState,
}

/// What is known of one name.
pub(crate) struct Crowd {
    /// Whether its queue was not empty when it was last seen.
    met: AtomicBool,
    looks: Semaphore,
    /// When somebody was last done with a look.
    moved: Mutex<BootTime>,
}

impl Crowds {
    pub(crate) fn new() -> Self {
        let crowd = || Crowd {
            met: AtomicBool::new(false),
            looks: Semaphore::new(LOOKS_AT_ONCE),
            moved: Mutex::new(BootTime::new(Duration::ZERO)),
        };
        Self { places: (0..NAMES).map(|_| crowd()).collect(), hashes: RandomState::new() }
    }

    /// What is known of a name.
    pub(crate) fn at(&self, name: &str) -> &Crowd {
        // A hash is as good in its last bits.
        &self.places[(self.hashes.hash_one(name) % NAMES) as usize]
    }
}

impl Crowd {
    /// Whether somebody was there.
    pub(crate) fn is_met(&self) -> bool {
        self.met.load(Ordering::Relaxed)
    }

    /// Takes note of whether somebody is there.
    pub(crate) fn note(&self, met: bool) {
        // Mostly nothing changes, and what is only read stays in everybody's cache.
        if self.is_met() != met {
            self.met.store(met, Ordering::Relaxed);
        }
    }

    /// Waits for a turn to look, as long as looks are answered; if none was for `patience`, everybody finds out for
    /// himself what is wrong.
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub(crate) async fn turn(&self, keeper: &Keeper, patience: Duration) -> Turn<'_> {
        let turn = |permit| Turn { crowd: self, keeper: keeper.clone(), permit };
        if let Ok(permit) = self.looks.try_acquire() {
            return turn(Some(permit));
        }
        let mut until = keeper.now() + patience;
        loop {
            if let Some(permit) = by(keeper, until, self.looks.acquire()).await {
                // Nobody closes it.
                return turn(permit.ok());
            }
            // Nothing panics while it is held.
            let moved = *self.moved.lock().unwrap_or_else(PoisonError::into_inner) + patience;
            if moved <= keeper.now() {
                return turn(None);
            }
            until = moved;
        }
    }
}

/// A turn to look at a queue.
pub(crate) struct Turn<'a> {
    crowd: &'a Crowd,
    keeper: Keeper,
    /// Given back when it is dropped. `None` for whoever was tired of waiting.
    permit: Option<SemaphorePermit<'a>>,
}

impl Turn<'_> {
    /// The look was answered.
    pub(crate) fn done(self) {
        if self.permit.is_none() {
            return;
        }
        // Nothing panics while it is held.
        *self.crowd.moved.lock().unwrap_or_else(PoisonError::into_inner) = self.keeper.now();
    }
}

impl fmt::Debug for Crowds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = self.places.iter().filter(|crowd| crowd.is_met()).count();
        f.debug_struct("Crowds").field("met", &met).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_name_is_as_it_was_seen_last_and_free_before() {
        let crowds = Crowds::new();
        assert!(!crowds.at("a").is_met());
        crowds.at("a").note(true);
        assert!(crowds.at("a").is_met());
        crowds.at("a").note(false);
        assert!(!crowds.at("a").is_met());
    }

    #[test]
    fn hardly_any_two_names_share_a_place() {
        let crowds = Crowds::new();
        crowds.at("a").note(true);
        let shared = (0..1000).filter(|i| crowds.at(&format!("b {i}")).is_met()).count();
        assert!(shared < 20, "{shared} of 1000");
    }

    #[tokio::test]
    async fn whoever_has_no_turn_waits_while_looks_are_answered_and_no_longer() {
        const PATIENCE: Duration = Duration::from_millis(200);
        let (crowds, keeper) = (Crowds::new(), Keeper::start().unwrap());
        let crowd = crowds.at("a");
        let mut turns = Vec::new();
        for _ in 0..LOOKS_AT_ONCE {
            turns.push(crowd.turn(&keeper, PATIENCE).await);
        }
        let started = Instant::now();
        let answering = async {
            for _ in 0..4 {
                tokio::time::sleep(PATIENCE / 2).await;
                *crowd.moved.lock().unwrap() = keeper.now();
            }
        };
        let (without, ()) = tokio::join!(crowd.turn(&keeper, PATIENCE), answering);
        assert!(without.permit.is_none());
        assert!(started.elapsed() >= PATIENCE * 2 + PATIENCE, "not while looks were answered");
        turns.pop();
        assert!(crowd.turn(&keeper, PATIENCE).await.permit.is_some());
    }
}
