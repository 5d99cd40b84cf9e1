//! A free mutex is created by plain commands, without a script (ADR 28): what that costs, and what keeps its promises. That they never arrive
//! late is in `late_creates.rs`.

mod common;

use std::sync::Arc;

use common::*;
use futures_util::StreamExt;
use lock_core::{
    Backend, BackendErrorKind as Kind, Departure, Entry, Hint, Lease, Operator, Renewal, Standing, Step,
    WaitMode,
};

/// What another client has written in one transaction, as it is before its answer arrives.
fn create_by_hand(server: &Server, entry: &Entry) {
    server.bytes::<()>(&[
        b"SET",
        entry.name.as_str().as_bytes(),
        format!("{}:", entry.id).as_bytes(),
        b"NX",
        b"PX",
        b"30000",
    ]);
}

fn calls(server: &Server, commands: &[&str]) -> Vec<u64> {
    commands.iter().map(|command| server.calls(command)).collect()
}

/// The tokens of what stands in the queue, holders first.
async fn tokens(client: &Client, of: &str) -> Vec<Option<u64>> {
    let rows = client.redis.queue(&name(of)).await.unwrap();
    rows.into_iter().map(|row| row.token.map(lock_core::FencingToken::get)).collect()
}

#[tokio::test]
async fn a_free_mutex_is_created_without_a_script_and_released_by_a_small_one() {
    let server = Server::start();
    let client = plain(&server, "").await;
    let mine = mutex("job");
    client.hold(&mine).await;
    assert_eq!(calls(&server, &["multi", "exists", "xadd", "set", "exec"]), [1; 5]);
    assert_eq!(calls(&server, &["evalsha", "eval", "time"]), [0; 3]);
    assert_eq!(value(&server, "job"), format!("{}:", mine.id));
    server.forget_calls();
    assert_eq!(client.leave(&mine).await, Departure::Left);
    assert_eq!(calls(&server, &["evalsha", "get", "del", "zpopmin"]), [1, 1, 1, 0]);
    assert_eq!(value(&server, "job"), "");
}

#[tokio::test]
async fn the_first_renewal_writes_the_token_and_the_label_stays() {
    let server = Server::start();
    let client = plain(&server, "").await;
    let mine = mutex("job").with_label(Some("web-1".to_owned()));
    let token = client.hold(&mine).await;
    assert_eq!(value(&server, "job"), format!("{}::web-1", mine.id));
    assert_eq!(tokens(&client, "job").await, [None], "only its holder knows it");
    for _ in 0..2 {
        assert!(matches!(client.renew(&mine, token).await, Renewal::Renewed { .. }));
        assert_eq!(value(&server, "job"), format!("{}:{token}:web-1", mine.id));
    }
    assert_eq!(tokens(&client, "job").await, [Some(token.get())]);
    assert_eq!(client.leave(&mine).await, Departure::Left);
}

/// Rules 3 and 4 of ADR 28. The token of the holder, if only it has that, is smaller than the one that the waiter writes into the value.
#[tokio::test]
async fn the_first_waiter_marks_the_holder_which_goes_on_and_hands_over() {
    let server = Server::start();
    let (client, other) = (plain(&server, "").await, server.client());
    let (mine, next, last) = (mutex("job"), mutex("job"), mutex("job"));
    let token = client.hold(&mine).await;
    let mut heir = waiting(other.create(&next).await);
    let behind = other.queue_up(&last).await;
    let marked = value(&server, "job");
    let written: u64 = marked.strip_prefix(&format!("{}~", mine.id)).expect(&marked).parse().unwrap();
    assert!(token.get() < written && written < heir.token.get() && heir.token < behind, "{token} {marked}");
    let shown = tokens(&client, "job").await;
    assert_eq!(shown, [None, Some(heir.token.get()), Some(behind.get())], "that is not what it was told");
    assert!(matches!(client.renew(&mine, token).await, Renewal::Renewed { .. }));
    assert_eq!(value(&server, "job"), format!("{}+{token}", mine.id));
    assert_eq!(client.leave(&mine).await, Departure::Left);
    assert_eq!(soon(heir.hints.next()).await, Some(Hint::Admitted { token: heir.token }));
    assert_eq!(value(&server, "job"), format!("{}+{}", next.id, heir.token), "one more waits");
    assert_eq!(other.leave(&next).await, Departure::Left);
    assert_eq!(value(&server, "job"), format!("{}:{behind}", last.id), "nobody waits");
    assert_eq!(other.leave(&last).await, Departure::Left);
    assert!(server.keys().iter().all(|key| is_counter(key)), "{:?}", server.keys());
}

/// Rule 1 of ADR 28. A holder that crashed leaves a free key behind, and a queue.
#[tokio::test]
async fn a_create_that_finds_a_free_key_and_a_queue_waits_behind_the_queue() {
    let server = Server::start();
    let (client, other) = (plain(&server, "").await, server.client());
    let (dead, first, late) = (mutex("job"), mutex("job"), mutex("job"));
    other.hold(&dead).await;
    let mut first_waiting = waiting(other.create(&first).await);
    server.command::<()>("DEL job");
    server.forget_calls();
    let late_waiting = waiting(client.create(&late).await);
    assert_eq!(calls(&server, &["multi", "evalsha"]), [1, 1]);
    assert_eq!(late_waiting.ahead, 1);
    assert!(first_waiting.token < late_waiting.token);
    assert_eq!(soon(first_waiting.hints.next()).await, Some(Hint::Admitted { token: first_waiting.token }));
}

/// Rule 2 of ADR 28. Whoever created it may have crashed.
#[tokio::test]
async fn every_script_takes_the_lock_from_a_holder_that_has_passed_the_queue() {
    let server = Server::start();
    let (client, other) = (server.client(), server.client());
    for verb in ["again", "create", "leave", "renew"] {
        let (dead, first, passed) = (mutex(verb), mutex(verb), mutex(verb));
        client.hold(&dead).await;
        let mut first_waiting = waiting(client.create(&first).await);
        server.command::<()>(&format!("DEL {verb}"));
        create_by_hand(&server, &passed);
        let token = first_waiting.token;
        match verb {
            "again" => assert_eq!(admitted(client.again(&first, token).await), token),
            "create" => assert_eq!(waiting(other.create(&mutex(verb)).await).ahead, 1),
            "leave" => assert_eq!(other.leave(&mutex(verb)).await, Departure::Absent),
            _ => assert_eq!(other.renew(&mutex(verb), token).await, Renewal::Lost),
        }
        if verb != "again" {
            assert_eq!(soon(first_waiting.hints.next()).await, Some(Hint::Admitted { token }), "{verb}");
        }
        assert!(value(&server, verb).starts_with(&format!("{}", first.id)), "{verb}");
        assert!(matches!(client.renew(&first, token).await, Renewal::Renewed { .. }), "{verb}");
    }
}

/// A queue of the dead is no queue.
#[tokio::test]
async fn a_create_behind_a_queue_of_the_dead_is_granted() {
    let server = Server::start();
    let (client, other) = (plain(&server, "").await, server.client());
    let (holder, waiter) = (mutex("job"), living(mutex("job"), BRIEF));
    other.hold(&holder).await;
    let dead = other.queue_up(&waiter).await;
    server.command::<()>("DEL job");
    outlive(BRIEF).await;
    let mine = mutex("job");
    let token = client.hold(&mine).await;
    assert!(dead < token);
    assert!(matches!(client.renew(&mine, token).await, Renewal::Renewed { .. }));
    assert_eq!(client.leave(&mine).await, Departure::Left);
}

#[tokio::test]
async fn a_create_whose_answer_was_lost_finds_itself_when_it_is_repeated() {
    let server = Server::start();
    let (client, other) = (server.client(), server.client());
    for (of, waited) in [("job", false), ("page", true)] {
        let (mine, next) = (mutex(of), mutex(of));
        create_by_hand(&server, &mine);
        let behind = if waited { Some(other.queue_up(&next).await) } else { None };
        let token = client.hold(&mine).await;
        assert!(behind.is_none_or(|behind| token < behind));
        let mark = if waited { '+' } else { ':' };
        assert_eq!(value(&server, of), format!("{}{mark}{token}", mine.id));
        assert_eq!(client.hold(&mine).await, token, "it keeps its token");
        assert_eq!(client.leave(&mine).await, Departure::Left);
    }
}

/// PR03: of two lives of one entry, the old one is over.
#[tokio::test]
async fn a_value_without_a_token_is_believed_only_where_its_create_was_answered() {
    let server = Server::start();
    let client = plain(&server, "").await;
    let mine = mutex("job");
    let old = client.hold(&mine).await;
    client.leave(&mine).await;
    let token = client.hold(&mine).await;
    assert_eq!(client.renew(&mine, old).await, Renewal::Lost);
    assert!(matches!(client.again(&mine, old).await, Standing::Gone));
    assert_eq!(admitted(client.again(&mine, token).await), token);
    assert_eq!(value(&server, "job"), format!("{}:{token}", mine.id));
    // Another process cannot know.
    let theirs = mutex("page");
    let token = client.hold(&theirs).await;
    assert_eq!(server.client().renew(&theirs, token).await, Renewal::Lost);
}

/// `EXEC` undoes nothing: the key is set although the counter refuses.
#[tokio::test]
async fn a_counter_that_gives_no_token_is_an_error_that_leaves_nothing_behind() {
    let server = Server::start();
    let client = plain(&server, "").await;
    server.bytes::<()>(&[b"DEL", &counter("job")]);
    server.bytes::<()>(&[b"SET", &counter("job"), b"x"]);
    assert_eq!(client.refused(&mutex("job")).await, Kind::ForeignData);
    assert_eq!(value(&server, "job"), "");
    server.set_counter("page", "18446744073709551615-18446744073709551615");
    assert_eq!(client.refused(&mutex("page")).await, Kind::TokensExhausted);
    assert_eq!(value(&server, "page"), "");
}

/// The clock of the server is far behind the counter: a sequence of a thousand is a millisecond.
#[tokio::test]
async fn tokens_grow_where_the_clock_stands_still() {
    let server = Server::start();
    let client = plain(&server, "").await;
    server.set_counter("job", "8007199254740990-990");
    let mut last = 0;
    for _ in 0..20 {
        let entry = mutex("job");
        let token = client.hold(&entry).await.get();
        assert!(last < token, "{last} {token}");
        last = token;
        client.leave(&entry).await;
    }
    assert_eq!(last, 8_007_199_254_740_991_010);
}

/// Out of memory, a create is refused, and what is held is renewed and released (PR20).
#[tokio::test]
async fn a_holder_without_a_written_token_is_renewed_and_released_where_memory_is_short() {
    let server = Server::start();
    let client = plain(&server, "").await;
    let mine = mutex("job");
    let token = client.hold(&mine).await;
    server.command::<()>("CONFIG SET maxmemory 1");
    let refused = client.enter(&mutex("page"), Step::Create, WaitMode::Try).await.unwrap_err();
    assert!(refused.is_transient(), "{refused}");
    assert!(matches!(client.renew(&mine, token).await, Renewal::Renewed { .. }));
    assert_eq!(client.leave(&mine).await, Departure::Left);
    assert_eq!(server.command::<u64>("EXISTS job page"), 0);
}

/// A user that may not end connections, or run transactions, could not keep a create from arriving late.
#[tokio::test]
async fn without_the_right_to_end_connections_a_script_creates() {
    let server = Server::start();
    for (user, forbidden) in [("a", "client|kill"), ("b", "multi"), ("c", "info"), ("d", "client|id")] {
        server.command::<()>(&format!("ACL SETUSER {user} on >pw ~* &* +@all -{forbidden}"));
        let url = server.url().replace("redis://", &format!("redis://{user}:pw@"));
        let keeper = lock_core::Keeper::start().unwrap();
        let redis = lock_redis::Redis::new(format!("{url}?prefix=").parse().unwrap(), &keeper).unwrap();
        let client = Client { redis, keeper };
        for _ in 0..20 {
            let entry = mutex("job");
            client.hold(&entry).await;
            assert!(value(&server, "job").len() > 33, "{user}: the script writes the token");
            client.leave(&entry).await;
        }
    }
}

#[tokio::test]
async fn many_leases_with_and_without_a_written_token_are_renewed_at_once() {
    let server = Server::start();
    let client = plain(&server, "").await;
    let mut leases = Vec::new();
    for i in 0..20 {
        let entry = mutex(&format!("job/{i}"));
        let token = client.hold(&entry).await;
        if i % 2 == 0 {
            client.renew(&entry, token).await;
        }
        leases.push(Lease { entry: Arc::new(entry), token });
    }
    let answers = client.redis.renew(&leases).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Renewal::Renewed { .. }))), "{answers:?}");
    for lease in &leases {
        let written = value(&server, lease.entry.name.as_str());
        assert_eq!(written, format!("{}:{}", lease.entry.id, lease.token));
    }
}
