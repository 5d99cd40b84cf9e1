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

/// From several clients in turn, also when nobody knows of the name any more; and for each kind of lock.
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

/// Of a lock whose holder died, and of one whose holder lives and let it end.
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

/// While it is held, and while somebody waits.
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

/// The counter included.
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
