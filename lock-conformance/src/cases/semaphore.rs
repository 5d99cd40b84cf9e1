//! Semaphores.

use std::{sync::Arc, time::Duration};

use lock_core::{Claim, Creates, Departure, DistributedLock, Error, Kind, Standing, Step, WaitMode};

use super::steps::{LONG, absent, brief, is_busy, permits, queue, queue_of, refused, take_free};
use crate::{
    CaseTest, Client, Critical, SLACK, Side, TestEnv,
    audit::{soon, within},
};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! semaphore_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] semaphore {
            all_permits_can_be_held_and_never_more ["P01"]
            the_permits_of_a_dead_holder_come_back ["P02"]
            a_portion_is_granted_whole_or_not_at_all ["P03"]
            another_limit_is_refused_while_a_semaphore_is_in_use ["P04"]
            leaving_twice_or_as_a_stranger_frees_no_permit ["P05"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = semaphore_cases!(list);

/// All permits can be held, and never more, however large the portions are.
pub(super) async fn all_permits_can_be_held_and_never_more(env: TestEnv) {
    const LIMIT: u32 = 3;
    let clients = [env.client().await, env.client().await, env.client().await];
    let name = env.name("permits");
    let one = permits(&clients[0], &name, 1, LIMIT);
    let all = [take_free(&one).await, take_free(&one).await, take_free(&one).await];
    assert!(is_busy(&one).await, "a permit beyond the limit was granted");
    drop(all);

    let inside = Critical::new(LIMIT);
    let mut contenders = Vec::new();
    for i in 0..12_u32 {
        let portion = i % LIMIT + 1;
        let lock = permits(&clients[i as usize % clients.len()], &name, portion, LIMIT);
        let inside = inside.clone();
        contenders.push(tokio::spawn(async move {
            for _ in 0..4 {
                let guard = lock.acquire().await.unwrap();
                let visit = inside.enter(portion);
                tokio::time::sleep(Duration::from_millis(1)).await;
                drop(visit);
                guard.release().await.unwrap();
            }
        }));
    }
    for contender in contenders {
        soon("all rounds", contender).await.expect("the limit held");
    }
}

/// All permits of a portion come back when its lease ends.
pub(super) async fn the_permits_of_a_dead_holder_come_back(env: TestEnv) {
    let (mut dying, living) = (env.process().await, env.client().await);
    let name = env.name("returned");
    dying.acquire(&name, Side::Permits { permits: 2, limit: 3 }, &brief()).await;
    let kept = take_free(&permits(&living, &name, 1, 3)).await;
    let two = permits(&living, &name, 2, 3);
    assert!(is_busy(&two).await, "permits that are held were granted");
    dying.kill().await;
    let granted = within("the permits of the dead", brief().ttl + SLACK, two.acquire()).await.unwrap();
    assert!(is_busy(&permits(&living, &name, 1, 3)).await, "more permits came back than were taken");
    assert!(granted.is_held() && kept.is_held());
}

/// A waiter for three permits has none of them meanwhile, and two waiters for most of the permits never deadlock.
pub(super) async fn a_portion_is_granted_whole_or_not_at_all(env: TestEnv) {
    let (one, two) = (env.client().await, env.client().await);
    let name = env.name("whole");
    let single = permits(&one, &name, 1, 3);
    let (first, second) = (take_free(&single).await, take_free(&single).await);
    let all = permits(&two, &name, 3, 3);
    let waiting = tokio::spawn(async move { all.acquire().await });
    queue_of(3, &single).await;
    first.release().await.unwrap();
    let rows = queue_of(2, &single).await;
    assert_eq!(rows.iter().map(|row| row.admitted).collect::<Vec<_>>(), [true, false], "{rows:?}");
    second.release().await.unwrap();
    let guard = soon("the grant", waiting).await.unwrap().unwrap();
    assert!(is_busy(&single).await, "one of three permits that are held was granted again");
    guard.release().await.unwrap();

    let inside = Critical::new(3);
    let greedy = |client: &Client| {
        let (lock, inside) = (permits(client, &name, 2, 3), inside.clone());
        tokio::spawn(async move {
            for _ in 0..20 {
                let guard = lock.acquire().await.unwrap();
                let visit = inside.enter(2);
                tokio::time::sleep(Duration::from_millis(1)).await;
                drop(visit);
                guard.release().await.unwrap();
            }
        })
    };
    for task in [greedy(&one), greedy(&two)] {
        soon("an end without a deadlock", task).await.unwrap();
    }
}

/// A claim with another limit gets an error that names the limit in use, and leaves no entry. It succeeds once the name is unused.
pub(super) async fn another_limit_is_refused_while_a_semaphore_is_in_use(env: TestEnv) {
    let (one, two) = (env.client().await, env.client().await);
    let name = env.name("limits");
    let held = take_free(&permits(&one, &name, 1, 2)).await;
    for limit in [1, 3] {
        let other = permits(&two, &name, 1, limit);
        for error in [refused(other.try_acquire().await), refused(other.acquire().await)] {
            assert!(
                matches!(error, Error::ClaimMismatch { found_kind: Kind::Semaphore, found_limit: 2, .. }),
                "{error:?}"
            );
            assert!(!error.is_transient(), "{error:?}");
        }
    }
    assert_eq!(queue(&permits(&one, &name, 1, 2)).await.len(), 1, "the refused claim is in the queue");
    held.release().await.unwrap();
    drop(take_free(&permits(&two, &name, 3, 3)).await);
}

/// By direct calls of the verbs: an entry that is not there frees nothing, and one that has left frees nothing again.
pub(super) async fn leaving_twice_or_as_a_stranger_frees_no_permit(env: TestEnv) {
    let client = env.client().await;
    let backend = Arc::clone(&client.backend);
    let name = env.name("twice");
    let claim = Claim::semaphore(1, 2).unwrap();
    let [one, two, three, stranger] = std::array::from_fn(|_| client.entry(&name, claim, LONG));
    for holder in [&one, &two] {
        let standing = backend.enter(holder, Step::Create, WaitMode::Queue).await;
        assert!(matches!(standing, Ok(Standing::Admitted { .. })), "{standing:?}");
    }
    for creates in [Creates::Answered, Creates::InDoubt] {
        absent(&client, &stranger, creates).await;
    }
    let busy = backend.enter(&three, Step::Create, WaitMode::Try).await;
    assert!(matches!(busy, Ok(Standing::Busy)), "an entry that never entered freed a permit: {busy:?}");

    assert_eq!(backend.leave(&one, Creates::Answered).await.unwrap(), Departure::Left);
    let standing = backend.enter(&three, Step::Create, WaitMode::Queue).await;
    assert!(matches!(standing, Ok(Standing::Admitted { .. })), "{standing:?}");
    absent(&client, &one, Creates::Answered).await;
    let late = client.entry(&name, claim, LONG);
    let busy = backend.enter(&late, Step::Create, WaitMode::Try).await;
    assert!(matches!(busy, Ok(Standing::Busy)), "leaving twice freed the permit of another entry: {busy:?}");
}
