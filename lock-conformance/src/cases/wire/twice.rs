//! Requests that arrive twice.

use std::{collections::BTreeMap, sync::Arc};

use lock_core::{Claim, Creates, Departure, DistributedLock, Guard, Lease, Renewal, Step};

use super::proxied::assert_holds_alone;
use crate::{
    Client, Critical, Relay, SLACK, TestEnv, Verb,
    audit::{eventually, soon},
    cases::{
        lease::{admitted, ms, waiting},
        steps::{LONG, freed, long, mutex, permits, queue, queue_of, reader, take, take_free, writer},
    },
};

/// Each request arrives twice before its answer, so the client cannot know.
pub(crate) async fn what_arrives_twice_counts_once(env: TestEnv) {
    let (one, two) = (Doubled::new(&env).await, Doubled::new(&env).await);
    let scenario = async {
        each_verb(&env, &one, &two).await;
        renewals(&env, &one).await;
        hand_overs(&env, &one, &two).await;
        shares(&env, &one, &two).await;
        contention(&env, &one, &two).await;
        // Every request, and not only some of each kind.
        one.relay.all_doubled(SLACK).await;
        two.relay.all_doubled(SLACK).await;
    };
    one.relay.watch(two.relay.watch(scenario)).await;
    for verb in [Verb::Enter, Verb::Renew, Verb::Leave] {
        for request in env.wire().requests(verb) {
            let count = one.count(&[request]) + two.count(&[request]);
            assert!(count > 0, "`{request}` of {verb:?} never arrived twice");
        }
    }
}

/// A client whose requests arrive twice.
struct Doubled {
    client: Client,
    relay: Relay,
}

impl Doubled {
    async fn new(env: &TestEnv) -> Self {
        let relay = env.doubling_relay();
        let client = env.client_by(relay.address(), Arc::new(crate::Sound)).await;
        Self { client, relay }
    }

    /// How many requests with these names were answered twice.
    fn count(&self, requests: &[&str]) -> u64 {
        let doubled: BTreeMap<_, _> = self.relay.doubled();
        requests.iter().filter_map(|request| doubled.get(*request)).sum()
    }

    /// Calls a verb, and checks that its request arrived twice.
    async fn twice<T>(&self, env: &TestEnv, verb: Verb, call: impl Future<Output = T>) -> T {
        let requests = env.wire().requests(verb);
        let before = self.count(requests);
        let answer = call.await;
        assert!(self.count(requests) > before, "{verb:?} arrived once: {:?}", self.relay.doubled());
        answer
    }
}

/// Each verb alone: to enter, to wait, to look again, to extend, to leave.
async fn each_verb(env: &TestEnv, one: &Doubled, two: &Doubled) {
    let name = env.name("verbs");
    let [holder, waiter] =
        [one, two].map(|client| Arc::new(client.client.entry(&name, Claim::mutex(), LONG)));
    let enter = |entry, step| one.twice(env, Verb::Enter, admitted(&one.client, entry, step));
    let (token, _) = enter(&holder, Step::Create).await;
    assert_eq!(enter(&holder, Step::Again(token)).await.0, token);
    let wait = |entry, step| two.twice(env, Verb::Enter, waiting(&two.client, entry, step));
    let (place, _) = wait(&waiter, Step::Create).await;
    assert!(place > token);
    assert_eq!(wait(&waiter, Step::Again(place)).await.0, place);

    let lease = Lease { entry: Arc::clone(&holder), token };
    let renewed = one.client.backend.renew(std::slice::from_ref(&lease));
    let renewed = soon("a renewal", one.twice(env, Verb::Renew, renewed)).await;
    assert!(matches!(renewed[..], [Ok(Renewal::Renewed { .. })]), "{renewed:?}");
    let leaves = async |client: &Doubled, entry| {
        let left = client.client.backend.leave(entry, Creates::Answered);
        soon("an answer to leave", client.twice(env, Verb::Leave, left)).await.unwrap()
    };
    assert_eq!(leaves(one, &holder).await, Departure::Left);
    let ended = soon("an answer to renew", one.client.backend.renew(&[lease])).await;
    assert!(matches!(ended[..], [Ok(Renewal::Lost)]), "{ended:?}");
    assert_eq!(admitted(&two.client, &waiter, Step::Again(place)).await.0, place);
    assert_eq!(leaves(two, &waiter).await, Departure::Left);
    freed(&mutex(&one.client, &name)).await;
}

/// Renewals of the keeper, and other requests that prove a lease.
async fn renewals(env: &TestEnv, one: &Doubled) {
    let guard = take_free(&one.client.mutex(&env.name("renewed")).with_options(long().ttl(ms(3000)))).await;
    eventually("renewals that come twice", SLACK * 2, || async {
        env.wire().requests(Verb::Renew).iter().all(|request| one.count(&[request]) > 0)
    })
    .await;
    // Dropped, not released: if the machine stood still, the lock may be lost by now.
    drop(guard);
}

/// Each entry has one row and one token, is granted once, and is released once.
async fn hand_overs(env: &TestEnv, one: &Doubled, two: &Doubled) {
    let name = env.name("queue");
    let (first, second) = (mutex(&one.client, &name), mutex(&two.client, &name));
    let mut held = take_free(&first).await;
    assert_holds_alone(&queue(&first).await, &held);
    for lock in [&second, &first, &second] {
        assert!(lock.try_acquire().await.unwrap().is_none(), "it is held");
        let waiting = tokio::spawn({
            let lock = lock.clone();
            async move { take(&lock).await }
        });
        queue_of(2, &first).await;
        held.extend().await.unwrap();
        let token = held.token();
        release(held).await;
        held = soon("the next grant", waiting).await.unwrap();
        assert!(held.token() > token);
        assert_holds_alone(&queue(&first).await, &held);
    }
    drop(held);
    freed(&first).await;
}

async fn shares(env: &TestEnv, one: &Doubled, two: &Doubled) {
    let name = env.name("page");
    let readers =
        [take_free(&reader(&one.client, &name)).await, take_free(&reader(&two.client, &name)).await];
    let writing = tokio::spawn({
        let lock = writer(&one.client, &name);
        async move { take(&lock).await }
    });
    assert_eq!(queue_of(3, &writer(&one.client, &name)).await.iter().filter(|row| row.admitted).count(), 2);
    for reader in readers {
        release(reader).await;
    }
    let written = soon("the writer", writing).await.unwrap();
    release(written).await;

    let name = env.name("pool");
    let held = [
        take_free(&permits(&one.client, &name, 2, 3)).await,
        take_free(&permits(&two.client, &name, 1, 3)).await,
    ];
    assert!(permits(&one.client, &name, 1, 3).try_acquire().await.unwrap().is_none(), "all permits are held");
    for portion in held {
        release(portion).await;
    }
    freed(&permits(&one.client, &name, 3, 3)).await;
}

async fn contention(env: &TestEnv, one: &Doubled, two: &Doubled) {
    let (name, section) = (env.name("crowd"), Critical::new(1));
    let tasks = [one, two, one, two].map(|client| {
        let (lock, section) = (mutex(&client.client, &name), section.clone());
        tokio::spawn(async move {
            for _ in 0..10 {
                let guard = take(&lock).await;
                drop(section.enter(1));
                release(guard).await;
            }
        })
    });
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(section.visits(), 40);
    freed(&mutex(&one.client, &name)).await;
}

/// The first request is carried out, and its answer counts.
async fn release(guard: Guard) {
    guard.release().await.unwrap().confirmed().unwrap();
}
