//! [`Rival`]: another client that keeps trying to take a held lock.

use std::time::Duration;

use lock_core::{DistributedLock, Guard, Lock};
use tokio::time::{sleep, timeout};

use crate::{SLACK, audit::safety};

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// Checks that a held lock is not granted to another client. Errors are no failure, since a store in trouble may not answer for a
/// while. But only answers show anything, so it requires a number of them.
#[derive(Debug)]
pub struct Rival<'a> {
    guard: &'a Guard,
    lock: Lock,
    tries: u32,
    answered: u32,
}

impl<'a> Rival<'a> {
    /// How many refusals show that the lock is held.
    pub const ENOUGH: u32 = 20;

    /// A rival of that guard. `lock` is the same lock on another client.
    #[must_use]
    pub fn new(guard: &'a Guard, lock: Lock) -> Self {
        Self { guard, lock, tries: 0, answered: 0 }
    }

    /// Tries once, and sleeps for the pause.
    ///
    /// # Panics
    /// If the lock is granted while the guard holds it.
    pub async fn tries(&mut self) {
        self.tries += 1;
        if let Ok(granted) = self.lock.try_acquire().await {
            self.answered += 1;
            let alone = granted.is_none() || !self.guard.is_held();
            safety(alone, format_args!("`{}` was granted while it was held", self.guard.name()));
        }
        sleep(PAUSE).await;
    }

    /// Tries until [`ENOUGH`](Self::ENOUGH) more tries were answered.
    ///
    /// # Panics
    /// As [`tries`](Self::tries), and if too few are answered within twice the [`SLACK`].
    pub async fn tries_enough(&mut self) {
        self.tries_enough_within(SLACK * 2).await;
    }

    /// Tries while a future runs, and then until [`ENOUGH`](Self::ENOUGH) more tries were answered. Returns the output of the future.
    ///
    /// # Panics
    /// As [`tries_enough`](Self::tries_enough).
    pub async fn tries_while<T>(&mut self, happening: impl Future<Output = T>) -> T {
        let trying = async {
            loop {
                self.tries().await;
            }
        };
        let happened = tokio::select! {
            () = trying => unreachable!("it goes on and on"),
            happened = happening => happened,
        };
        self.tries_enough().await;
        happened
    }

    async fn tries_enough_within(&mut self, patience: Duration) {
        let (tries, answered) = (self.tries, self.answered);
        let trying = async {
            while self.answered < answered + Self::ENOUGH {
                self.tries().await;
            }
        };
        let enough = timeout(patience, trying).await.is_ok();
        let (tries, answered) = (self.tries - tries, self.answered - answered);
        assert!(enough, "of {tries} tries to take `{}` only {answered} were answered", self.guard.name());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lock_core::{Backend, BackendErrorKind, Locks, Memory};

    use super::*;
    use crate::{Fault, Layered, ScriptedFaults, Verb};

    const NAME: &str = "contested";

    #[tokio::test]
    async fn a_rival_that_is_always_refused_is_content() {
        let store = Memory::new();
        let guard = lock(store.clone()).acquire().await.unwrap();
        let mut rival = Rival::new(&guard, lock(store));
        assert_eq!(rival.tries_while(async { "it happened" }).await, "it happened");
        assert!(rival.answered >= Rival::ENOUGH);
    }

    #[tokio::test]
    #[should_panic(expected = "nothing excuses this: `contested` was granted while it was held")]
    async fn a_lock_that_has_two_holders_is_found() {
        let guard = lock(Memory::new()).acquire().await.unwrap();
        Rival::new(&guard, lock(Memory::new())).tries_enough().await;
    }

    #[tokio::test]
    #[should_panic(expected = "only 0 were answered")]
    async fn tries_that_nobody_answers_show_nothing() {
        let (store, faults) = (Memory::new(), ScriptedFaults::default());
        faults.always(Verb::Enter, Fault::FailUnsent(BackendErrorKind::Unavailable));
        let guard = lock(store.clone()).acquire().await.unwrap();
        let silent = lock(Layered::new(Arc::new(store), Arc::new(faults)));
        Rival::new(&guard, silent).tries_enough_within(PAUSE * 10).await;
    }

    fn lock(store: impl Backend) -> Lock {
        Locks::new(store).mutex(NAME).unwrap()
    }
}
