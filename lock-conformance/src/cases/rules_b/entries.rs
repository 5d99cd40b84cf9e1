//! What an entry is made for, and how it goes.

use std::{sync::Arc, time::Duration};

use lock_core::{
    BackendErrorKind, Claim, Creates, DistributedLock, Error, Kind, Lock, LockName, Standing, Step, WaitMode,
};

use crate::{
    Client, Fault, Faulty, Gate, SLACK, Verb, World,
    audit::{eventually, soon},
    cases::{
        lease,
        steps::{
            LONG, absent, assert_lost, faulty, freed, is_busy, mutex, pending, permits, queue, queue_of,
            reader, refused, take, take_free, writer,
        },
    },
};

/// Each against each; and what is refused stands nowhere, while what agrees may wait.
pub(in crate::cases) async fn a_name_has_one_kind_and_one_limit_while_it_is_in_use(world: World) {
    let (one, two) = (world.client().await, world.client().await);
    let name = world.name("kinds");
    let sides = |client: &Client| -> [(Box<dyn DistributedLock>, Kind, u32); 6] {
        let of = |lock: Lock| -> Box<dyn DistributedLock> { Box::new(lock) };
        [
            (Box::new(mutex(client, &name)), Kind::Mutex, 1),
            (of(reader(client, &name)), Kind::RwLock, Claim::MAX),
            (of(writer(client, &name)), Kind::RwLock, Claim::MAX),
            (of(permits(client, &name, 1, 1)), Kind::Semaphore, 1),
            (of(permits(client, &name, 2, 3)), Kind::Semaphore, 3),
            (of(permits(client, &name, 1, Claim::MAX)), Kind::Semaphore, Claim::MAX),
        ]
    };
    for (held, kind, limit) in sides(&one) {
        let guard = take_free(&*held).await;
        for (asked, other_kind, other_limit) in sides(&two) {
            if (kind, limit) == (other_kind, other_limit) {
                continue;
            }
            for error in [refused(asked.try_acquire().await), refused(asked.acquire().await)] {
                let Error::ClaimMismatch { found_kind, found_limit, .. } = error else { panic!("{error:?}") };
                assert_eq!((found_kind, found_limit), (kind, limit));
            }
        }
        assert_eq!(queue(&*held).await.len(), 1, "what was refused stands in the queue");
        assert!(guard.is_held());
        guard.release().await.unwrap();
    }
    // Also while only the second one is alive to remember it.
    let first = take_free(&permits(&one, &name, 2, 2)).await;
    let next = permits(&two, &name, 2, 2);
    let waiting = tokio::spawn(async move { next.acquire().await });
    queue_of(2, &mutex(&one, &name)).await;
    first.release().await.unwrap();
    let guard = soon("the grant", waiting).await.unwrap().unwrap();
    assert!(matches!(refused(mutex(&one, &name).acquire().await), Error::ClaimMismatch { .. }));
    guard.release().await.unwrap();
    drop(take_free(&mutex(&one, &name)).await);
}

/// Two of the largest claims do not fit into 32 bits, four not into a sum that wraps to less than the limit.
pub(in crate::cases) async fn sums_of_permits_do_not_overflow(world: World) {
    let client = world.client().await;
    let all = permits(&client, &world.name("semaphore"), Claim::MAX, Claim::MAX);
    let write = writer(&client, &world.name("rwlock"));
    for lock in [all, write] {
        let mut turns = vec![take_free(&lock).await];
        let mut waiting = Vec::new();
        for place in 2..=5 {
            let next = lock.clone();
            waiting.push(tokio::spawn(async move { next.acquire().await }));
            let rows = queue_of(place, &lock).await;
            assert_eq!(rows.iter().filter(|row| row.admitted).count(), 1, "{rows:?}");
            assert!(is_busy(&lock).await, "a full claim fits beside {place} others");
        }
        for waiter in waiting {
            turns.pop().expect("somebody holds it").release().await.unwrap();
            turns.push(soon("the next turn", waiter).await.unwrap().unwrap());
            let admitted = queue(&lock).await.iter().filter(|row| row.admitted).count();
            assert_eq!(admitted, 1);
        }
    }
}

/// The verbs themselves: whatever the store answers, the entry is not there.
pub(in crate::cases) async fn a_create_that_arrives_after_its_leave_finds_the_door_closed(world: World) {
    let client = world.client().await;
    let name = world.name("door");
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
pub(in crate::cases) async fn a_dropped_acquisition_leaves_nothing_although_its_request_comes_late(
    world: World,
) {
    let (arriving, sending) = (Faulty::default(), Faulty::default());
    let client = world.client_through(&[Arc::new(arriving.clone()), Arc::new(sending.clone())]).await;
    let other = world.client().await;
    let name = world.name("late");
    let gate = Gate::new();
    sending.next(Verb::Enter, Fault::InFlight(gate.clone()));
    let lock = mutex(&client, &name);
    tokio::select! {
        granted = lock.acquire() => panic!("the request did not arrive, and was answered: {granted:?}"),
        () = gate.reached() => {}
    }
    soon("the clean-up", client.locks.close(SLACK)).await.unwrap();
    assert_eq!(arriving.calls(Verb::Enter), 0, "the request was not held up");
    gate.open();
    eventually("the arrival of the request", SLACK, async || arriving.calls(Verb::Enter) == 1).await;
    // It must never be there: neither now, nor when the request has been carried out.
    let seen = mutex(&other, &name);
    for _ in 0..20 {
        assert_eq!(queue(&seen).await, [], "an entry that had left came back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(take_free(&seen).await);
}

/// It was repeated, and found nothing: that was our own departure. Where it cannot be repeated in time, the answer is
/// honest, and the keeper sees to it.
pub(in crate::cases) async fn a_release_whose_first_answer_was_lost_was_a_release(world: World) {
    let (client, faulty) = faulty(&world).await;
    let other = world.client().await;
    let name = world.name("repeated");
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

    // And where there was nothing to leave any more, it is not called a release.
    let guard = take_free(&lock).await;
    let evicted = LockName::new(&name).unwrap();
    other.backend.operator().evict(&evicted, guard.entry_id()).await.unwrap();
    assert_lost(guard.release().await);
    drop(take(&mutex(&other, &name)).await);
}
