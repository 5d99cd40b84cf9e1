//! The head of the queue is next, and waiters keep their places.

use lock_core::{Claim, Creates, Departure, DistributedLock, Entry, FencingToken, Standing, Step, WaitMode};

use crate::{
    Client, SLACK, TestEnv,
    audit::soon,
    cases::{
        lease,
        steps::{LONG, brief, is_busy, lasting, mutex, queue, queue_of, take_free},
    },
};

/// By direct calls of the verbs, right after a leave and right after an expiry, when the head may not have been admitted yet.
pub(in crate::cases) async fn a_free_name_with_a_queue_goes_to_its_head_and_to_nobody_else(env: TestEnv) {
    let (client, dying) = (env.client().await, env.client().await);
    let name = env.name("left");
    let [holder, first, second] = std::array::from_fn(|_| client.entry(&name, Claim::mutex(), LONG));
    lease::admitted(&client, &holder, Step::Create).await;
    let (token, _) = lease::waiting(&client, &first, Step::Create).await;
    lease::waiting(&client, &second, Step::Create).await;
    assert_eq!(client.backend.leave(&holder, Creates::Answered).await.unwrap(), Departure::Left);
    assert_goes_to(&client, &first, token, &second).await;

    let name = env.name("expired");
    let held = take_free(&mutex(&dying, &name).with_options(brief())).await;
    let [first, second] = std::array::from_fn(|_| client.entry(&name, Claim::mutex(), LONG));
    let (token, _) = lease::waiting(&client, &first, Step::Create).await;
    lease::waiting(&client, &second, Step::Create).await;
    let end_time = lease::deadline_at_least(&held.hold());
    dying.crash().await;
    lease::until(end_time).await;
    assert_goes_to(&client, &first, token, &second).await;
}

/// Other clients try first, again and again, until a look of the head is answered with the grant.
async fn assert_goes_to(client: &Client, head: &Entry, token: FencingToken, second: &Entry) {
    let name = &head.name;
    let give_up = lease::now() + SLACK;
    loop {
        assert!(is_busy(&mutex(client, name.as_str())).await, "another client passed the queue by a try");
        let stranger = client.entry(name.as_str(), Claim::mutex(), LONG);
        lease::waiting(client, &stranger, Step::Create).await;
        client.backend.leave(&stranger, Creates::Answered).await.unwrap();
        let again = client.backend.enter(second, Step::Create, WaitMode::Queue).await.unwrap();
        assert!(matches!(again, Standing::Waiting { .. }), "the second passed the head: {again:?}");
        match client.backend.enter(head, Step::Again(token), WaitMode::Queue).await.unwrap() {
            Standing::Admitted { token: granted, .. } => return assert_eq!(granted, token),
            Standing::Waiting { .. } => {
                assert!(lease::now() < give_up, "the head of the queue is not admitted");
            }
            other => panic!("the head of the queue lost its place: {other:?}"),
        }
    }
}

/// The store says when the holder's lease ends, but a waiter also has to look in time to keep its own lease.
pub(in crate::cases) async fn a_waiter_keeps_its_place_beside_a_holder_with_a_longer_ttl(env: TestEnv) {
    let (holder, waiter) = (env.client().await, env.client().await);
    let name = env.name("shorter");
    let seen = mutex(&holder, &name);
    let held = take_free(&seen).await;
    let first = waiter.mutex(&name).with_options(lasting());
    let first = tokio::spawn(async move { first.acquire().await });
    queue_of(2, &seen).await;
    let second = mutex(&waiter, &name);
    let second = tokio::spawn(async move { second.acquire().await });
    let places = queue_of(3, &seen).await;
    let lease = places[1].lease_left.expect("a lease of ours ends");

    tokio::time::sleep(lease * 4 / 3).await;
    let after = queue(&seen).await;
    let ids =
        |rows: &[lock_core::QueueRow]| rows.iter().map(|row| (row.entry, row.token)).collect::<Vec<_>>();
    assert_eq!(ids(&after), ids(&places), "a waiter lost its place while it slept");
    held.release().await.unwrap();
    let guard = soon("the turn of the first", first).await.unwrap().unwrap();
    assert_eq!(Some(guard.token()), places[1].token);
    assert!(!second.is_finished(), "the second was granted the lock beside the first");
    guard.release().await.unwrap();
    soon("the turn of the second", second).await.unwrap().unwrap().release().await.unwrap();
}
