//! [`stall_tolerant`]: for cases that rely on leases being renewed in time, which fails if the machine stands still.

use std::{
    panic::{AssertUnwindSafe, resume_unwind},
    time::{Duration, Instant},
};

use futures_util::FutureExt;

use crate::{
    TestEnv,
    excuse::Excuse,
    output::said,
    stall_detector::{StallDetector, StallSource},
};

/// The factor of the ttl when a scenario is repeated.
const LONGER: u32 = 3;

/// Runs a scenario with a ttl that it may rely on.
///
/// A failure counts, unless the [`StallDetector`] has seen the machine stand still at that time, and the failure is not about
/// [safety](crate::audit::safety). In that case a lease has rightly ended, and nothing is shown. The scenario is run once more with a
/// longer ttl, and that run has no excuse. Each [`Excuse`] is recorded.
///
/// The ttl leaves a scenario about a second to spare, far more than the shortest stall that counts. Delays on a busy machine that never
/// stands still have to fit into that.
pub(super) async fn stall_tolerant<F>(env: TestEnv, ttl: Duration, scenario: impl Fn(TestEnv, Duration) -> F)
where
    F: Future<Output = ()>,
{
    let seen = env.clone();
    let excused = move |excuse: &Excuse| {
        excuse.record(&seen.case(), seen.store());
        seen.give_up();
    };
    twice_at_most(&StallDetector::start(), ttl, excused, move |ttl| scenario(env.clone(), ttl)).await;
}

async fn twice_at_most<F>(
    detector: &dyn StallSource,
    ttl: Duration,
    excused: impl Fn(&Excuse),
    attempt: impl Fn(Duration) -> F,
) where
    F: Future<Output = ()>,
{
    let Err(failure) = AssertUnwindSafe(attempt(ttl)).catch_unwind().await else { return };
    let Some(excuse) = Excuse::find(&said(&*failure), Instant::now(), ttl, detector) else {
        resume_unwind(failure)
    };
    excused(&excuse);
    attempt(ttl * LONGER).await;
}

#[cfg(test)]
mod tests {
    use std::{
        panic::catch_unwind,
        sync::{
            Arc, Mutex,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use lock_core::{AcquireOptions, DistributedLock, Keeper, Memory};

    use super::*;
    use crate::{
        Client, Critical, Fault, Layered, ScriptedFaults, Verb,
        audit::{safety, within},
        cases::lease::ms,
        stall_detector::{Pressure, Stall},
    };

    const TTL: Duration = ms(1000);

    /// A stall of this length that ended this long before the query.
    struct Saw {
        lasted: Duration,
        before: Duration,
    }

    impl StallSource for Saw {
        fn stalls(&self) -> Vec<Stall> {
            let until = Instant::now().checked_sub(self.before).expect("the machine runs for longer");
            Some(Stall { from: until.checked_sub(self.lasted).expect("and longer"), until })
                .into_iter()
                .collect()
        }

        fn pressure(&self) -> Option<Pressure> {
            Some(Pressure { some: ms(1500), full: ms(300) })
        }
    }

    const STALLED: Saw = Saw { lasted: ms(300), before: ms(100) };

    /// Runs a scenario, which gets the number of the attempt. Returns the failure, if any, and the excuses.
    fn run<F: Future<Output = ()>>(
        detector: &dyn StallSource,
        ttl: Duration,
        scenario: impl Fn(usize) -> F,
    ) -> (Option<String>, Vec<String>) {
        let (attempts, excuses) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let write_down = |excuse: &Excuse| excuses.lock().unwrap().push(excuse.line("case", "store"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let attempt = |_| scenario(attempts.fetch_add(1, Ordering::SeqCst));
            runtime.block_on(twice_at_most(detector, ttl, write_down, attempt));
        }));
        (outcome.err().map(|failure| said(&*failure)), excuses.into_inner().unwrap())
    }

    #[allow(clippy::unused_async, reason = "a scenario is a future")]
    async fn fails_at_first(attempt: usize) {
        assert!(attempt > 0, "the lock was lost");
    }

    #[test]
    fn a_stall_that_overlaps_the_failure_excuses_it_once_and_is_told() {
        let (failure, excuses) = run(&STALLED, TTL, fails_at_first);
        assert_eq!(failure, None);
        let [line] = &excuses[..] else { panic!("{excuses:?}") };
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["test"], &line["store"]), (&"case".into(), &"store".into()));
        assert_eq!((&line["stall_ms"], &line["ttl_ms"]), (&300.into(), &1000.into()));
        assert_eq!((&line["pressure_some_ms"], &line["pressure_full_ms"]), (&1500.into(), &300.into()));
        assert_eq!(line["message"], "the lock was lost");
        assert!(line["when"].as_u64() > Some(1_700_000_000) && line["ended_ms_before"].is_u64(), "{line}");
    }

    #[test]
    fn a_stall_that_was_over_a_ttl_before_the_failure_excuses_nothing() {
        let early = Saw { lasted: ms(900), before: TTL * 10 };
        let (failure, excuses) = run(&early, TTL, fails_at_first);
        assert_eq!((failure.as_deref(), &excuses[..]), (Some("the lock was lost"), &[][..]));
    }

    #[test]
    fn a_stall_that_is_short_beside_the_ttl_excuses_nothing() {
        let (failure, excuses) = run(&STALLED, ms(6000), fails_at_first);
        assert_eq!((failure.as_deref(), &excuses[..]), (Some("the lock was lost"), &[][..]));
    }

    #[test]
    fn a_second_failure_is_never_excused() {
        #[allow(clippy::unused_async, reason = "a scenario is a future")]
        async fn fails(attempt: usize) {
            panic!("lost in attempt {attempt}");
        }
        let (failure, excuses) = run(&STALLED, TTL, fails);
        assert_eq!((failure.as_deref(), excuses.len()), (Some("lost in attempt 1"), 1));
    }

    /// This also holds in a separate task whose panic another task reports.
    #[test]
    fn a_broken_promise_of_safety_is_never_excused() {
        let granted_twice = async |_| safety(false, "granted to others while it is held");
        let two_inside = async |_| {
            let section = Critical::new(1);
            let _inside = section.enter(1);
            tokio::spawn(async move { drop(section.enter(1)) }).await.unwrap();
        };
        let (failure, excuses) = run(&STALLED, TTL, granted_twice);
        assert!(failure.is_some_and(|said| said.ends_with("granted to others while it is held")));
        assert_eq!(excuses, [""; 0]);
        let (failure, excuses) = run(&STALLED, TTL, two_inside);
        assert!(failure.is_some_and(|said| said.contains("2 permits are held at once")));
        assert_eq!(excuses, [""; 0]);
    }

    /// Only the detector decides, and it saw no stall.
    #[test]
    fn a_store_that_is_slow_excuses_nothing() {
        struct Calm;

        impl StallSource for Calm {
            fn stalls(&self) -> Vec<Stall> {
                Vec::new()
            }

            fn pressure(&self) -> Option<Pressure> {
                None
            }
        }

        let slow = async |_| {
            let (keeper, faults) = (Keeper::start().unwrap(), ScriptedFaults::default());
            faults.always(Verb::Enter, Fault::DelayReply(TTL));
            let store = Layered::new(Arc::new(Memory::new()), Arc::new(faults));
            let client = Client::on(Arc::new(store), keeper, AcquireOptions::new());
            drop(within("the grant", TTL / 2, client.mutex("job").acquire()).await.unwrap());
        };
        let (failure, excuses) = run(&Calm, TTL, slow);
        assert_eq!((failure.as_deref(), &excuses[..]), (Some("the grant: not within 500ms"), &[][..]));
    }
}
