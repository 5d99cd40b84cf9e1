//! [`CircuitBreaker`]: while the ensemble cannot be reached, one attempt at a time for all who want a connection.

use std::{
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use lock_core::{BackOff, BackendErrorKind as Kind, BootTime, Entropy, Keeper, SystemEntropy};

use crate::error::Failure;

/// From one attempt to the next while all fail. A server that is back is found within the longest of them, and one that is away is asked twice
/// in a second at the most, however many wait: a pause is shortened by up to a half.
const PAUSE: BackOff = BackOff { least: Duration::from_millis(100), most: Duration::from_secs(1) };

/// Spaces the attempts to connect while none succeeds, and lets them all through after one that does.
///
/// Connections are opened for sessions that lost theirs, for sessions that are to be closed, and for new ones. Each of these tries again
/// by itself, and new ones are asked for by everybody who waits for a lock: without this, a thousand waiters would knock a thousand times at
/// a server that is about to start. An attempt within the pause after a failure is not made, and fails as the last one did.
#[derive(Debug, Default)]
pub(crate) struct CircuitBreaker(Mutex<Option<Outage>>);

#[derive(Debug)]
struct Outage {
    failures: u32,
    last: Failure,
    /// When somebody may try again.
    retry_at: BootTime,
}

impl CircuitBreaker {
    /// Makes the attempt, unless one has just failed.
    pub(crate) async fn attempt<T>(
        &self,
        keeper: &Keeper,
        connect: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.admit(keeper.now())?;
        let connected = connect.await;
        self.learn(keeper.now(), connected.as_ref().err());
        connected
    }

    /// When the next attempt is made, if the last one failed.
    pub(crate) fn retry_at(&self) -> Option<BootTime> {
        self.lock().as_ref().map(|outage| outage.retry_at)
    }

    /// Lets one through, and the next one a pause later: this one may hang.
    fn admit(&self, now: BootTime) -> Result<(), Failure> {
        match &mut *self.lock() {
            Some(outage) if now < outage.retry_at => Err(outage.last.clone()),
            Some(outage) => {
                outage.retry_at = now + pause(outage.failures);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn learn(&self, now: BootTime, failure: Option<&Failure>) {
        let mut outage = self.lock();
        // Any other failure was a server's answer.
        *outage = failure.filter(|failure| is_of_connection(failure)).map(|failure| {
            let failures = outage.as_ref().map_or(0, |outage| outage.failures).saturating_add(1);
            Outage { failures, last: failure.clone(), retry_at: now + pause(failures) }
        });
    }

    fn lock(&self) -> MutexGuard<'_, Option<Outage>> {
        // Nothing panics while it is held, and each change to it is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether nobody answered.
pub(crate) fn is_of_connection(failure: &Failure) -> bool {
    matches!(failure.kind(), Kind::Unreachable | Kind::TimedOut)
}

fn pause(failures: u32) -> Duration {
    PAUSE.pause(failures, SystemEntropy.bits() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> BootTime {
        BootTime::new(Duration::from_millis(ms))
    }

    fn away() -> Failure {
        Failure::new(Kind::Unreachable, "nobody there")
    }

    #[test]
    fn an_ensemble_that_is_away_is_asked_twice_a_second_however_many_ask() {
        let breaker = CircuitBreaker::default();
        let mut attempts = 0;
        // Ten thousand ask in ten seconds.
        for ms in 0..10_000 {
            if breaker.admit(at(ms)).is_ok() {
                attempts += 1;
                breaker.learn(at(ms), Some(&away()));
            }
        }
        assert!((10..=24).contains(&attempts), "{attempts} attempts in 10 s");
    }

    #[test]
    fn after_one_success_everybody_connects_at_once() {
        let breaker = CircuitBreaker::default();
        breaker.learn(at(0), Some(&away()));
        assert_eq!(breaker.admit(at(1)).unwrap_err().to_string(), "nobody there");
        let retry_at = breaker.retry_at().unwrap();
        breaker.admit(retry_at).unwrap();
        assert!(breaker.admit(retry_at).is_err(), "one at a time");
        breaker.learn(retry_at, None);
        for _ in 0..100 {
            breaker.admit(retry_at).unwrap();
        }
        assert_eq!(breaker.retry_at(), None);
    }

    #[test]
    fn a_server_that_refuses_is_there() {
        let breaker = CircuitBreaker::default();
        breaker.learn(at(0), Some(&away()));
        breaker.learn(at(1), Some(&Failure::session_gone()));
        breaker.admit(at(1)).unwrap();
    }

    #[test]
    fn an_attempt_that_hangs_is_followed_by_the_next_one() {
        let breaker = CircuitBreaker::default();
        breaker.learn(at(0), Some(&away()));
        breaker.admit(at(100)).unwrap();
        assert!(breaker.admit(at(149)).is_err());
        breaker.admit(at(200)).unwrap();
    }
}
