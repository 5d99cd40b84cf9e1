//! [`CircuitBreaker`]: while the ensemble cannot be reached, one attempt at a time for all who want a connection.

use std::{future::Future, pin::pin, time::Duration};

use lock_core::{BackOff, BackendErrorKind as Kind, BootTime, Entropy, Keeper, SystemEntropy};
use tokio::{select, sync::watch};

use crate::error::Failure;

/// From one attempt to the next while all fail. A server that is back is found within the longest of them, and one that is away is asked twice
/// in a second at the most, however many wait: a pause is shortened by up to a half.
const PAUSE: BackOff = BackOff { least: Duration::from_millis(100), most: Duration::from_secs(1) };

/// Spaces the attempts to connect while none succeeds, and lets them all through after one that does.
///
/// Connections are opened for sessions that lost theirs, for sessions that are to be closed, and for new ones. Each of these tries again
/// by itself, and new ones are asked for by everybody who waits for a lock: without this, a thousand waiters would knock a thousand times at
/// a server that is about to start. After a failure, all wait for the outcome of the next attempt: they fail as it did, or connect.
#[derive(Debug, Default)]
pub(crate) struct CircuitBreaker(watch::Sender<Option<Outage>>);

#[derive(Debug)]
struct Outage {
    failures: u32,
    last: Failure,
    /// When somebody may try again.
    retry_at: BootTime,
}

#[derive(Debug)]
enum Admission {
    Granted,
    From(BootTime),
    /// Another attempt failed meanwhile.
    Refused(Failure),
}

impl CircuitBreaker {
    /// Makes the attempt, or fails as another one that was made meanwhile.
    pub(crate) async fn attempt<T>(
        &self,
        keeper: &Keeper,
        connect: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.admitted(keeper).await?;
        let connected = connect.await;
        self.learn(keeper.now(), connected.as_ref().err());
        connected
    }

    /// When the next attempt is made, if the last one failed.
    pub(crate) fn retry_at(&self) -> Option<BootTime> {
        self.0.borrow().as_ref().map(|outage| outage.retry_at)
    }

    async fn admitted(&self, keeper: &Keeper) -> Result<(), Failure> {
        let mut changes = self.0.subscribe();
        let failures = changes.borrow_and_update().as_ref().map_or(0, |outage| outage.failures);
        loop {
            match self.admission(keeper.now(), failures) {
                Admission::Granted => return Ok(()),
                Admission::Refused(failure) => return Err(failure),
                Admission::From(retry_at) => {
                    let pause = pin!(keeper.sleep_until(retry_at));
                    select! {
                        () = pause => {}
                        // The sender is ours.
                        _ = changes.changed() => {}
                    }
                }
            }
        }
    }

    /// What is to become of one who has known of so many failures.
    fn admission(&self, now: BootTime, failures: u32) -> Admission {
        let mut admission = Admission::Granted;
        self.0.send_if_modified(|outage| {
            if let Some(outage) = outage {
                if outage.failures > failures {
                    admission = Admission::Refused(outage.last.clone());
                } else if now < outage.retry_at {
                    admission = Admission::From(outage.retry_at);
                } else {
                    // This one may hang: then there is another one a pause later.
                    outage.retry_at = now + pause(outage.failures);
                }
            }
            // Nobody need know of that.
            false
        });
        admission
    }

    fn learn(&self, now: BootTime, failure: Option<&Failure>) {
        // Any other failure was a server's answer.
        let failure = failure.filter(|failure| is_of_connection(failure));
        self.0.send_if_modified(|outage| {
            let failures = outage.as_ref().map_or(0, |outage| outage.failures);
            *outage = failure.map(|failure| {
                let failures = failures.saturating_add(1);
                Outage { failures, last: failure.clone(), retry_at: now + pause(failures) }
            });
            outage.is_some() || failures > 0
        });
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
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use futures_util::future::join_all;

    use super::*;

    fn at(ms: u64) -> BootTime {
        BootTime::new(Duration::from_millis(ms))
    }

    fn away() -> Failure {
        Failure::new(Kind::Unreachable, "nobody there")
    }

    fn is_granted(breaker: &CircuitBreaker, ms: u64, failures: u32) -> bool {
        matches!(breaker.admission(at(ms), failures), Admission::Granted)
    }

    #[test]
    fn an_ensemble_that_is_away_is_asked_twice_a_second_however_many_ask() {
        let breaker = CircuitBreaker::default();
        let mut attempts = 0;
        // Ten thousand ask in ten seconds.
        for ms in 0..10_000 {
            if is_granted(&breaker, ms, attempts) {
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
        assert!(is_granted(&breaker, 100, 1));
        assert!(!is_granted(&breaker, 100, 1), "one at a time");
        breaker.learn(at(101), None);
        assert!((0..100).all(|_| is_granted(&breaker, 101, 1)));
    }

    #[test]
    fn a_server_that_refuses_is_there() {
        let breaker = CircuitBreaker::default();
        breaker.learn(at(0), Some(&away()));
        breaker.learn(at(1), Some(&Failure::session_gone()));
        assert!(is_granted(&breaker, 1, 1));
    }

    #[test]
    fn an_attempt_that_hangs_is_followed_by_the_next_one() {
        let breaker = CircuitBreaker::default();
        breaker.learn(at(0), Some(&away()));
        assert!(is_granted(&breaker, 100, 1));
        assert!(!is_granted(&breaker, 149, 1));
        assert!(is_granted(&breaker, 200, 1));
    }

    #[tokio::test]
    async fn those_who_wait_for_an_attempt_fail_as_it_did_or_connect() {
        let (breaker, keeper) = (CircuitBreaker::default(), Keeper::start().unwrap());
        let attempts = AtomicU32::new(0);
        let connect = async |result: Result<(), Failure>| {
            let connect = async {
                attempts.fetch_add(1, Relaxed);
                result
            };
            breaker.attempt(&keeper, connect).await
        };
        connect(Err(away())).await.unwrap_err();
        let failed = join_all((0..100).map(|_| connect(Err(away())))).await;
        assert!(
            failed.iter().all(|failed| failed.as_ref().is_err_and(|why| why.to_string() == "nobody there"))
        );
        assert_eq!(attempts.load(Relaxed), 2, "one of its own, and one for a hundred");
        let connected = join_all((0..100).map(|_| connect(Ok(())))).await;
        assert!(connected.iter().all(Result::is_ok));
    }
}
