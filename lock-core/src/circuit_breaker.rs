//! [`CircuitBreaker`]: while a server cannot be reached, all callers share one attempt to connect at a time.

use std::{fmt, future::Future, time::Duration};

use tokio::sync::watch;

use crate::{BootTime, Entropy, Keeper, SystemEntropy};

/// The pause after the first failure. Each of the next ones is twice as long.
const LEAST: Duration = Duration::from_millis(50);

/// The longest pause, without its jitter. So a server that is away is asked at most twice a second, and a lock with a ttl of two seconds is
/// renewed in time if the server is away for less than half of that.
const MOST: Duration = Duration::from_millis(500);

/// Up to this part of a pause is added at random, so that processes which failed together do not come back together.
const JITTER: u32 = 4;

/// Spaces the attempts to connect to a server while none succeeds, and lets all of them through after one that does.
///
/// Every waiter asks for a connection, and tries again by itself: without a circuit breaker, a thousand waiters would connect a thousand
/// times to a server that is about to start. After a failure, all callers wait for the outcome of the next attempt: they fail with it, or
/// connect. A caller does not share the outcome of an attempt that began before it called, because the server may have come back since. The
/// pauses between two attempts are 50, 100, 200, 400 and then always 500 ms, and up to a quarter longer at random. While nothing has
/// failed, no caller waits.
///
/// Use one for each server, for all connections to it. `F` is the backend's error. The backend says which errors mean that the server is
/// away; any other error is an answer of the server, and ends the outage like a success.
///
/// ```
/// use lock_core::{CircuitBreaker, Keeper};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (breaker, keeper) = (CircuitBreaker::<&str>::new(|failure| *failure == "nobody there"), Keeper::shared());
///
/// let failed = breaker.attempt(&keeper, async { Err::<(), _>("nobody there") }).await;
/// assert_eq!(failed, Err("nobody there"));
/// // A pause later:
/// assert_eq!(breaker.attempt(&keeper, async { Ok("a connection") }).await, Ok("a connection"));
/// # }
/// ```
pub struct CircuitBreaker<F> {
    state: watch::Sender<State<F>>,
    counts: fn(&F) -> bool,
    longest: Duration,
}

struct State<F> {
    /// How many attempts have begun. That is also the number of the last one.
    begun: u64,
    outage: Option<Outage<F>>,
}

struct Outage<F> {
    failures: u32,
    /// When the next attempt may begin.
    retry_at: BootTime,
    last: F,
    /// The latest attempt that failed.
    failed: u64,
    /// How many attempts had begun when a failure was counted: if those fail later, they are not counted again.
    counted: u64,
}

enum Admission<F> {
    /// The attempt has this number.
    Granted(u64),
    NotBefore(BootTime),
    /// Another attempt failed meanwhile.
    Refused(F),
}

impl<F: Clone + Send + Sync> CircuitBreaker<F> {
    /// Nothing has failed yet. `counts` decides whether a failure means that the server is away.
    #[must_use]
    pub fn new(counts: fn(&F) -> bool) -> Self {
        let state = watch::Sender::new(State { begun: 0, outage: None });
        Self { state, counts, longest: MOST + MOST / JITTER }
    }

    /// Bounds the pauses: for clients whose time limits are so short that no time would be left for the attempt itself.
    #[must_use]
    pub fn with_longest_pause(mut self, longest: Duration) -> Self {
        self.longest = self.longest.min(longest);
        self
    }

    /// Waits for its turn and makes the attempt, or fails with the error of another attempt that was made meanwhile.
    ///
    /// Its turn comes a pause later at the latest, unless other attempts hang. A time limit inside `connect` starts at its turn:
    /// `connect` is not polled before.
    ///
    /// # Errors
    /// The error of this attempt, or a copy of that of another one.
    ///
    /// # Cancel safety
    /// Dropping the future drops the attempt. If it was its turn, the next caller has its turn a pause later, as if this attempt hung.
    pub async fn attempt<T: Send>(
        &self,
        keeper: &Keeper,
        connect: impl Future<Output = Result<T, F>> + Send,
    ) -> Result<T, F> {
        let attempt = self.admitted(keeper).await?;
        let connected = connect.await;
        self.record(keeper.now(), attempt, connected.as_ref().err());
        connected
    }

    /// When the next attempt may be made, if the last one failed. `None` if no caller has to wait.
    #[must_use]
    pub fn retry_at(&self) -> Option<BootTime> {
        self.state.borrow().outage.as_ref().map(|outage| outage.retry_at)
    }

    /// Waits for the turn of a caller that comes now, and returns the number of its attempt.
    async fn admitted(&self, keeper: &Keeper) -> Result<u64, F> {
        let mut changes = self.state.subscribe();
        let known = changes.borrow_and_update().begun;
        loop {
            match self.admission(keeper.now(), known) {
                Admission::Granted(attempt) => return Ok(attempt),
                Admission::Refused(failure) => return Err(failure),
                Admission::NotBefore(retry_at) => {
                    // Whichever comes first. The sender is ours, so that a change is no error.
                    keeper.timeout_at(retry_at, changes.changed()).await;
                }
            }
        }
    }

    /// What a caller has to do that came when `known` attempts had begun.
    fn admission(&self, now: BootTime, known: u64) -> Admission<F> {
        let mut admission = Admission::NotBefore(now);
        self.state.send_if_modified(|state| {
            admission = match &mut state.outage {
                Some(outage) if outage.failed > known => Admission::Refused(outage.last.clone()),
                Some(outage) if now < outage.retry_at => Admission::NotBefore(outage.retry_at),
                outage => {
                    if let Some(outage) = outage {
                        // This attempt may hang, or be dropped: then there is another one a pause later.
                        outage.retry_at = now + self.pause(outage.failures);
                    }
                    state.begun += 1;
                    Admission::Granted(state.begun)
                }
            };
            // No waiting caller need wake for that.
            false
        });
        admission
    }

    /// Records the outcome of an attempt.
    fn record(&self, now: BootTime, attempt: u64, failure: Option<&F>) {
        let failure = failure.filter(|failure| (self.counts)(failure));
        self.state.send_if_modified(|state| {
            let Some(failure) = failure else { return state.outage.take().is_some() };
            let begun = state.begun;
            let outage = state.outage.get_or_insert_with(|| Outage {
                failures: 0,
                retry_at: now,
                last: failure.clone(),
                failed: 0,
                counted: 0,
            });
            outage.last = failure.clone();
            outage.failed = outage.failed.max(attempt);
            // Attempts that were made at the same time count as one failure.
            if attempt > outage.counted {
                outage.failures = outage.failures.saturating_add(1);
                outage.retry_at = now + self.pause(outage.failures);
                outage.counted = begun;
            }
            true
        });
    }

    fn pause(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        let least = LEAST.saturating_mul(1 << doublings).min(MOST);
        let random = (SystemEntropy.bits() >> 96) as u32;
        let more = (least / JITTER).mul_f64(f64::from(random) / f64::from(u32::MAX));
        (least + more).min(self.longest)
    }
}

impl<F: Clone + Send + Sync> fmt::Debug for CircuitBreaker<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreaker").field("retry_at", &self.retry_at()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        sync::atomic::{AtomicU32, Ordering::Relaxed},
    };

    use futures_util::{FutureExt, future::join_all};

    use super::*;

    /// Only this one is the failure of a server that is away.
    const AWAY: &str = "nobody there";
    const DENIED: &str = "denied";

    fn breaker() -> CircuitBreaker<&'static str> {
        CircuitBreaker::new(|failure| *failure == AWAY)
    }

    fn at(ms: u64) -> BootTime {
        BootTime::new(Duration::from_millis(ms))
    }

    /// The number of the attempt, if a caller that comes now may make it.
    fn ask(breaker: &CircuitBreaker<&'static str>, ms: u64) -> Option<u64> {
        let known = breaker.state.borrow().begun;
        match breaker.admission(at(ms), known) {
            Admission::Granted(attempt) => Some(attempt),
            _ => None,
        }
    }

    #[test]
    fn a_server_that_is_away_is_asked_twice_a_second_however_many_ask() {
        let breaker = breaker();
        let mut attempts: Vec<u64> = Vec::new();
        // Ten thousand ask in ten seconds.
        for ms in 0..10_000 {
            if let Some(attempt) = ask(&breaker, ms) {
                attempts.push(ms);
                breaker.record(at(ms), attempt, Some(&AWAY));
            }
        }
        let late = attempts.iter().filter(|ms| **ms >= 1000).count();
        assert!((14..=18).contains(&late), "{attempts:?}");
        assert!((4..=5).contains(&(attempts.len() - late)), "{attempts:?}");
        assert!(attempts.windows(2).all(|pair| pair[1] - pair[0] <= 626), "{attempts:?}");
    }

    #[test]
    fn after_one_success_all_connect_at_once() {
        let breaker = breaker();
        breaker.record(at(0), ask(&breaker, 0).unwrap(), Some(&AWAY));
        assert_eq!(ask(&breaker, 49), None);
        let attempt = ask(&breaker, 63).unwrap();
        assert_eq!(ask(&breaker, 63), None, "one at a time");
        breaker.record(at(64), attempt, None);
        assert!((0..100).all(|_| ask(&breaker, 64).is_some()));
        assert_eq!(breaker.retry_at(), None);
    }

    #[test]
    fn a_server_that_refuses_is_there() {
        let breaker = breaker();
        let (one, other) = (ask(&breaker, 0).unwrap(), ask(&breaker, 0).unwrap());
        breaker.record(at(0), one, Some(&AWAY));
        assert_eq!(ask(&breaker, 1), None);
        breaker.record(at(1), other, Some(&DENIED));
        assert!(ask(&breaker, 1).is_some());
    }

    #[test]
    fn attempts_that_fail_at_the_same_time_count_once() {
        let breaker = breaker();
        let attempts: Vec<_> = (0..100).map(|_| ask(&breaker, 0).unwrap()).collect();
        for attempt in attempts {
            breaker.record(at(0), attempt, Some(&AWAY));
        }
        let next = ask(&breaker, 63).expect("the pause is that after one failure");
        breaker.record(at(63), next, Some(&AWAY));
        assert_eq!(ask(&breaker, 162), None, "and the next one is twice as long");
    }

    #[test]
    fn an_attempt_that_began_before_a_caller_came_says_nothing_to_it() {
        let breaker = breaker();
        breaker.record(at(0), ask(&breaker, 0).unwrap(), Some(&AWAY));
        let before = breaker.state.borrow().begun;
        let attempt = ask(&breaker, 63).unwrap();
        let since = breaker.state.borrow().begun;
        breaker.record(at(64), attempt, Some(&AWAY));
        assert!(matches!(breaker.admission(at(65), before), Admission::Refused(AWAY)));
        assert!(matches!(breaker.admission(at(65), since), Admission::NotBefore(_)));
        assert!(matches!(breaker.admission(at(200), since), Admission::Granted(_)));
    }

    /// Clients that failed together would otherwise come back together.
    #[test]
    fn pauses_differ_by_chance_and_by_a_quarter_at_most() {
        let breaker = breaker();
        let pauses: Vec<Duration> = (0..64).map(|_| breaker.pause(1)).collect();
        let (shortest, longest) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
        assert!(*shortest >= LEAST && *longest <= LEAST + LEAST / JITTER, "{pauses:?}");
        // By chance, this fails once in 10^30 runs.
        assert!(*longest >= *shortest + LEAST / JITTER / 4, "{pauses:?}");
    }

    #[test]
    fn no_pause_is_longer_than_a_client_can_wait() {
        let breaker = breaker().with_longest_pause(Duration::from_millis(70));
        for second in 0..20 {
            let attempt = ask(&breaker, second * 1000).unwrap();
            breaker.record(at(second * 1000), attempt, Some(&AWAY));
        }
        assert!(ask(&breaker, 19_070).is_some());
    }

    #[tokio::test]
    async fn after_an_attempt_that_hangs_or_is_dropped_there_is_another() {
        let (breaker, keeper) = (breaker(), Keeper::start().unwrap());
        breaker.attempt(&keeper, async { Err::<(), _>(AWAY) }).await.unwrap_err();
        keeper.sleep_until(breaker.retry_at().unwrap()).await;
        let mut hanging = Box::pin(breaker.attempt(&keeper, pending::<Result<(), _>>()));
        assert!(hanging.as_mut().now_or_never().is_none());
        breaker.attempt(&keeper, async { Err::<(), _>(AWAY) }).await.unwrap_err();
        drop(hanging);
        assert_eq!(breaker.attempt(&keeper, async { Ok("connected") }).await, Ok("connected"));
    }

    #[tokio::test]
    async fn callers_that_wait_for_an_attempt_fail_as_it_did_or_connect() {
        let (breaker, keeper) = (breaker(), Keeper::start().unwrap());
        let attempts = AtomicU32::new(0);
        let connect = async |result: Result<(), &'static str>| {
            let connect = async {
                attempts.fetch_add(1, Relaxed);
                result
            };
            breaker.attempt(&keeper, connect).await
        };
        // Many have failed, so that all come within the next pause.
        for second in 0..10 {
            let attempt = ask(&breaker, second * 1000).unwrap();
            breaker.record(at(second * 1000), attempt, Some(&AWAY));
        }
        breaker.record(keeper.now(), ask(&breaker, 10_000).unwrap(), Some(&AWAY));
        let failed = join_all((0..100).map(|_| connect(Err(AWAY)))).await;
        assert!(failed.iter().all(|failed| *failed == Err(AWAY)));
        assert_eq!(attempts.load(Relaxed), 1, "one for a hundred");
        let connected = join_all((0..100).map(|_| connect(Ok(())))).await;
        assert!(connected.iter().all(Result::is_ok));
    }
}
