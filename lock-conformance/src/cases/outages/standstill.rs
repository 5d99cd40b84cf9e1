//! Servers and client processes that are paused and resumed.

use std::time::Duration;

use lock_core::{DistributedLock, Error, HoldState, LostReason};

use super::waiters::{assert_has, behind};
use crate::{
    Command, Reply, SLACK, Side, TestEnv,
    audit::{assert_free, await_queue, eventually, soon, within},
    cases::{
        lease::{deadline_at_least, ms, now},
        steps::{assert_lost, long, mutex, queue, queue_of, refused, take_free},
    },
};

/// Neither the lock nor the place of the waiter behind it is lost.
pub(crate) async fn a_server_that_stands_still_for_a_part_of_the_ttl_costs_nothing(env: TestEnv) {
    let (holder, waiter) = (env.client().await, env.client().await);
    let name = env.name("job");
    let options = long().ttl(Duration::from_secs(10));
    let held = take_free(&holder.mutex(&name).with_options(options.clone())).await;
    let (waiting, place) = behind(&waiter, &name, options.clone()).await;
    // The server is paused before the first renewal is due, and until the first tries of the renewal have failed.
    tokio::time::sleep(ms(1500)).await;
    env.server().pause().await.unwrap();
    tokio::time::sleep(options.ttl * 2 / 5).await;
    assert!(held.is_held() && !waiting.is_finished());
    env.server().resume().await.unwrap();
    eventually("it is renewed", SLACK, || async {
        assert!(held.is_held(), "lost: {:?}", held.state());
        held.state() == HoldState::Held && held.remaining() > options.ttl / 2
    })
    .await;
    held.release().await.unwrap().confirmed().unwrap();
    let guard = soon("the next grant", waiting).await.unwrap();
    assert_has(&guard, &place);
}

/// The renewals that were sent meanwhile are carried out when the server resumes, and revive nothing.
pub(crate) async fn a_server_that_stands_still_for_longer_costs_locks_and_no_order(env: TestEnv) {
    let (holder, waiter) = (env.client().await, env.client().await);
    let name = env.name("job");
    let held = take_free(&holder.mutex(&name).with_options(long().ttl(ms(1500)))).await;
    let (waiting, place) = behind(&waiter, &name, long()).await;
    env.server().pause().await.unwrap();
    let deadline = deadline_at_least(&held.hold());
    assert_eq!(within("the loss", held.ttl() + SLACK, held.lost()).await, LostReason::Expired);
    assert!(now() >= deadline, "lost {:?} before its deadline", deadline.since(now()));
    assert!(!waiting.is_finished(), "granted while the server stood still");
    env.server().resume().await.unwrap();
    let guard = within("the next grant", held.ttl() + SLACK, waiting).await.unwrap();
    assert_has(&guard, &place);
    assert!(guard.token() > held.token());
    assert_lost(held.release().await);
    await_queue(&waiter, &name, 1).await;
    guard.extend().await.unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
}

/// The callers got errors that the server did not answer, and left.
pub(crate) async fn what_was_asked_of_a_server_that_stood_still_leaves_nothing_behind(env: TestEnv) {
    let client = env.client().await;
    let names = ["asked", "tried"].map(|tag| env.name(tag));
    for name in &names {
        // Over a connection that is open.
        take_free(&mutex(&client, name)).await.release().await.unwrap();
    }
    env.server().pause().await.unwrap();
    let (asked, tried) = (mutex(&client, &names[0]), mutex(&client, &names[1]));
    let both = futures_util::future::join(asked.acquire(), tried.try_acquire());
    let (asked, tried) = soon("an end of both", both).await;
    assert!(matches!(refused(asked), Error::Backend { .. }));
    assert!(matches!(refused(tried), Error::Backend { .. }));
    env.server().resume().await.unwrap();
    client.locks.close(SLACK * 2).await.unwrap();
    let other = env.client().await;
    for name in &names {
        assert!(queue(&mutex(&other, name)).await.is_empty(), "`{name}` is not free");
        assert_free(&other, name).await;
    }
}

/// The first answer of the resumed client is correct, and its release takes nothing from the next holder.
pub(crate) async fn a_client_that_stood_still_knows_that_its_lock_is_over(env: TestEnv) {
    let other = env.client().await;
    let name = env.name("job");
    let mut paused = env.process().await;
    let brief = long().ttl(ms(1200));
    let token = paused.acquire(&name, Side::Mutex, &brief).await;
    assert_eq!(paused.ask(&Command::IsHeld).await, Reply::Held(true));
    paused.pause();
    let next = within("the next grant", brief.ttl + SLACK, mutex(&other, &name).acquire()).await.unwrap();
    assert!(next.token() > token);
    paused.resume();
    assert_eq!(paused.ask(&Command::IsHeld).await, Reply::Held(false));
    assert_eq!(paused.ask(&Command::Release).await, Reply::Released(false));
    next.extend().await.unwrap();
    next.release().await.unwrap().confirmed().unwrap();
    assert_free(&other, &name).await;
}

/// The queue has moved on without the paused waiter, and the waiter does not get its old place back.
pub(crate) async fn a_waiter_that_stood_still_gets_a_new_place(env: TestEnv) {
    let other = env.client().await;
    let name = env.name("job");
    let held = take_free(&mutex(&other, &name)).await;
    let mut paused = env.process().await;
    let options = long().ttl(ms(1200));
    paused.tell(&Command::Acquire { name: name.clone(), side: Side::Mutex, options: options.clone() });
    let place = queue_of(2, &mutex(&other, &name)).await.remove(1);
    paused.pause();
    eventually("its place ends", options.ttl + SLACK, || async {
        queue(&mutex(&other, &name)).await.iter().all(|row| row.entry != place.entry)
    })
    .await;
    held.release().await.unwrap().confirmed().unwrap();
    let next = soon("the next grant", mutex(&other, &name).acquire()).await.unwrap();
    paused.resume();
    queue_of(2, &mutex(&other, &name)).await;
    let passed_by = next.token();
    next.release().await.unwrap().confirmed().unwrap();
    let Reply::Granted(token) = paused.reply().await else { panic!("it did not get the lock") };
    assert!(token > passed_by, "it has its old place");
}
