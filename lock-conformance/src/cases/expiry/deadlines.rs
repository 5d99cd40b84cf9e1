//! Deadlines: when they begin to count, and that the store keeps them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use lock_core::{
    BackendErrorKind, BootTime, Claim, Clock, Creates, DistributedLock, Entry, Keeper, Lease, LostReason,
    Renewal, Standing, Step, SystemClock, WaitMode,
};

use crate::{
    Fault, SLACK, ScriptedFaults, TestEnv, Verb,
    audit::{assert_free, eventually, soon, within},
    cases::{
        lease::{
            GRAIN, admitted, admitted_after, assert_covered, lease_end, ms, now, queued_behind, until,
            waiting,
        },
        steps::{LONG, faulty, mutex, permits, take_free},
    },
};

/// The client's keeper ends, and with it the heartbeats of a session. A later look is still answered, and its deadline has to be kept:
/// if a look does not extend the lease, the deadline must not grow.
pub(crate) async fn a_promise_is_counted_from_the_last_proof_and_kept_when_proofs_end(env: TestEnv) {
    let (client, other) = (env.client().await, env.client().await);
    let name = env.name("job");
    let entry = client.entry(&name, Claim::mutex(), ms(1000));
    let (token, first) = admitted(&client, &entry, Step::Create).await;
    client.stop();
    until(first - ms(500)).await;
    let look = client.backend.enter(&entry, Step::Again(token), WaitMode::Queue);
    let promised = match soon("the answer to a second look", look).await {
        Ok(Standing::Admitted { token: same, valid_until, .. }) => {
            assert_eq!(same, token);
            valid_until.max(first)
        }
        Ok(other) if now() < first => panic!("{other:?} in the middle of the first lease"),
        // Without its keeper a client may not work any more. What it was promised before still holds.
        Ok(_) | Err(_) => first,
    };
    assert!(promised >= first);
    let next = other.entry(&name, Claim::mutex(), LONG);
    admitted_after(&other, &next, promised.since(now())).await;
    assert!(now() >= promised, "granted {:?} before the end of what was promised", promised.since(now()));
}

/// A waiter's second look is lost. It is handed the lock with what is left of the lease from the first look.
pub(crate) async fn a_deadline_comes_from_an_answered_look_and_not_from_one_that_was_lost(env: TestEnv) {
    let holder = env.client().await;
    let (client, faults) = faulty(&env).await;
    let name = env.name("job");
    let guard = take_free(&mutex(&holder, &name)).await;
    faults.pass(Verb::Enter);
    faults.always(Verb::Enter, Fault::LoseRequest);
    let options = client.options().ttl(ms(1800)).renew(false);
    let options = options.back_off(ms(300), ms(300));
    let waiter = tokio::spawn({
        let lock = client.mutex(&name).with_options(options);
        async move { lock.acquire().await }
    });
    eventually("a second look", SLACK, || async { faults.calls(Verb::Enter) > 1 }).await;
    guard.release().await.unwrap();
    // Long enough for a hint, which is the only message that arrives; a store without such hints is asked again.
    tokio::time::sleep(ms(150)).await;
    faults.heal(Verb::Enter);
    let granted = soon("the grant", waiter).await.unwrap().unwrap();
    assert_covered(&holder, &granted.hold(), "granted after a look that was lost").await;
    granted.release().await.unwrap();
}

/// Both verbs that refresh an entry are called with a tenth of its ttl: neither the lease nor the deadline gets shorter.
pub(crate) async fn a_shorter_renewal_cuts_nothing(env: TestEnv) {
    let (client, other) = (env.client().await, env.client().await);
    let name = env.name("job");
    let entry = client.entry(&name, Claim::mutex(), ms(2500));
    let (token, valid_until) = admitted(&client, &entry, Step::Create).await;
    let end_time = lease_end(&other, &entry.name, entry.id).await;
    let short = Entry::new(entry.name.clone(), entry.id, entry.claim, ms(150));

    let lease = Lease { entry: Arc::new(short.clone()), token };
    let answer = client.backend.renew(&[lease]).await.remove(0).unwrap();
    assert!(matches!(answer, Renewal::Renewed { .. }), "{answer:?}");
    let after = lease_end(&other, &entry.name, entry.id).await;
    assert!(after + GRAIN >= end_time, "a shorter renewal cut {:?}", end_time.since(after));

    admitted(&client, &short, Step::Again(token)).await;
    let after = lease_end(&other, &entry.name, entry.id).await;
    assert!(after + GRAIN >= end_time, "a shorter look cut {:?}", end_time.since(after));

    // Whatever the store reports, the name is not free before that.
    client.stop();
    let next = other.entry(&name, Claim::mutex(), LONG);
    admitted_after(&other, &next, valid_until.since(now())).await;
    assert!(now() >= valid_until, "granted {:?} before the deadline", valid_until.since(now()));
}

/// A waiter is admitted, but its client sends nothing any more. The entry keeps the rest of the lease that it waited with, to the last
/// millisecond.
pub(crate) async fn a_place_that_was_handed_the_lock_keeps_it_as_long_as_it_was_promised(env: TestEnv) {
    let (holder, heir, other) = (env.client().await, env.client().await, env.client().await);
    let name = env.name("job");
    let held = holder.entry(&name, Claim::mutex(), LONG);
    admitted(&holder, &held, Step::Create).await;
    let waits = heir.entry(&name, Claim::mutex(), ms(900));
    let (token, promised) = waiting(&heir, &waits, Step::Create).await;
    heir.stop();
    until(promised - ms(600)).await;
    holder.backend.leave(&held, Creates::Answered).await.unwrap();
    let next = other.entry(&name, Claim::mutex(), LONG);
    let later = admitted_after(&other, &next, promised.since(now())).await;
    assert!(now() >= promised, "granted {:?} before the waiter's deadline", promised.since(now()));
    assert!(later > token);
}

/// The lease follows the ttl of the last look, not that of the create, because the guard relies on it.
pub(crate) async fn a_waiter_with_a_shorter_lease_is_covered_for_the_longer_one(env: TestEnv) {
    let (holder, waiter) = (env.client().await, env.client().await);
    let (name, pool) = (env.name("job"), env.name("pool"));
    let short = ms(10_000);
    for (held, awaited) in [
        (mutex(&holder, &name), mutex(&waiter, &name)),
        (permits(&holder, &pool, 1, 1), permits(&waiter, &pool, 1, 1)),
    ] {
        let guard = take_free(&held).await;
        let awaited = awaited.with_options(waiter.options().ttl(LONG).waiting_ttl(short));
        let waiting = tokio::spawn(async move { awaited.acquire().await });
        queued_behind(&holder, &guard.hold()).await;
        guard.release().await.unwrap();
        let granted = soon("the grant", waiting).await.unwrap().unwrap();
        assert!(granted.remaining() > short, "it still has its short lease: {:?}", granted.remaining());
        assert_covered(&holder, &granted.hold(), "granted to a waiter with a shorter lease").await;
        granted.release().await.unwrap();
    }
}

/// The boot clock of a machine that can be put to sleep.
#[derive(Debug, Default)]
struct Sleeper {
    slept_secs: AtomicU64,
}

impl Clock for Sleeper {
    fn now(&self) -> BootTime {
        SystemClock.now() + Duration::from_secs(self.slept_secs.load(Ordering::SeqCst))
    }
}

/// Timers stand still while a machine sleeps. For one lock a task listens to the signal, and is woken. For the other, a call learns of the
/// loss at once.
pub(crate) async fn a_machine_that_slept_past_a_deadline_is_told_of_it_within_a_second(env: TestEnv) {
    let other = env.client().await;
    let (watched, asked) = (env.name("watched"), env.name("asked for"));
    for renew in [false, true] {
        let clock = Arc::new(Sleeper::default());
        let keeper = Keeper::on_current_runtime(Arc::clone(&clock) as Arc<dyn Clock>);
        let faults = ScriptedFaults::default();
        let client = env.client_on(keeper, &[Arc::new(faults.clone())]).await;
        faults.always(Verb::Renew, Fault::Fail(BackendErrorKind::Unreachable));
        let options = client.options().ttl(LONG).renew(renew);
        let guard = client.mutex(&watched).acquire_with(&options).await.unwrap();
        let hold = client.mutex(&asked).acquire_with(&options).await.unwrap();
        let listener = tokio::spawn(guard.lost());
        // By then the listener sleeps, and the keeper's timers are set far ahead.
        tokio::time::sleep(ms(50)).await;
        assert!(hold.is_held() && !listener.is_finished());

        clock.slept_secs.store(60 * 60, Ordering::SeqCst);
        assert_eq!(
            hold.lost().now_or_never(),
            Some(LostReason::Expired),
            "the signal did not look at the clock"
        );
        assert!(!hold.is_held(), "held an hour after its deadline");
        let reason = within("the signal after a sleep", ms(1000) + SLACK, listener).await;
        assert_eq!(reason.unwrap(), LostReason::Expired);
        for name in [&watched, &asked] {
            assert_free(&other, name).await;
        }
    }
}
