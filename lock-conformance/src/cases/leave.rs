//! Leaving: an entry that has left never comes back, and a release reports exactly what is known.

use std::{sync::Arc, time::Duration};

use lock_core::{BackendErrorKind, Claim, Creates, DistributedLock, LockName, Standing, Step, WaitMode};

use super::{
    lease,
    steps::{LONG, absent, assert_lost, faulty, freed, mutex, pending, queue, take, take_free},
};
use crate::{
    CaseTest, Fault, Gate, SLACK, ScriptedFaults, TestEnv, Verb,
    audit::{eventually, soon},
};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! leave_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] leave {
            a_create_that_arrives_after_its_leave_finds_a_tombstone ["PR08"]
            a_dropped_acquisition_leaves_nothing_although_its_request_comes_late ["PR08"]
            a_release_whose_first_answer_was_lost_was_a_release ["PR10"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = leave_cases!(list);

/// By direct calls of the verbs: whatever the store answers, the entry is not in the queue.
pub(super) async fn a_create_that_arrives_after_its_leave_finds_a_tombstone(env: TestEnv) {
    let client = env.client().await;
    let name = env.name("door");
    let lock = mutex(&client, &name);
    for (wait, held) in [(WaitMode::Queue, false), (WaitMode::Try, false), (WaitMode::Queue, true)] {
        let guard = if held { Some(take_free(&lock).await) } else { None };
        for claim in [Claim::mutex(), Claim::writer()] {
            if held && claim != Claim::mutex() {
                continue;
            }
            let late = client.entry(&name, claim, LONG);
            absent(&client, &late, Creates::InDoubt).await;
            for _ in 0..2 {
                let answer = client.backend.enter(&late, Step::Create, wait).await;
                let inside = matches!(answer, Ok(Standing::Admitted { .. } | Standing::Waiting { .. }));
                assert!(!inside, "an entry that had left came back: {answer:?}");
            }
            assert_eq!(queue(&lock).await.len(), usize::from(held));
            absent(&client, &late, Creates::InDoubt).await;
        }
        if let Some(guard) = guard {
            guard.release().await.unwrap();
        }
        freed(&lock).await;
    }
}

/// The future is dropped while its first request is on its way; the request arrives after the keeper's clean-up.
pub(super) async fn a_dropped_acquisition_leaves_nothing_although_its_request_comes_late(env: TestEnv) {
    let (arriving, sending) = (ScriptedFaults::default(), ScriptedFaults::default());
    let client = env.client_through(&[Arc::new(arriving.clone()), Arc::new(sending.clone())]).await;
    let other = env.client().await;
    let name = env.name("late");
    let gate = Gate::new();
    sending.next(Verb::Enter, Fault::InFlight(gate.clone()));
    let lock = mutex(&client, &name);
    tokio::select! {
        granted = lock.acquire() => panic!("the request was answered before it arrived: {granted:?}"),
        () = gate.reached() => {}
    }
    soon("the clean-up", client.locks.close(SLACK)).await.unwrap();
    assert_eq!(arriving.calls(Verb::Enter), 0, "the request was not held up");
    gate.open();
    eventually("the arrival of the request", SLACK, async || arriving.calls(Verb::Enter) == 1).await;
    // The entry must never exist: neither now, nor after the request was carried out.
    let seen = mutex(&other, &name);
    for _ in 0..20 {
        assert_eq!(queue(&seen).await, [], "an entry that had left came back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(take_free(&seen).await);
}

/// The leave is repeated and finds nothing, because the first one was carried out: it counts as a release. If it cannot be repeated in
/// time, the release is reported as pending, and the keeper completes it.
pub(super) async fn a_release_whose_first_answer_was_lost_was_a_release(env: TestEnv) {
    let (client, faulty) = faulty(&env).await;
    let other = env.client().await;
    let name = env.name("repeated");
    let lock = mutex(&client, &name);
    for kind in [BackendErrorKind::Unreachable, BackendErrorKind::Unavailable, BackendErrorKind::Panicked] {
        let guard = take_free(&lock).await;
        faulty.next(Verb::Leave, Fault::FailReply(kind.clone()));
        assert!(guard.release().await.unwrap().confirmed().is_ok(), "after {kind:?}");
        freed(&mutex(&other, &name)).await;
    }

    for fault in [Fault::LoseReply, Fault::LoseRequest] {
        let guard = take_free(&lock).await;
        let deadline = lease::deadline_at_least(&guard.hold());
        faulty.next(Verb::Leave, fault);
        let (free_within, _) = pending(guard.release().await);
        let shared = client.locks.guarantees().shared_leases;
        assert_eq!(free_within.is_none(), shared, "{free_within:?}");
        assert!(
            free_within.is_none_or(|time| lease::now() + time >= deadline),
            "the lease may outlive {free_within:?}"
        );
        freed(&mutex(&other, &name)).await;
    }

    // And if there was no entry left to remove, the result is no release.
    let guard = take_free(&lock).await;
    let evicted = LockName::new(&name).unwrap();
    other.backend.operator().evict(&evicted, guard.entry_id()).await.unwrap();
    assert_lost(guard.release().await);
    drop(take(&mutex(&other, &name)).await);
}
