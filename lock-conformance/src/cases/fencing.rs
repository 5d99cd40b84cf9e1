//! Fencing tokens.

mod limits;
mod memory;

use std::sync::Arc;

use futures_util::future::join_all;
use lock_core::{
    Claim, Creates, DistributedLock, FencingToken, Guard, LostReason, Outage, Standing, Step, WaitMode,
    sync::Mutex,
};

use self::{
    limits::{
        a_name_without_tokens_left_gives_a_typed_error_and_grants_nothing,
        a_token_past_two_to_the_53_is_exact,
    },
    memory::{
        tokens_grow_across_a_deletion_by_an_operator, tokens_grow_across_a_release_and_an_empty_queue,
        tokens_grow_across_an_expiry, tokens_grow_across_the_loss_of_all_data,
    },
};
use super::{
    lease::{admitted, lock_name, ms, row},
    steps::{LONG, assert_lost, faulty, mutex, queue, reader, take, take_free, writer},
};
use crate::{
    CaseTest, Fault, SLACK, TestEnv, Verb,
    audit::{assert_free, await_queue, soon, within},
};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! fencing_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] fencing {
            every_grant_has_a_larger_token_than_the_one_before ["F01"]
            tokens_grow_across_a_release_and_an_empty_queue ["F02"]
            tokens_grow_across_an_expiry ["F03"]
            tokens_grow_across_a_deletion_by_an_operator ["F04"]
            tokens_grow_across_the_loss_of_all_data ["F05"]
            a_request_that_is_repeated_gets_the_same_token ["F07"]
            what_happens_to_one_name_does_nothing_to_the_tokens_of_another ["F09"]
            a_token_does_not_change_when_its_lock_is_lost ["F10"]
            a_token_past_two_to_the_53_is_exact ["F11"]
            a_name_without_tokens_left_gives_a_typed_error_and_grants_nothing ["F12"]
            readers_have_tokens_between_those_of_the_writers_before_and_after ["F15"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = fencing_cases!(list);

/// Tokens grow in the order of the grants while many clients contend, and the store shows the token that the guard has.
pub(super) async fn every_grant_has_a_larger_token_than_the_one_before(env: TestEnv) {
    let name = env.name("job");
    let grants = Arc::new(Mutex::new(Vec::new()));
    let mut contenders = Vec::new();
    for _ in 0..4 {
        let client = env.client().await;
        for _ in 0..3 {
            let (lock, grants) = (mutex(&client, &name), Arc::clone(&grants));
            contenders.push(tokio::spawn(async move {
                for _ in 0..5 {
                    let guard = lock.acquire().await.unwrap();
                    // A store may learn the token from this.
                    guard.extend().await.unwrap();
                    let shown = lock.holder().await.unwrap().expect("it is held");
                    assert_eq!(shown.token, Some(guard.token()));
                    grants.lock().push(guard.token());
                    guard.release().await.unwrap();
                }
            }));
        }
    }
    for contender in join_all(contenders).await {
        contender.unwrap();
    }
    let grants = grants.lock();
    assert_eq!(grants.len(), 60);
    assert!(grants.is_sorted_by(|earlier, later| earlier < later), "{grants:?}");
}

/// After a lost answer, and when the verb is called twice. A new entry gets a new token.
pub(super) async fn a_request_that_is_repeated_gets_the_same_token(env: TestEnv) {
    let (client, faults) = faulty(&env).await;
    let name = env.name("job");
    let entry = client.entry(&name, Claim::mutex(), LONG);
    let (token, _) = admitted(&client, &entry, Step::Create).await;
    for step in [Step::Create, Step::Again(token), Step::Create] {
        assert_eq!(admitted(&client, &entry, step).await.0, token, "{step:?}");
    }
    let tried = client.backend.enter(&entry, Step::Create, WaitMode::Try).await.unwrap();
    assert!(matches!(tried, Standing::Admitted { token: again, .. } if again == token), "{tried:?}");
    assert_eq!(queue(&client.mutex(&name)).await.len(), 1, "one entry, however often it asks");
    client.backend.leave(&entry, Creates::Answered).await.unwrap();

    // A token that was issued twice differs from the stored one.
    let outage = client.options().ttl(LONG).outage(Outage::Wait);
    faults.next(Verb::Enter, Fault::LoseReply);
    faults.next(Verb::Enter, Fault::LoseReply);
    let guard = client.mutex(&name).acquire_with(&outage).await.unwrap();
    assert!(faults.calls(Verb::Enter) > 2, "the request was not repeated");
    guard.extend().await.unwrap();
    let rows = queue(&client.mutex(&name)).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0].token, Some(guard.token()));
    assert!(guard.token() > token);
    guard.release().await.unwrap();
    assert_free(&client, &name).await;
}

/// Kinds are mixed, and names that are parts of each other; one of them is deleted again and again.
pub(super) async fn what_happens_to_one_name_does_nothing_to_the_tokens_of_another(env: TestEnv) {
    let (client, other) = (env.client().await, env.client().await);
    let names = ["a", "a/", "a/b", "b"].map(|tag| env.name(tag));
    let kept = take_free(&mutex(&client, &names[3])).await;
    let before = kept.token();
    let mut last = [FencingToken::new(0); 3];
    for round in 0..6 {
        let from = if round % 2 == 0 { &client } else { &other };
        let guards = [
            take_free(&mutex(from, &names[0])).await,
            take_free(&writer(from, &names[1])).await,
            take_free(&from.semaphore(&names[2], 3).permits(2).unwrap()).await,
        ];
        for (guard, last) in guards.iter().zip(&mut last) {
            assert!(guard.token() > *last, "`{}` went from {last} to {}", guard.name(), guard.token());
            *last = guard.token();
        }
        env.server().delete(&lock_name(&names[0])).await.unwrap();
        for guard in &guards[1..] {
            let row = row(&other, guard.name(), guard.entry_id()).await;
            assert_eq!(row.expect("only the first was deleted").token, Some(guard.token()));
        }
        let mut guards = guards.into_iter();
        assert_lost(guards.next().expect("one for each name").release().await);
        for guard in guards {
            guard.release().await.unwrap();
        }
    }
    kept.extend().await.unwrap();
    assert_eq!(kept.token(), before);
}

/// It does not change even when another client holds the lock with a larger token.
pub(super) async fn a_token_does_not_change_when_its_lock_is_lost(env: TestEnv) {
    let (client, other) = (env.client().await, env.client().await);
    // On a store without alarms the first renewal finds the eviction, and has to come within the time that the loss may take.
    let lock = client.mutex(&env.name("job")).with_options(client.options().ttl(ms(15_000)));
    let guard = take(&lock).await;
    let (hold, token) = (guard.hold(), guard.token());
    other.locks.operator().evict(guard.name(), guard.entry_id()).await.unwrap();
    let next = take(&mutex(&other, guard.name().as_str())).await;
    assert_eq!(within("the loss", SLACK, guard.lost()).await, LostReason::Gone);
    assert!(next.token() > token);
    assert_eq!((guard.token(), hold.token()), (token, token));
    assert_lost(guard.release().await);
    assert_eq!(hold.token(), token);
    assert!(next.is_held());
}

/// Readers that hold together may have tokens in any order, but no two the same.
pub(super) async fn readers_have_tokens_between_those_of_the_writers_before_and_after(env: TestEnv) {
    let (client, other) = (env.client().await, env.client().await);
    let name = env.name("job");
    let mut last = FencingToken::new(0);
    for _ in 0..3 {
        let first = take(&writer(&client, &name)).await;
        assert!(first.token() > last);
        let readers = [reader(&client, &name), reader(&other, &name), reader(&other, &name)];
        let reading = readers.map(|lock| tokio::spawn(async move { lock.acquire().await.unwrap() }));
        await_queue(&client, &name, 4).await;
        let lock = writer(&other, &name);
        let writing = tokio::spawn(async move { lock.acquire().await.unwrap() });
        await_queue(&client, &name, 5).await;
        let before = first.token();
        first.release().await.unwrap();
        let readers = soon("readers after a writer", join_all(reading)).await;
        let readers = readers.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
        let mut tokens: Vec<_> = readers.iter().map(Guard::token).collect();
        assert!(!writing.is_finished(), "a writer among readers");
        drop(readers);
        let second = soon("a writer after readers", writing).await.unwrap();
        tokens.sort();
        let after = second.token();
        let between = before < tokens[0] && tokens[2] < after;
        assert!(between, "the tokens of readers, {tokens:?}, are not between {before} and {after}");
        tokens.dedup();
        assert_eq!(tokens.len(), 3, "two readers have one token");
        last = second.token();
        second.release().await.unwrap();
    }
}
