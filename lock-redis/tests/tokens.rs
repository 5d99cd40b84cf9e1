//! PR25: what fencing tokens survive, and where they end.

mod common;

use common::*;
use lock_core::{BackendErrorKind, FencingToken};

const EXACT_TO: u64 = 1 << 53;

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
    server.bytes::<()>(&[b"SET", &companion("t", "job"), an_hour_ahead.to_string().as_bytes()]);
    for more in 1..4 {
        let holder = mutex("job");
        assert_eq!(client.hold(&holder).await.get(), an_hour_ahead + more);
        client.leave(&holder).await;
    }
    let left: i64 = server.bytes(&[b"TTL", &companion("t", "job")]);
    assert!(left > 29 * 24 * 3_600, "{left}");
}

#[tokio::test]
async fn a_counter_lives_for_a_month_from_the_last_day_of_its_use() {
    let server = Server::start();
    let client = server.client();
    let counter = companion("t", "job");
    let use_it = async || {
        let holder = mutex("job");
        client.hold(&holder).await;
        client.leave(&holder).await;
        server.bytes::<i64>(&[b"TTL", &counter])
    };
    let month = 29 * 24 * 3_600..=30 * 24 * 3_600;
    assert!(month.contains(&use_it().await));
    // As if the last use had been on the day before.
    let yesterday = server.command::<(u64, u64)>("TIME").0 * 1_000_000 - 24 * 3_600 * 1_000_000;
    server.bytes::<()>(&[b"SET", &counter, yesterday.to_string().as_bytes(), b"EX", b"60"]);
    assert!(month.contains(&use_it().await));
}

#[tokio::test]
async fn tokens_past_the_reach_of_a_double_are_exact() {
    let server = Server::start();
    let client = server.client();
    for start in [EXACT_TO - 1, EXACT_TO, EXACT_TO + 1, i64::MAX as u64 - 3] {
        server.bytes::<()>(&[b"SET", &companion("t", "job"), start.to_string().as_bytes()]);
        let (holder, waiter) = (mutex("job"), mutex("job"));
        assert_eq!(client.hold(&holder).await.get(), start + 1);
        assert_eq!(client.queue_up(&waiter).await.get(), start + 2);
        // The heir keeps the token that it got, exact to the last bit.
        client.leave(&holder).await;
        assert_eq!(server.command::<String>("GET job"), format!("{}:{}", start + 2, waiter.id));
        client.leave(&waiter).await;
    }
}

#[tokio::test]
async fn a_name_without_tokens_left_is_a_typed_error_and_nothing_is_written() {
    let server = Server::start();
    let client = server.client();
    server.bytes::<()>(&[b"SET", &companion("t", "job"), i64::MAX.to_string().as_bytes()]);
    let before = server.dump();
    for mine in [mutex("job"), semaphore("job", 1, 2), reader("job")] {
        assert_eq!(client.refused(&mine).await, BackendErrorKind::TokensExhausted);
        assert_eq!(server.dump(), before);
    }
    // Other names have their own.
    client.hold(&mutex("another")).await;
}

#[tokio::test]
async fn a_counter_that_is_no_number_is_a_typed_error_and_stays_as_it_is() {
    let server = Server::start();
    let client = server.client();
    for junk in ["text", "1e300", "nan", "inf", "99999999999999999999999", "9e18"] {
        server.bytes::<()>(&[b"SET", &companion("t", "job"), junk.as_bytes()]);
        let before = server.dump();
        assert_eq!(client.refused(&mutex("job")).await, BackendErrorKind::ForeignData, "{junk}");
        assert_eq!(server.dump(), before, "{junk}");
    }
}
