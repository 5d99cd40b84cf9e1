//! Claims: the kind and the limit of a name while it is in use, and the arithmetic of permits.

use lock_core::{Claim, DistributedLock, Error, Kind, Lock};

use super::steps::{is_busy, mutex, permits, queue, queue_of, reader, refused, take_free, writer};
use crate::{CaseTest, Client, TestEnv, audit::soon};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! claims_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] claims {
            a_name_has_one_kind_and_one_limit_while_it_is_in_use ["PR07"]
            sums_of_permits_do_not_overflow ["PR07"]
            a_queue_shows_what_each_of_its_entries_claims ["PR07"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = claims_cases!(list);

/// Every kind against every other. A refused claim leaves no entry; a claim that agrees may wait.
pub(super) async fn a_name_has_one_kind_and_one_limit_while_it_is_in_use(env: TestEnv) {
    let (one, two) = (env.client().await, env.client().await);
    let name = env.name("kinds");
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
        assert_eq!(queue(&*held).await.len(), 1, "the refused claim is in the queue");
        assert!(guard.is_held());
        guard.release().await.unwrap();
    }
    // The kind also stays while only the second entry is left.
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
pub(super) async fn sums_of_permits_do_not_overflow(env: TestEnv) {
    let client = env.client().await;
    let all = permits(&client, &env.name("semaphore"), Claim::MAX, Claim::MAX);
    let write = writer(&client, &env.name("rwlock"));
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
            turns.pop().expect("one of them holds it").release().await.unwrap();
            turns.push(soon("the next turn", waiter).await.unwrap().unwrap());
            let admitted = queue(&lock).await.iter().filter(|row| row.admitted).count();
            assert_eq!(admitted, 1);
        }
    }
}

/// An operator who asks why a lock is not free has to tell a reader from a writer, and one permit from many.
pub(super) async fn a_queue_shows_what_each_of_its_entries_claims(env: TestEnv) {
    let client = env.client().await;
    let one = mutex(&client, &env.name("mutex"));
    assert_eq!(claims_in_queue(&[one.clone(), one]).await, [Claim::mutex(); 2]);
    let name = env.name("rwlock");
    let (read, write) = (reader(&client, &name), writer(&client, &name));
    let claims = claims_in_queue(&[read.clone(), write, read]).await;
    assert_eq!(claims, [Claim::reader(), Claim::writer(), Claim::reader()]);
    let portions = [2, 3, 1].map(|portion| permits(&client, &env.name("semaphore"), portion, 3));
    let claims = claims_in_queue(&portions).await;
    assert_eq!(claims, [2, 3, 1].map(|permits| Claim::semaphore(permits, 3).unwrap()));
}

/// What the queue shows while the first of these locks is held and the others wait for it, in this order.
async fn claims_in_queue(locks: &[Lock]) -> Vec<Claim> {
    let (first, others) = locks.split_first().expect("one that is held");
    let held = take_free(first).await;
    let mut waiting = Vec::new();
    for (len, lock) in (2..).zip(others.iter().cloned()) {
        waiting.push(tokio::spawn(async move { lock.acquire().await.map(drop) }));
        queue_of(len, first).await;
    }
    let claims = queue(first).await.iter().map(|row| row.claim).collect();
    held.release().await.unwrap();
    for waiter in waiting {
        soon("its turn", waiter).await.unwrap().unwrap();
    }
    claims
}
