//! The stored keys: the ttls of shared keys, data of other clients, and keys of different locks, which never meet.

mod common;

use std::{collections::BTreeSet, time::Duration};

use common::*;
use lock_core::{
    Backend, BackendErrorKind, BootTime, Creates, Departure, Entry, Holder, Operator, Renewal, Standing,
    Step, WaitMode,
};

/// PR19: a reader with 300 ms once took a live writer's set away.
#[tokio::test]
async fn a_short_holder_does_not_take_a_long_one_away() {
    let server = Server::start();
    let client = server.client();
    let long = semaphore("pool", 1, 2);
    let token = client.hold(&long).await;
    let short = living(semaphore("pool", 1, 2), BRIEF);
    let short_token = client.hold(&short).await;
    client.renew(&short, short_token).await;
    for key in [b"pool".to_vec(), companion("e", "pool")] {
        // The ttl of the short one would end in a few seconds.
        assert!(server.bytes::<i64>(&[b"PTTL", &key]) > 10_000, "{key:?}");
    }
    // A set outlives its last lease by a second.
    outlive(BRIEF + 1_300).await;
    assert!(matches!(client.renew(&long, token).await, Renewal::Renewed { .. }));
}

/// PR19, for the queue and its entries.
#[tokio::test]
async fn a_short_waiter_does_not_take_a_long_one_away() {
    let server = Server::start();
    let client = server.client();
    client.hold(&mutex("job")).await;
    client.queue_up(&mutex("job")).await;
    let short = living(mutex("job"), BRIEF);
    let token = client.queue_up(&short).await;
    waiting(client.again(&short, token).await);
    for key in [companion("q", "job"), companion("e", "job")] {
        assert!(server.bytes::<i64>(&[b"PTTL", &key]) > 10_000, "{key:?}");
    }
}

#[tokio::test]
async fn everything_that_is_stored_ends_by_itself() {
    let server = Server::start();
    let client = server.client();
    client.hold(&mutex("job")).await;
    client.queue_up(&mutex("job")).await;
    client.hold(&reader("page")).await;
    client.queue_up(&writer("page")).await;
    client.redis.leave(&mutex("job"), Creates::InDoubt).await.unwrap();
    // A counter of tokens stays: there are at most as many as slots.
    for key in server.keys().into_iter().filter(|key| !is_counter(key)) {
        let ends: i64 = server.bytes(&[b"PTTL", &key]);
        assert!(ends > 0, "{} never ends", String::from_utf8_lossy(&key));
    }
}

/// PR21.
#[tokio::test]
async fn scores_of_a_queue_are_small_numbers_however_large_the_tokens() {
    let server = Server::start();
    let client = server.client();
    server.raise_tokens("job", 9_007_199_254_740_993);
    client.hold(&mutex("job")).await;
    for _ in 0..3 {
        client.queue_up(&mutex("job")).await;
    }
    let queue: Vec<(String, u64)> =
        server.bytes(&[b"ZRANGE", &companion("q", "job"), b"0", b"-1", b"WITHSCORES"]);
    assert_eq!(queue.into_iter().map(|(_, score)| score).collect::<Vec<_>>(), [1, 2, 3]);
}

/// PR24.
#[tokio::test]
async fn a_foreign_holder_is_waited_for_and_never_touched() {
    let server = Server::start();
    let client = server.client();
    let near = "0123456789abcdef0123456789abcdef";
    let almost = [format!("{near}0:1"), format!("{near}:1x"), format!("1:{near}")];
    for value in ["their-token", "12:34", "{}"].into_iter().chain(almost.iter().map(String::as_str)) {
        server.command::<()>(&format!("SET job {value}"));
        let mine = mutex("job");
        let tried = client.enter(&mine, Step::Create, WaitMode::Try).await.unwrap();
        assert!(matches!(tried, Standing::Busy));
        let place = waiting(client.create(&mine).await);
        assert_eq!(place.holder, Some(Holder::Foreign { expires: false }));
        assert_eq!(place.ahead, 1);
        client.renew(&mine, place.token).await;
        client.redis.evict(&name("job"), mutex("job").id).await.unwrap();
        client.leave(&mutex("job")).await;
        waiting(client.again(&mine, place.token).await);
        assert_eq!(server.command::<String>("GET job"), value);
        assert_eq!(server.command::<i64>("PTTL job"), -1);

        server.command::<()>("DEL job");
        assert_eq!(admitted(client.again(&mine, place.token).await), place.token);
        assert_eq!(client.leave(&mine).await, Departure::Left);
    }
}

/// PR24: foreign holders leave without a message.
#[tokio::test]
async fn behind_a_foreign_holder_a_waiter_asks_less_often_the_longer_it_waits() {
    let server = Server::start();
    let client = server.client();
    server.command::<()>("SET job theirs PX 600000");
    let mine = mutex("job");
    let first = Look::at(&client, &mine, Step::Create).await;
    first.assert_pause(ms(50)..=ms(50));
    let behind = Look::at(&client, &mutex("job"), Step::Create).await;
    behind.assert_pause(ms(10_000)..=ms(30_000));
    tokio::time::sleep(ms(600)).await;
    let later = Look::at(&client, &mine, Step::Again(first.token)).await;
    // A quarter of the time that it has waited. Each end of that time is known as precisely as its request was quick.
    let waited = later.asked.since(first.answered)..=later.answered.since(first.asked);
    let quarter = |waited: Duration| (waited / 4).clamp(ms(50), ms(500));
    assert!(quarter(*waited.start()) >= ms(150));
    later.assert_pause(quarter(*waited.start())..=quarter(*waited.end()));
    assert_eq!(
        waiting(client.again(&mine, first.token).await).holder,
        Some(Holder::Foreign { expires: true })
    );
}

/// PR24: this look comes sooner than the next regular one.
#[tokio::test]
async fn behind_a_foreign_holder_a_waiter_asks_again_when_its_lease_ends() {
    let server = Server::start();
    let client = server.client();
    for round in 0.. {
        let of = format!("job {round}");
        server.bytes::<()>(&[b"SET", of.as_bytes(), b"theirs", b"PX", b"20"]);
        let asked = client.keeper.now();
        let standing = client.create(&mutex(&of)).await;
        let took = client.keeper.now().since(asked);
        // A lease that has ended in the meantime shows nothing, nor does a slow answer.
        if let Standing::Waiting { look_again, .. } = standing
            && took < ms(20)
        {
            let pause = look_again.since(asked);
            assert!(pause < ms(50), "it asks again after {pause:?}, as if that one had no lease");
            break;
        }
        assert!(round < 1_000, "no answer came within 20 ms");
    }
}

/// When a waiter has to look again, and the two moments between which the server answered.
struct Look {
    token: lock_core::FencingToken,
    asked: BootTime,
    again: BootTime,
    answered: BootTime,
}

impl Look {
    async fn at(client: &Client, entry: &Entry, step: Step) -> Self {
        let asked = client.keeper.now();
        let place = waiting(client.enter(entry, step, WaitMode::Queue).await.unwrap());
        Self { token: place.token, asked, again: place.look_again, answered: client.keeper.now() }
    }

    /// The pause is counted from the answer, which came between the two known moments; the server counts in whole milliseconds, and adds
    /// one.
    fn assert_pause(&self, bounds: std::ops::RangeInclusive<Duration>) {
        let Self { asked, again, answered, .. } = *self;
        assert!(again >= asked + *bounds.start(), "too early: {:?} after it was asked", again.since(asked));
        let latest = answered + *bounds.end() + ms(2);
        assert!(again <= latest, "too late: {:?} after it was answered", again.since(answered));
    }
}

/// PR24 for the opposite case.
#[tokio::test]
async fn a_foreign_client_is_kept_out_while_we_hold_and_only_then() {
    let server = Server::start();
    let client = server.client();
    let mine = mutex("job");
    client.hold(&mine).await;
    assert!(!server.command::<bool>("SETNX job theirs"));
    client.leave(&mine).await;
    assert!(server.command::<bool>("SETNX job theirs"));
}

#[tokio::test]
async fn data_of_another_type_is_a_typed_error_and_stays_as_it_is() {
    let server = Server::start();
    let client = server.client();
    for put in ["RPUSH job data", "SADD job data", "HSET job k data", "ZADD job 1 data", "XADD job * k data"]
    {
        server.command::<()>(put);
        let before = server.locks();
        for mine in [mutex("job"), semaphore("job", 1, 2), writer("job")] {
            assert_eq!(client.refused(&mine).await, BackendErrorKind::ForeignData, "{put}");
            assert_eq!(client.leave(&mine).await, Departure::Absent);
            let token = lock_core::FencingToken::new(1);
            assert_eq!(client.renew(&mine, token).await, Renewal::Lost);
        }
        let queue = client.redis.queue(&name("job")).await;
        assert_eq!(*queue.unwrap_err().kind(), BackendErrorKind::ForeignData);
        assert_eq!(server.locks(), before);
        server.command::<()>("DEL job");
    }
    server.command::<()>("SET job theirs");
    for mine in [semaphore("job", 1, 2), reader("job")] {
        assert_eq!(client.refused(&mine).await, BackendErrorKind::ForeignData);
    }
    assert_eq!(server.command::<String>("GET job"), "theirs");
}

#[tokio::test]
async fn a_companion_of_another_type_is_a_typed_error_and_not_overwritten() {
    let server = Server::start();
    let client = server.client();
    for key in [companion("q", "job"), companion("e", "job"), counter("job")] {
        server.command::<()>("FLUSHALL");
        client.hold(&mutex("job")).await;
        server.bytes::<()>(&[b"DEL", &key]);
        server.bytes::<()>(&[b"RPUSH", &key, b"data"]);
        let refused = client.refused(&mutex("job")).await;
        assert_eq!(refused, BackendErrorKind::ForeignData, "{}", key.escape_ascii());
        assert_eq!(server.bytes::<u64>(&[b"LLEN", &key]), 1);
    }
}

/// Names whose keys could collide if code split names at some character.
const NASTY: [&str; 24] = [
    "a",
    "a/b",
    "a/",
    "/",
    "a:b",
    "{",
    "}",
    "{}",
    "}{",
    "{}{a}",
    "a}b",
    "{a}b",
    "{a",
    "{{a}}",
    "a{b}c",
    "a{}b{c}",
    "1q{a}",
    "\u{ff}1q{a}",
    "\u{ff}1e{a}",
    "*",
    "?",
    "[ab]",
    "\0",
    "a b",
];

/// The keys that only one lock has.
fn own_keys(server: &Server) -> usize {
    server.keys().iter().filter(|key| !is_counter(key)).count()
}

/// Uses a mutex so that each of its keys is there.
async fn use_all_keys(client: &Client, of: &str) {
    client.hold(&mutex(of)).await;
    client.queue_up(&mutex(of)).await;
    client.redis.leave(&mutex(of), Creates::InDoubt).await.unwrap();
}

#[tokio::test]
async fn keys_of_different_locks_never_meet() {
    let server = Server::start();
    let client = server.client();
    for (used, of) in NASTY.iter().enumerate() {
        assert_eq!(own_keys(&server), 4 * used, "{of:?}");
        use_all_keys(&client, of).await;
    }
    let mut listed: Vec<_> = NASTY.into();
    listed.sort_unstable();
    let names = client.redis.list("").await.unwrap();
    assert_eq!(names.iter().map(lock_core::LockName::as_str).collect::<Vec<_>>(), listed);
}

/// PR24: the slots that a cluster itself computes.
#[tokio::test]
async fn all_keys_of_a_lock_have_one_slot_of_a_cluster() {
    let server = Server::start();
    let cluster = Server::with(&["--cluster-enabled", "yes"]);
    for prefix in ["", "locks:", "{app}:", "a}"] {
        let client =
            server.client_with(&format!("?prefix={}", prefix.replace('{', "%7B").replace('}', "%7D")));
        for of in NASTY {
            server.command::<()>("FLUSHALL");
            use_all_keys(&client, of).await;
            let keys = server.keys();
            assert_eq!(keys.len(), 5);
            let slots: BTreeSet<u16> =
                keys.iter().map(|key| cluster.bytes(&[b"CLUSTER", b"KEYSLOT", key])).collect();
            assert_eq!(slots.len(), 1, "{prefix:?} {of:?}");
        }
    }
}

#[tokio::test]
async fn a_name_of_four_kib_has_keys_of_its_own() {
    let server = Server::start();
    let client = server.client();
    let (one, other) = ("x".repeat(4096), format!("{}y", "x".repeat(4095)));
    use_all_keys(&client, &one).await;
    use_all_keys(&client, &other).await;
    assert_eq!(own_keys(&server), 8);
}

#[tokio::test]
async fn clients_of_different_prefixes_do_not_meet() {
    let server = Server::start();
    let (one, other) = (server.client_with("?prefix=one:"), server.client_with("?prefix=other:"));
    one.hold(&mutex("job")).await;
    other.hold(&mutex("job")).await;
    assert_eq!(one.redis.queue(&name("job")).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_value_of_a_mutex_is_entry_token_and_label() {
    let server = Server::start();
    let client = server.client();
    for label in [None, Some(""), Some("web-1"), Some("a:b\n\0ü")] {
        let mine = mutex("job").with_label(label.map(str::to_owned));
        let token = client.hold(&mine).await;
        let suffix = label.map(|label| format!(":{label}")).unwrap_or_default();
        let unwritten = format!("{}:{suffix}", mine.id);
        let written = format!("{}:{token}{suffix}", mine.id);
        assert!([&unwritten, &written].contains(&&server.command::<String>("GET job")));
        client.renew(&mine, token).await;
        assert_eq!(server.command::<String>("GET job"), written);
        let place = waiting(client.create(&mutex("job")).await);
        assert_eq!(place.holder, Some(Holder::Ours { label: label.map(str::to_owned) }));
        let rows = client.redis.queue(&name("job")).await.unwrap();
        assert_eq!(rows[0].label.as_deref(), label);
        server.command::<()>("FLUSHALL");
    }
}

/// The format allows both, so that a client that writes them needs no other format (ADR 1).
#[tokio::test]
async fn a_value_that_is_marked_or_has_no_token_yet_is_one_of_ours() {
    let server = Server::start();
    let client = server.client();
    for (rest, token) in [("+7:web-1", Some(7)), ("+7", Some(7)), (":", None), ("::web-1", None), ("+", None)]
    {
        let (mine, heir) = (mutex("job"), mutex("job"));
        let value = format!("{}{rest}", mine.id);
        server.bytes::<()>(&[b"SET", b"job", value.as_bytes(), b"PX", b"60000"]);
        let token = token.map(lock_core::FencingToken::new);
        let rows = client.redis.queue(&name("job")).await.unwrap();
        assert_eq!((rows[0].entry, rows[0].token), (Some(mine.id), token), "{rest}");
        assert_eq!(client.redis.list("").await.unwrap(), [name("job")], "{rest}");
        if let Some(token) = token {
            assert!(matches!(client.renew(&mine, token).await, Renewal::Renewed { .. }), "{rest}");
        }
        let another = lock_core::FencingToken::new(77);
        assert_eq!(client.renew(&mine, another).await, Renewal::Lost, "{rest}");
        let place = waiting(client.create(&heir).await);
        assert!(matches!(place.holder, Some(Holder::Ours { .. })), "{rest}: {:?}", place.holder);
        assert_eq!(client.leave(&mine).await, Departure::Left, "{rest}");
        assert_eq!(admitted(client.again(&heir, place.token).await), place.token, "{rest}");
        client.leave(&heir).await;
    }
}
