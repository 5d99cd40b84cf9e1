//! The order of tokens outlives releases, expiries, deletions and the loss of data.

use lock_core::{DistributedLock, FencingToken};

use crate::{
    SLACK, TestEnv,
    audit::{assert_queue_empties, within},
    cases::{
        lease::{lock_name, ms, snatch},
        steps::{mutex, reader, take_free, writer},
    },
};

/// For each kind of lock, with several clients in turn, also after every client that used the name is gone.
pub(crate) async fn tokens_grow_across_a_release_and_an_empty_queue(env: TestEnv) {
    let (one, two) = (env.client().await, env.client().await);
    let (name, shared) = (env.name("job"), env.name("shared"));
    let (mut last, mut last_shared) = (FencingToken::new(0), FencingToken::new(0));
    for round in 0..10 {
        let client = if round % 3 == 0 { &two } else { &one };
        let guard = take_free(&mutex(client, &name)).await;
        assert!(guard.token() > last, "{} after {last}", guard.token());
        last = guard.token();
        guard.release().await.unwrap();

        let lock = if round % 2 == 0 { reader(client, &shared) } else { writer(client, &shared) };
        let guard = take_free(&lock).await;
        assert!(guard.token() > last_shared, "{} after {last_shared}", guard.token());
        last_shared = guard.token();
        drop(guard);
        assert_queue_empties(client, &shared).await;
    }
}

/// One lock ends because its holder died, another because its living holder does not renew it.
pub(crate) async fn tokens_grow_across_an_expiry(env: TestEnv) {
    let other = env.client().await;
    let name = env.name("job");
    let mut last = FencingToken::new(0);
    for crash in [true, false, true] {
        let client = env.client().await;
        let options = client.options().ttl(ms(250)).renew(false);
        let guard = client.mutex(&name).acquire_with(&options).await.unwrap();
        assert!(guard.token() > last, "{} after {last}", guard.token());
        if crash {
            client.crash().await;
        }
        let next = snatch(&other, &name, guard.ttl() + SLACK).await;
        assert!(next.token() > guard.token(), "{} after {}, which expired", next.token(), guard.token());
        last = next.token();
        next.release().await.unwrap();
    }
}

/// The lock is deleted while it is held, and while another client waits.
pub(crate) async fn tokens_grow_across_a_deletion_by_an_operator(env: TestEnv) {
    let (client, other) = (env.client().await, env.client().await);
    let name = env.name("job");
    let mut last = FencingToken::new(0);
    for _ in 0..4 {
        let guard = take_free(&mutex(&client, &name)).await;
        assert!(guard.token() > last, "{} after {last}, which was deleted", guard.token());
        env.server().delete(&lock_name(&name)).await.unwrap();
        let next = within("the next grant", SLACK, mutex(&other, &name).acquire()).await.unwrap();
        assert!(next.token() > guard.token(), "{} after {}, which was deleted", next.token(), guard.token());
        last = next.token();
        next.release().await.unwrap();
        env.server().delete(&lock_name(&name)).await.unwrap();
    }
}

/// The store loses its counter, too.
pub(crate) async fn tokens_grow_across_the_loss_of_all_data(env: TestEnv) {
    let (client, other) = (env.client().await, env.client().await);
    let name = env.name("job");
    let mut last = FencingToken::new(0);
    for _ in 0..4 {
        for client in [&client, &other] {
            let guard = take_free(&mutex(client, &name)).await;
            assert!(guard.token() > last, "{} after {last}, which was lost", guard.token());
            last = guard.token();
            env.server().flush().await.unwrap();
        }
    }
}
