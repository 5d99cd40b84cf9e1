//! Tokens near the limits of integers and floating-point numbers.

use std::sync::Arc;

use lock_core::{BackendErrorKind, Claim, DistributedLock, Entry, Error, FencingToken, Lease, Renewal, Step};

use crate::{
    Client, TestEnv,
    audit::{assert_queue_empties, await_queue},
    cases::{
        lease::{admitted, lock_name, row},
        steps::{LONG, mutex, queue, refused, take, take_free},
    },
};

/// From here on, floating-point numbers cannot represent every integer.
const TWO_TO_THE_53: u64 = 1 << 53;

/// In every verb, in the queue and in a hint, each token is larger than the last, and none is confused with its neighbour.
pub(crate) async fn a_token_past_two_to_the_53_is_exact(env: TestEnv) {
    let (client, other) = (env.client().await, env.client().await);
    let name = env.name("job");
    for start in [TWO_TO_THE_53 - 2, TWO_TO_THE_53 + 1000, (1 << 60) + 1] {
        let mut last = FencingToken::new(start);
        env.server().raise_tokens(&lock_name(&name), last).await.unwrap();
        for _ in 0..5 {
            let entry = client.entry(&name, Claim::mutex(), LONG);
            let (token, _) = admitted(&client, &entry, Step::Create).await;
            assert!(token > last, "{token} after {last}");
            last = token;
            assert_eq!(admitted(&client, &entry, Step::Again(token)).await.0, token);
            let shown = row(&other, &entry.name, entry.id).await.expect("it holds the lock");
            assert_eq!(shown.token, Some(token));
            assert_renews_only(&client, &entry, token).await;
            client.backend.operator().evict(&entry.name, entry.id).await.unwrap();
        }
        let guard = take_free(&mutex(&client, &name)).await;
        assert!(guard.token() > last, "{} after {last}", guard.token());
        let lock = mutex(&other, &name);
        let waiter = tokio::spawn(async move { take(&lock).await });
        await_queue(&client, &name, 2).await;
        let waits = queue(&mutex(&client, &name)).await[1].token;
        let last = guard.token();
        guard.release().await.unwrap();
        let next = waiter.await.unwrap();
        assert!(next.token() > last && Some(next.token()) == waits, "{} after {last}", next.token());
        next.release().await.unwrap();
    }
}

/// Checks that neither neighbour of a token renews its lease.
async fn assert_renews_only(client: &Client, entry: &Entry, token: FencingToken) {
    let (number, entry) = (token.get(), Arc::new(entry.clone()));
    let leases = [number - 1, number, number + 1]
        .map(|number| Lease { entry: Arc::clone(&entry), token: FencingToken::new(number) });
    let answers = client.backend.renew(&leases).await;
    let [Ok(Renewal::Lost), Ok(Renewal::Renewed { .. }), Ok(Renewal::Lost)] = answers[..] else {
        panic!("a token beside {token} was taken for it: {answers:?}")
    };
}

/// Every caller gets the error, and nothing is left in the queue.
pub(crate) async fn a_name_without_tokens_left_gives_a_typed_error_and_grants_nothing(env: TestEnv) {
    let client = env.client().await;
    let name = env.name("job");
    env.server().raise_tokens(&lock_name(&name), FencingToken::new(u64::MAX)).await.unwrap();
    for error in [
        refused(mutex(&client, &name).acquire().await),
        refused(mutex(&client, &name).try_acquire().await),
        refused(client.rwlock(&name).read().acquire().await),
    ] {
        let Error::Backend { source, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*source.kind(), BackendErrorKind::TokensExhausted, "{error:?}");
        assert!(error.to_string().contains("use another name"), "{error}");
        assert!(!error.is_transient());
    }
    assert!(queue(&mutex(&client, &name)).await.is_empty());
    assert_queue_empties(&client, &name).await;
}
