//! PR25: what fencing tokens survive, and where they end.

mod common;

use std::collections::{BTreeSet, HashMap};

use common::*;
use futures_util::future::join_all;
use lock_core::{BackendError, BackendErrorKind, Departure, FencingToken, Renewal, Step, WaitMode};

const EXACT_TO: u64 = 1 << 53;

/// The last token: the scripts count in ms of which Lua has each exactly.
const LAST: u64 = ((1 << 53) - 2) * 1_000 + 999;

#[tokio::test]
async fn tokens_grow_across_release_delete_flush_and_the_loss_of_all_data() {
    let server = Server::start();
    let mut last = FencingToken::new(0);
    for harm in ["", "DEL job", "FLUSHALL", "restart"] {
        if harm == "restart" {
            server.restart();
        } else if !harm.is_empty() {
            server.command::<()>(harm);
        }
        // The clock that tokens come from counts in ms.
        tokio::time::sleep(ms(2)).await;
        let client = server.client();
        for holder in [mutex("job"), mutex("job")] {
            let token = client.hold(&holder).await;
            assert!(token > last, "{token} after {last}, {harm}");
            last = token;
            client.leave(&holder).await;
        }
    }
}

#[tokio::test]
async fn tokens_follow_the_order_of_the_queue() {
    let server = Server::start();
    let client = server.client();
    let mut last = client.hold(&mutex("job")).await;
    for _ in 0..50 {
        let token = client.queue_up(&mutex("job")).await;
        assert!(token > last);
        last = token;
    }
}

/// PR25: the counter keeps tokens growing when the clock does not.
#[tokio::test]
async fn tokens_grow_when_the_clock_of_the_server_is_behind_them() {
    let server = Server::start();
    let client = server.client();
    let now = u64::try_from(server.command::<(i64, i64)>("TIME").0).unwrap() * 1_000_000;
    let an_hour_ahead = now + 3_600_000_000;
    server.raise_tokens("job", an_hour_ahead);
    for more in 1..4 {
        let holder = mutex("job");
        assert_eq!(client.hold(&holder).await.get(), an_hour_ahead + more);
        client.leave(&holder).await;
    }
}

/// The sequence of an id has three digits in a token. The server itself goes on with a fourth.
#[tokio::test]
async fn more_than_a_thousand_tokens_of_one_ms_grow_and_none_comes_twice() {
    let server = Server::start();
    let client = server.client();
    let now = u64::try_from(server.command::<(i64, i64)>("TIME").0).unwrap() * 1_000_000;
    let ahead = now + 3_600_000_000;
    for (last, next) in [
        (format!("{}-998", ahead / 1_000), [999, 1_000, 1_001]),
        (format!("{}-999", ahead / 1_000), [1_000, 1_001, 1_002]),
        (format!("{}-18446744073709551614", ahead / 1_000), [1_000, 1_001, 1_002]),
    ] {
        for mine in [mutex("job"), reader("job")] {
            server.set_counter("job", &last);
            for more in next {
                let holder = living(mine.clone(), 30_000);
                assert_eq!(client.hold(&holder).await.get(), ahead + more, "{last}");
                client.leave(&holder).await;
            }
        }
    }
}

/// Locks of one slot share the counter, alone and in a batch.
#[tokio::test]
async fn locks_of_one_slot_never_have_the_same_token() {
    let server = Server::start();
    let client = server.client_with("?command_timeout=20s");
    let holders: Vec<_> = (0..600).map(|i| mutex(&format!("{{job}}/{i}"))).collect();
    let tokens = join_all(holders.iter().map(|holder| client.hold(holder))).await;
    let distinct: BTreeSet<_> = tokens.iter().collect();
    assert_eq!(distinct.len(), tokens.len());
    assert_eq!(server.keys().iter().filter(|key| is_counter(key)).count(), 1);
}

#[tokio::test]
async fn a_counter_is_an_empty_stream_without_an_expiry() {
    let server = Server::start();
    let client = server.client();
    let token = client.hold(&mutex("job")).await;
    let key = counter("job");
    assert_eq!(server.bytes::<String>(&[b"TYPE", &key]), "stream");
    assert_eq!(server.bytes::<u64>(&[b"XLEN", &key]), 0);
    assert_eq!(server.bytes::<i64>(&[b"TTL", &key]), -1);
    let info: HashMap<String, redis::Value> = server.bytes(&[b"XINFO", b"STREAM", &key]);
    let last: String = redis::from_redis_value(info["last-generated-id"].clone()).unwrap();
    assert_eq!(last, slots::counter_id(token.get()));
}

#[tokio::test]
async fn a_counter_outlives_a_restart_of_a_server_that_keeps_its_data() {
    for rewrite in [false, true] {
        let server = Server::with(&["--appendonly", "yes", "--appendfsync", "always"]);
        let now = u64::try_from(server.command::<(i64, i64)>("TIME").0).unwrap() * 1_000_000;
        let ahead = now + 3_600_000_000;
        server.raise_tokens("job", ahead);
        let (holder, next) = (mutex("job"), mutex("job"));
        let client = server.client();
        assert_eq!(client.hold(&holder).await.get(), ahead + 1);
        client.leave(&holder).await;
        if rewrite {
            server.command::<String>("BGREWRITEAOF");
            soon(async {
                while !server.command::<String>("INFO persistence").contains("aof_rewrite_in_progress:0")
                    || !server.command::<String>("INFO persistence").contains("aof_rewrite_scheduled:0")
                {
                    tokio::time::sleep(ms(5)).await;
                }
            })
            .await;
        }
        server.restart();
        assert_eq!(server.client().hold(&next).await.get(), ahead + 2, "rewritten: {rewrite}");
    }
}

#[tokio::test]
async fn tokens_past_the_reach_of_a_double_are_exact() {
    let server = Server::start();
    let client = server.client();
    for start in [EXACT_TO - 3, EXACT_TO - 1, EXACT_TO, EXACT_TO + 1, LAST - 5] {
        // A name for which nobody has waited.
        let of = format!("job-{start}");
        server.raise_tokens(&of, start);
        let (holder, waiter) = (mutex(&of), mutex(&of));
        assert_eq!(client.hold(&holder).await.get(), start + 1);
        // One token was drawn by plain commands that found the lock held, and one for the holder, whose own is not written.
        assert_eq!(client.queue_up(&waiter).await.get(), start + 4);
        assert_eq!(server.command::<String>(&format!("GET {of}")), format!("{}~{}", holder.id, start + 3));
        // The heir keeps the token that it got, exact to the last bit.
        client.leave(&holder).await;
        assert_eq!(server.command::<String>(&format!("GET {of}")), format!("{}:{}", waiter.id, start + 4));
        client.leave(&waiter).await;
    }
}

#[tokio::test]
async fn a_slot_without_tokens_left_is_a_typed_error_that_names_the_counter() {
    let server = Server::start();
    let client = server.client();
    for last in [slots::counter_id(LAST), slots::counter_id(u64::MAX), format!("{}-{}", u64::MAX, u64::MAX)] {
        server.set_counter("job", &last);
        for mine in [mutex("job"), semaphore("job", 1, 2), reader("job")] {
            let refused = client.enter(&mine, Step::Create, WaitMode::Queue).await.unwrap_err();
            assert_eq!(*refused.kind(), BackendErrorKind::TokensExhausted, "{last}: {refused}");
            assert_names_the_counter(&refused);
            assert_eq!(server.keys(), [counter("job")], "nothing is written but the counter");
        }
    }
    // Other slots have their own.
    client.hold(&mutex("another")).await;
    // The repair of docs/backends/redis.md.
    server.bytes::<()>(&[b"DEL", &counter("job")]);
    client.hold(&mutex("job")).await;
}

#[tokio::test]
async fn a_counter_of_another_type_is_a_typed_error_and_stays_as_it_is() {
    let server = Server::start();
    let client = server.client();
    for put in ["SET", "RPUSH", "SADD"] {
        server.bytes::<()>(&[put.as_bytes(), &counter("job"), b"1"]);
        let before = server.dump();
        for mine in [mutex("job"), semaphore("job", 1, 2), reader("job")] {
            let refused = client.enter(&mine, Step::Create, WaitMode::Queue).await.unwrap_err();
            assert_eq!(*refused.kind(), BackendErrorKind::ForeignData, "{put}: {refused}");
            assert_names_the_counter(&refused);
        }
        assert_eq!(server.dump(), before, "{put}");
        server.bytes::<()>(&[b"DEL", &counter("job")]);
        let mine = mutex("job");
        client.hold(&mine).await;
        client.leave(&mine).await;
        server.command::<()>("FLUSHALL");
    }
}

/// Renewals and departures need no token.
#[tokio::test]
async fn a_broken_counter_costs_nobody_the_lock_that_is_held() {
    let server = Server::start();
    let client = server.client();
    let (holder, waiter) = (mutex("job"), mutex("job"));
    let token = client.hold(&holder).await;
    let next = client.queue_up(&waiter).await;
    server.bytes::<()>(&[b"DEL", &counter("job")]);
    server.bytes::<()>(&[b"SET", &counter("job"), b"1"]);
    assert!(matches!(client.renew(&holder, token).await, Renewal::Renewed { .. }));
    waiting(client.again(&waiter, next).await);
    assert_eq!(client.leave(&holder).await, Departure::Left);
    assert_eq!(admitted(client.again(&waiter, next).await), next);
    assert_eq!(client.leave(&waiter).await, Departure::Left);
}

/// An operator finds the key in the error as `redis-cli` takes it.
fn assert_names_the_counter(error: &BackendError) {
    let key = counter("job").escape_ascii().to_string();
    assert!(error.to_string().contains(&key), "{key} is not in {error}");
}
