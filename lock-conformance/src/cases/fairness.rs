//! First come, first served, at a cost that does not grow with the queue.

mod queue;

use std::sync::Arc;

use lock_core::{DistributedLock, FencingToken, sync::Mutex};

use self::queue::{
    a_free_name_with_a_queue_goes_to_its_head_and_to_nobody_else,
    a_waiter_keeps_its_place_beside_a_holder_with_a_longer_ttl,
};
use super::steps::{faulty, is_busy, mutex, permits, queue_of, take, take_free};
use crate::{CaseTest, TestEnv, Verb, audit::soon};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! fairness_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] fairness {
            waiters_are_granted_in_the_order_in_which_they_came ["Q01"]
            a_lock_that_is_waited_for_is_not_taken_by_a_later_caller ["Q02"]
            a_small_portion_does_not_pass_a_large_one_that_waits ["Q02"]
            a_hand_off_costs_the_same_however_many_wait ["Q04"]
            a_free_name_with_a_queue_goes_to_its_head_and_to_nobody_else ["PR12"]
            a_waiter_keeps_its_place_beside_a_holder_with_a_longer_ttl ["PR13"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = fairness_cases!(list);

/// C1, with waiters of several clients. Each was seen in the queue before the next one was started.
pub(super) async fn waiters_are_granted_in_the_order_in_which_they_came(env: TestEnv) {
    const WAITERS: usize = 9;
    let clients = [env.client().await, env.client().await, env.client().await];
    let name = env.name("order");
    let held = take_free(&mutex(&clients[0], &name)).await;
    let granted: Arc<Mutex<Vec<(usize, FencingToken)>>> = Arc::default();

    let mut waiters = Vec::new();
    for i in 0..WAITERS {
        let lock = mutex(&clients[i % clients.len()], &name);
        let (seen, log) = (mutex(&clients[0], &name), Arc::clone(&granted));
        waiters.push(tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            log.lock().push((i, guard.token()));
            guard.release().await.unwrap();
        }));
        queue_of(i + 2, &seen).await;
    }
    let first = held.token();
    held.release().await.unwrap();
    for waiter in waiters {
        soon("all grants", waiter).await.unwrap();
    }

    let granted = granted.lock().clone();
    let order: Vec<usize> = granted.iter().map(|(i, _)| *i).collect();
    assert_eq!(order, (0..WAITERS).collect::<Vec<_>>(), "a waiter was overtaken");
    let tokens: Vec<FencingToken> =
        std::iter::once(first).chain(granted.iter().map(|(_, token)| *token)).collect();
    assert!(tokens.is_sorted_by(|a, b| a < b), "tokens do not grow with the grants: {tokens:?}");
}

/// A later caller gets no lock even at the moment of a release, whether it is the client that released the lock or another one.
pub(super) async fn a_lock_that_is_waited_for_is_not_taken_by_a_later_caller(env: TestEnv) {
    let (holder, waiter, stranger) = (env.client().await, env.client().await, env.client().await);
    let name = env.name("barging");
    let lock = mutex(&holder, &name);
    for _ in 0..20 {
        let held = take_free(&lock).await;
        let theirs = mutex(&waiter, &name);
        let waiting = tokio::spawn(async move { theirs.acquire().await });
        queue_of(2, &lock).await;

        held.release().await.unwrap();
        assert!(is_busy(&lock).await, "the client that had just released the lock passed the waiter");
        assert!(is_busy(&mutex(&stranger, &name)).await, "another client passed the waiter");
        let granted = soon("the grant", waiting).await.unwrap().unwrap();
        granted.release().await.unwrap();
    }
}

/// There is room for one more permit, but the next waiter needs more of them.
pub(super) async fn a_small_portion_does_not_pass_a_large_one_that_waits(env: TestEnv) {
    let (holder, waiter) = (env.client().await, env.client().await);
    let name = env.name("portions");
    let held = take_free(&permits(&holder, &name, 2, 3)).await;
    let all = permits(&waiter, &name, 3, 3);
    let waiting = tokio::spawn(async move { all.acquire().await });
    let one = permits(&holder, &name, 1, 3);
    queue_of(2, &one).await;

    assert!(is_busy(&one).await, "a small portion passed a large one");
    held.release().await.unwrap();
    assert!(is_busy(&one).await, "a small portion was taken while the large one has all");
    let guard = soon("the grant", waiting).await.unwrap().unwrap();
    guard.release().await.unwrap();
    drop(take(&one).await);
}

/// A release wakes one waiter: the number of requests grows with the number of hand-offs, and not with the number of waiters.
pub(super) async fn a_hand_off_costs_the_same_however_many_wait(env: TestEnv) {
    for waiters in [2, 24] {
        let (client, faulty) = faulty(&env).await;
        let watcher = env.client().await;
        let name = env.name(&format!("herd of {waiters}"));
        let seen = mutex(&watcher, &name);
        let held = take_free(&mutex(&client, &name)).await;
        let mut waiting = Vec::new();
        for _ in 0..waiters {
            let lock = mutex(&client, &name);
            waiting.push(tokio::spawn(async move { lock.acquire().await?.release().await }));
        }
        queue_of(waiters + 1, &seen).await;
        let before = [faulty.calls(Verb::Enter), faulty.calls(Verb::Leave)];
        held.release().await.unwrap();
        for waiter in waiting {
            soon("all hand-offs", waiter).await.unwrap().unwrap();
        }
        // If hints only say that something has changed, the next waiter asks once more.
        let looks = faulty.calls(Verb::Enter) - before[0];
        assert!(looks <= waiters, "{looks} looks at the queue for {waiters} hand-offs");
        assert_eq!(faulty.calls(Verb::Leave) - before[1], waiters + 1, "each holder leaves once");
    }
}
