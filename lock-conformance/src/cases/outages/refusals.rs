//! Servers that are up, but drop data, are full, or refuse clients.

use std::time::Duration;

use lock_core::{BackendErrorKind, DistributedLock, Error, Guard, HoldState, LostReason};
use tokio::task::JoinHandle;

use super::waiters::{assert_has, behind};
use crate::{
    Client, SLACK, TestEnv, Verb,
    audit::{assert_free, eventually, soon, within},
    cases::{
        lease::{deadline_at_least, ms, now},
        steps::{assert_lost, faulty, lasting, long, mutex, refused, take, take_free},
    },
};

/// The server forgets again and again while locks are taken, waited for, renewed and released.
pub(crate) async fn locks_go_on_while_the_server_forgets_what_it_may(env: TestEnv) {
    const ROUNDS: u32 = 30;
    let clients = [env.client().await, env.client().await];
    let kept = take_free(&clients[0].mutex(&env.name("kept")).with_options(lasting())).await;
    let tasks = clients.each_ref().map(|client| {
        let lock = mutex(client, &env.name("busy"));
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let guard = take(&lock).await;
                guard.extend().await.unwrap();
                tokio::time::sleep(ms(10)).await;
                guard.release().await.unwrap().confirmed().unwrap();
            }
        })
    });
    let renewed = now() + kept.ttl() * 4 / 3;
    while now() < renewed || !tasks.iter().all(JoinHandle::is_finished) {
        env.server().forget().await.unwrap();
        assert!(kept.is_held(), "lost: {:?}", kept.state());
        tokio::time::sleep(ms(3)).await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    kept.release().await.unwrap().confirmed().unwrap();
    assert_free(&clients[0], &env.name("busy")).await;
}

/// Existing entries are renewed and handed off. New ones get an error that says why.
pub(crate) async fn a_full_server_renews_and_hands_over_and_takes_nothing_new(env: TestEnv) {
    let (holder, waiter) = (env.client().await, env.client().await);
    let name = env.name("job");
    let held = take_free(&holder.mutex(&name).with_options(lasting())).await;
    let (waiting, place) = behind(&waiter, &name, lasting()).await;
    env.server().fill().await.unwrap();
    let end_time = now() + held.ttl() * 4 / 3;
    while now() < end_time {
        assert!(held.is_held(), "lost: {:?}", held.state());
        assert_full(&waiter, &env.name("other")).await;
        tokio::time::sleep(ms(50)).await;
    }
    held.release().await.unwrap().confirmed().unwrap();
    let guard = soon("the next grant", waiting).await.unwrap();
    assert_has(&guard, &place);
    guard.release().await.unwrap().confirmed().unwrap();
    assert_full(&waiter, &name).await;
    env.server().make_room().await.unwrap();
    assert_free(&waiter, &name).await;
    assert_free(&waiter, &env.name("other")).await;
}

async fn assert_full(client: &Client, name: &str) {
    for answer in [mutex(client, name).acquire().await.map(Some), mutex(client, name).try_acquire().await] {
        let error = refused(answer);
        let Error::Backend { source, .. } = &error else { panic!("{error}") };
        assert_eq!(*source.kind(), BackendErrorKind::OutOfMemory, "{error}");
    }
}

/// Clients that are let in again in time keep their locks and places. A new acquisition gets its error at once.
pub(crate) async fn clients_that_are_locked_out_for_a_while_lose_nothing(env: TestEnv) {
    let (holder, (waiter, asked)) = (env.client().await, faulty(&env).await);
    let name = env.name("job");
    // On a busy machine, a renewal may take the time between a third and a half of the ttl to fail.
    let options = long().ttl(Duration::from_secs(30));
    let held = take_free(&holder.mutex(&name).with_options(options.clone())).await;
    let (waiting, place) = behind(&waiter, &name, options.clone()).await;
    env.server().lock_out().await.unwrap();
    let error = refused(soon("a refusal", mutex(&waiter, &env.name("new")).acquire()).await);
    let Error::Backend { source, .. } = &error else { panic!("{error}") };
    assert_eq!(*source.kind(), BackendErrorKind::Denied, "{error}");
    // Renewals and looks are due after a third of the ttl, and fail. A client that took this error as final would not try again.
    let answered = asked.answers(Verb::Enter);
    let failed = || async { held.state() == HoldState::Suspect && asked.answers(Verb::Enter) > answered + 1 };
    eventually("a renewal fails, and a look is tried again", options.ttl / 2, failed).await;
    assert!(held.is_held() && !waiting.is_finished());
    env.server().let_in().await.unwrap();
    eventually("it is renewed", options.ttl / 2, || async {
        assert!(held.is_held(), "lost: {:?}", held.state());
        held.state() == HoldState::Held
    })
    .await;
    held.release().await.unwrap().confirmed().unwrap();
    let guard = within("the next grant", options.ttl / 3 + SLACK, waiting).await.unwrap();
    assert_has(&guard, &place);
}

/// Their locks are lost at the deadline and not before: the server may still let them in again.
pub(crate) async fn clients_that_are_locked_out_for_longer_lose_their_locks_in_time(env: TestEnv) {
    let client = env.client().await;
    let name = env.name("job");
    let held = take_free(&client.mutex(&name).with_options(long().ttl(ms(900)))).await;
    env.server().lock_out().await.unwrap();
    let deadline = deadline_at_least(&held.hold());
    assert_eq!(within("the loss", held.ttl() + SLACK, held.lost()).await, LostReason::Expired);
    assert!(now() >= deadline, "lost {:?} before its deadline", deadline.since(now()));
    env.server().let_in().await.unwrap();
    let next = soon("the next grant", once_let_in(&client, &name)).await;
    next.release().await.unwrap().confirmed().unwrap();
    assert_lost(held.release().await);
}

/// A refusal may still come from a connection that another task of this client requested before the client was let in again.
async fn once_let_in(client: &Client, name: &str) -> Guard {
    loop {
        match mutex(client, name).acquire().await {
            Ok(guard) => return guard,
            Err(Error::Backend { source, .. }) if *source.kind() == BackendErrorKind::Denied => {
                tokio::time::sleep(ms(10)).await;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}
