//! Entries that are not in the queue, not yet or not any more, exclude no client and release nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use lock_core::{
    BackendErrorKind, BootTime, Claim, Creates, Departure, DistributedLock, Entry, Error, HoldState,
    LostReason, Standing, Step, WaitMode,
};

use crate::{
    Fault, TestEnv, Verb,
    audit::{assert_free, assert_queue_empties, await_queue, soon},
    cases::{
        altered::{Alter, altered},
        steps::{absent, assert_lost, faulty, freed, mutex, queue, refused},
    },
};

/// The try was carried out, and a second request finds its entry. If the answer is given up, the try returns an error, and the grant is
/// given back.
pub(in crate::cases) async fn a_try_whose_answer_was_lost_is_not_called_busy(env: TestEnv) {
    let (client, faults) = faulty(&env).await;
    let other = env.client().await;
    let name = env.name("lost");
    let (lock, seen) = (mutex(&client, &name), mutex(&other, &name));
    for kind in [BackendErrorKind::Unreachable, BackendErrorKind::Unavailable] {
        faults.next(Verb::Enter, Fault::FailReply(kind.clone()));
        let granted = soon("an answer to a try", lock.try_acquire()).await.unwrap();
        let guard = granted.unwrap_or_else(|| panic!("what was granted was called busy after {kind:?}"));
        let rows = queue(&seen).await;
        assert!(rows.len() == 1 && rows[0].entry == Some(guard.entry_id()), "{rows:?}");
        assert_eq!(rows[0].token, Some(guard.token()));
        guard.release().await.unwrap().confirmed().unwrap();
    }
    faults.next(Verb::Enter, Fault::LoseReply);
    let error = refused(soon("an answer to a try", lock.try_acquire()).await);
    assert!(matches!(error, Error::Backend { .. }), "{error:?}");
    freed(&seen).await;
}

pub(in crate::cases) async fn a_client_that_does_not_hold_a_lock_cannot_release_it(env: TestEnv) {
    let (holder, other) = (env.client().await, env.client().await);
    let name = env.name("kept");
    let guard = holder.mutex(&name).acquire().await.unwrap();
    let ttl = Duration::from_secs(5);
    // A client that was never in the queue, and a waiter that leaves.
    let stranger = other.entry(&name, Claim::mutex(), ttl);
    for creates in [Creates::Answered, Creates::InDoubt] {
        absent(&other, &stranger, creates).await;
    }
    let rows = other.mutex(&name).queue().await.unwrap();
    assert_eq!(rows.len(), 1, "a stranger released the lock of another: {rows:?}");
    assert_eq!(rows[0].entry, Some(guard.entry_id()));
    let waiter = other.entry(&name, Claim::mutex(), ttl);
    let standing = other.backend.enter(&waiter, Step::Create, WaitMode::Queue).await.unwrap();
    assert!(matches!(standing, Standing::Waiting { .. }), "{standing:?}");
    assert_eq!(other.backend.leave(&waiter, Creates::Answered).await.unwrap(), Departure::Left);
    absent(&other, &waiter, Creates::Answered).await;

    assert!(other.mutex(&name).try_acquire().await.unwrap().is_none());
    let rows = other.mutex(&name).queue().await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].entry, Some(guard.entry_id()));
    guard.release().await.unwrap().confirmed().unwrap();
}

/// The first grant comes too late. Then the store reports that the place is gone while its entry still exists, as a store with sessions
/// does that has given up a session which is not revoked yet.
#[derive(Debug, Default)]
struct Hasty(AtomicU32);

impl Alter for Hasty {
    fn standing(&self, _: &Entry, mut standing: Standing) -> Standing {
        match (self.0.fetch_add(1, Ordering::Relaxed), &mut standing) {
            (0, Standing::Admitted { valid_until, .. }) => *valid_until = BootTime::new(Duration::ZERO),
            (1, _) => standing = Standing::Gone,
            _ => {}
        }
        standing
    }
}

/// The simulation found this: a try that started over under a fresh id was told that the lock is busy, because of its own former entry,
/// which the keeper had not removed yet.
pub(in crate::cases) async fn a_try_that_starts_over_does_not_find_itself_in_the_way(env: TestEnv) {
    let client = altered(&env, Arc::new(Hasty::default())).await;
    let name = env.name("itself");
    let granted = soon("an answer to a try", mutex(&client, &name).try_acquire()).await.unwrap();
    let guard = granted.expect("no other client wants it");
    assert_eq!(queue(&mutex(&client, &name)).await.len(), 1);
    guard.release().await.unwrap().confirmed().unwrap();
}

pub(in crate::cases) async fn a_release_that_comes_after_the_lease_leaves_the_next_holder_alone(
    env: TestEnv,
) {
    let (slow, next) = (env.client().await, env.client().await);
    let name = env.name("passed-on");
    let short = env.options().ttl(Duration::from_millis(200)).renew(false);
    let late = slow.mutex(&name).acquire_with(&short).await.unwrap();
    let guard = soon("the next holder", next.mutex(&name).acquire()).await.unwrap();
    assert_eq!(late.state(), HoldState::Lost(LostReason::Expired));
    assert!(late.token() < guard.token());
    let (late_name, late_id) = (late.name().clone(), late.entry_id());
    assert_lost(late.release().await);
    // What a release that is very late would still send.
    let entry = Entry::new(late_name, late_id, Claim::mutex(), Duration::from_millis(200));
    for creates in [Creates::Answered, Creates::InDoubt] {
        absent(&slow, &entry, creates).await;
    }

    assert!(guard.is_held());
    let rows = next.mutex(&name).queue().await.unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0].entry, Some(guard.entry_id()));
    assert!(guard.extend().await.is_ok());
    guard.release().await.unwrap().confirmed().unwrap();
}

pub(in crate::cases) async fn a_grant_that_comes_after_its_own_lease_is_not_taken(env: TestEnv) {
    let honest = env.client().await;
    let (slow, faulty) = faulty(&env).await;
    let name = env.name("late");
    let options = env.options().ttl(Duration::from_millis(150));
    let late = Fault::DelayReply(Duration::from_millis(200));

    faulty.next(Verb::Enter, late.clone());
    let guard = slow.mutex(&name).acquire_with(&options).await.unwrap();
    assert!(guard.is_held(), "a guard was given out after its deadline");
    assert!(faulty.calls(Verb::Enter) >= 2, "an answer that came too late was taken");
    guard.release().await.unwrap().confirmed().unwrap();

    faulty.always(Verb::Enter, late);
    let answer = soon("the end of hopeless tries", slow.mutex(&name).acquire_with(&options)).await;
    assert!(matches!(&answer, Err(Error::TooSlow { .. })), "{answer:?}");
    // A store may keep the entry of the acquisition that gave up for longer than its ttl, until the keeper has removed it.
    assert_queue_empties(&honest, &name).await;
    let answer = soon("the end of a hopeless try", slow.mutex(&name).try_acquire_with(&options)).await;
    assert!(matches!(&answer, Err(Error::TooSlow { .. })), "{answer:?}");
    assert_free(&honest, &name).await;
}

pub(in crate::cases) async fn a_waiter_whose_lease_has_ended_is_not_admitted(env: TestEnv) {
    let client = env.client().await;
    let name = env.name("dead");
    let holder = client.entry(&name, Claim::mutex(), Duration::from_secs(10));
    let waiter = client.entry(&name, Claim::mutex(), Duration::from_millis(200));
    let backend = &client.backend;
    let held = backend.enter(&holder, Step::Create, WaitMode::Queue).await.unwrap();
    assert!(matches!(held, Standing::Admitted { .. }), "{held:?}");
    let Standing::Waiting { token, .. } =
        backend.enter(&waiter, Step::Create, WaitMode::Queue).await.unwrap()
    else {
        panic!("a second entry was admitted")
    };
    // It does not enter again: its lease ends while the other entry holds.
    await_queue(&client, &name, 1).await;
    assert_eq!(backend.leave(&holder, Creates::Answered).await.unwrap(), Departure::Left);
    let again = backend.enter(&waiter, Step::Again(token), WaitMode::Queue).await.unwrap();
    assert!(matches!(again, Standing::Gone), "{again:?}");
    assert_queue_empties(&client, &name).await;
}

pub(in crate::cases) async fn an_entry_that_died_comes_back_as_a_new_one_behind_the_others(env: TestEnv) {
    let client = env.client().await;
    let name = env.name("reborn");
    let backend = &client.backend;
    let dying = client.entry(&name, Claim::mutex(), Duration::from_millis(200));
    let Standing::Admitted { token: old, .. } =
        backend.enter(&dying, Step::Create, WaitMode::Queue).await.unwrap()
    else {
        panic!("a free name was refused")
    };
    assert_queue_empties(&client, &name).await;
    let next = client.entry(&name, Claim::mutex(), Duration::from_secs(10));
    let Standing::Admitted { token: taken, .. } =
        backend.enter(&next, Step::Create, WaitMode::Queue).await.unwrap()
    else {
        panic!("a free name was refused")
    };
    // A creating request that is repeated, because its answer was lost with the session.
    let Standing::Waiting { token: new, .. } =
        backend.enter(&dying, Step::Create, WaitMode::Queue).await.unwrap()
    else {
        panic!("the dead entry was admitted beside the live one")
    };
    assert!(old < taken && taken < new, "{old} {taken} {new}");
    let again = backend.enter(&dying, Step::Again(old), WaitMode::Queue).await.unwrap();
    assert!(matches!(again, Standing::Gone), "its former life answered: {again:?}");
    for entry in [&dying, &next] {
        backend.leave(entry, Creates::Answered).await.unwrap();
    }
    assert_queue_empties(&client, &name).await;
}
