//! The operations for operators, and the problems of a server that a diagnosis finds.

mod common;

use common::*;
use futures_util::StreamExt;
use lock_conformance::Port;
use lock_core::{Backend, BackendErrorKind, Claim, Departure, Keeper, Operator, Renewal};
use lock_redis::{ConnectError, Redis, RedisConfig};

#[tokio::test]
async fn a_queue_shows_holders_first_and_leaves_out_the_dead() {
    let server = Server::start();
    let client = server.client();
    let (first, second) = (reader("page").with_label(Some("one".into())), reader("page"));
    client.hold(&first).await;
    client.hold(&living(reader("page"), BRIEF)).await;
    client.hold(&second).await;
    let (dead, last) = (living(writer("page"), BRIEF), writer("page").with_label(Some("last: ü".into())));
    client.queue_up(&dead).await;
    let asked = client.keeper.now();
    let token = client.queue_up(&last).await;
    outlive(BRIEF).await;

    let rows = client.redis.queue(&name("page")).await.unwrap();
    let seen: Vec<_> = rows.iter().map(|row| (row.entry.unwrap(), row.admitted)).collect();
    let readers = [first.id, second.id];
    assert!(seen[..2].iter().all(|(id, admitted)| readers.contains(id) && *admitted), "{seen:?}");
    assert_eq!(seen[2..], [(last.id, false)]);
    assert_eq!(rows[2].claim, Claim::writer());
    assert_eq!(rows[2].token, Some(token));
    assert_eq!(rows[2].label.as_deref(), Some("last: ü"));
    let (left, passed) = (rows[2].lease_left.unwrap(), client.keeper.now().since(asked));
    assert!(left + ms(BRIEF) <= last.ttl && left + passed >= last.ttl, "{left:?} after {passed:?}");
}

/// A waiter may wait with a shorter lease than it holds with.
#[tokio::test]
async fn a_holder_is_shown_with_the_lease_it_holds_not_the_one_it_waited_with() {
    let server = Server::start();
    let client = server.client();
    for brief in [living(reader("page"), 6_000), living(semaphore("pool", 1, 2), 6_000)] {
        let token = client.hold(&brief).await;
        let held = living(brief, 30_000);
        let asked = client.keeper.now();
        assert_eq!(admitted(client.again(&held, token).await), token);
        let rows = client.redis.queue(&held.name).await.unwrap();
        let (left, passed) = (rows[0].lease_left.unwrap(), client.keeper.now().since(asked));
        // In whole milliseconds.
        assert!(left <= held.ttl && left + passed + ms(1) >= held.ttl, "{left:?} after {passed:?}");
    }
}

#[tokio::test]
async fn a_queue_shows_a_foreign_holder_as_one_without_an_entry() {
    let server = Server::start();
    let client = server.client();
    server.command::<()>("SET job theirs");
    client.queue_up(&mutex("job")).await;
    let rows = client.redis.queue(&name("job")).await.unwrap();
    assert_eq!((rows[0].entry, rows[0].admitted, rows[0].lease_left), (None, true, None));
    assert!(rows[1].entry.is_some() && !rows[1].admitted);
}

#[tokio::test]
async fn a_long_queue_is_shown_whole_and_in_order() {
    let server = Server::start();
    let client = server.client();
    let holder = mutex("job");
    let token = client.hold(&holder).await;
    let mut tokens = vec![token];
    for _ in 0..600 {
        tokens.push(client.queue_up(&mutex("job")).await);
    }
    client.renew(&holder, token).await;
    let rows = client.redis.queue(&name("job")).await.unwrap();
    assert_eq!(rows.iter().filter_map(|row| row.token).collect::<Vec<_>>(), tokens);
}

#[tokio::test]
async fn a_list_has_the_live_names_of_its_prefix_and_no_data_of_others() {
    let server = Server::start();
    for prefix in ["", "locks:", "l*ck"] {
        server.command::<()>("FLUSHALL");
        let client = server.client_with(&format!("?prefix={prefix}"));
        for of in ["a*", "a*b", "ab", "b", "a{x}", "a{y"] {
            client.hold(&mutex(of)).await;
        }
        client.hold(&reader("a*r")).await;
        let left = mutex("a*gone");
        client.hold(&left).await;
        client.leave(&left).await;
        client.hold(&living(mutex("a*dead"), BRIEF)).await;
        // Only waiters, behind the lock of another library.
        server.command::<()>(&format!("SET {prefix}a*w theirs"));
        client.queue_up(&mutex("a*w")).await;
        for data in ["SET a*1 theirs", "RPUSH a*2 theirs", "ZADD a*3 1 theirs", "HSET a*4 k v"] {
            server.command::<()>(&data.replace("a*", &format!("{prefix}a*")));
        }
        outlive(BRIEF).await;
        let list = async |start: &str| {
            let names = client.redis.list(start).await.unwrap();
            names.into_iter().map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(list("a*").await, ["a*", "a*b", "a*r", "a*w"], "{prefix}");
        assert_eq!(list("").await, ["a*", "a*b", "a*r", "a*w", "ab", "a{x}", "a{y", "b"], "{prefix}");
        assert_eq!(list("c").await, [""; 0]);
    }
}

#[tokio::test]
async fn an_eviction_frees_the_lock_and_alarms_its_holder() {
    for (mine, next) in [(mutex("job"), mutex("job")), (writer("page"), writer("page"))] {
        let server = Server::start();
        let (holders, operator) = (server.client(), server.client());
        let mut alarms = holders.redis.alarms();
        let token = holders.hold(&mine).await;
        let next_token = holders.queue_up(&next).await;
        let of = mine.name.clone();
        assert_eq!(operator.redis.evict(&of, mine.id).await.unwrap(), Departure::Left);
        assert_eq!(soon(alarms.next()).await, Some(mine.id));
        assert_eq!(holders.renew(&mine, token).await, Renewal::Lost);
        assert!(matches!(holders.renew(&next, next_token).await, Renewal::Renewed { .. }));
        assert_eq!(operator.redis.evict(&of, mine.id).await.unwrap(), Departure::Absent);
    }
}

#[tokio::test]
async fn a_waiter_can_be_evicted_too() {
    let server = Server::start();
    let client = server.client();
    client.hold(&mutex("job")).await;
    let waiter = mutex("job");
    let token = client.queue_up(&waiter).await;
    assert_eq!(client.redis.evict(&name("job"), waiter.id).await.unwrap(), Departure::Left);
    assert!(matches!(client.again(&waiter, token).await, lock_core::Standing::Gone));
    assert_eq!(client.redis.queue(&name("job")).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_is_diagnosed_by_its_facts_and_its_problems() {
    let server = Server::start();
    let client = server.client();
    let problems = async || client.redis.diagnose().await.unwrap().problems;
    let only = async |says: &str| {
        let found = problems().await;
        assert!(found.len() == 1 && found[0].contains(says), "{found:?}");
    };
    only("nothing is written to disk").await;
    server.command::<()>("CONFIG SET appendonly yes");
    server.command::<()>("CONFIG SET maxmemory 100mb");
    assert_eq!(problems().await, [""; 0]);
    server.command::<()>("CONFIG SET maxmemory-policy allkeys-lru");
    only("noeviction").await;
    server.command::<()>("CONFIG SET maxmemory-policy noeviction");
    server.command::<()>("CONFIG SET maxmemory 1");
    only("out of memory").await;
    server.command::<()>("CONFIG SET maxmemory 0");
    server.command::<()>("REPLICAOF 127.0.0.1 1");
    only("connect to its master").await;

    let asked = client.keeper.now();
    let facts = client.redis.diagnose().await.unwrap().facts;
    let took = client.keeper.now().since(asked);
    let fact = |name| facts.iter().find(|(fact, _)| *fact == name).map(|(_, value)| value.as_str());
    assert!(fact("version").unwrap().starts_with(|c: char| c.is_ascii_digit()));
    assert_eq!(fact("persistence"), Some("aof, fsync everysec"));
    assert_eq!(fact("role"), Some("slave"));
    assert_eq!(fact("mode"), Some("standalone"));
    // Both clocks are the same one, so the difference is at most the time that the question took.
    let ahead = fact("clock ahead by ms").unwrap().parse::<i64>().unwrap();
    assert!(u128::from(ahead.unsigned_abs()) <= took.as_millis() + 1, "{ahead} in {took:?}");
}

/// A counter is shared by all locks of its slot, so one that is broken or was raised concerns all of them.
#[tokio::test]
async fn counters_that_are_broken_or_ahead_of_the_clock_are_problems() {
    let server = Server::start();
    server.command::<()>("CONFIG SET appendonly yes");
    let client = server.client();
    let told = async || {
        let diagnosis = client.redis.diagnose().await.unwrap();
        let present = diagnosis.facts.into_iter().find(|(fact, _)| *fact == "token counters").unwrap().1;
        (present, diagnosis.problems)
    };
    client.hold(&mutex("job")).await;
    client.hold(&mutex("another")).await;
    assert_eq!(told().await, ("2 of 16384".to_owned(), vec![]));
    let key = counter("job").escape_ascii().to_string();
    for (id, says) in
        [("9007199254740991-0", "at its end"), ("9000000000000-0", "ahead of the server's clock")]
    {
        server.set_counter("job", id);
        let (present, problems) = told().await;
        assert_eq!(present, "2 of 16384");
        assert!(problems.len() == 1, "{problems:?}");
        assert!(problems[0].contains(says) && problems[0].contains(&key), "{problems:?}");
    }
    server.bytes::<()>(&[b"DEL", &counter("job")]);
    server.bytes::<()>(&[b"RPUSH", &counter("job"), b"data"]);
    let (_, problems) = told().await;
    assert!(problems.len() == 1 && problems[0].contains("holds a list"), "{problems:?}");
    assert!(problems[0].contains(&key), "{problems:?}");
    // The repair that it names.
    server.bytes::<()>(&[b"DEL", &counter("job")]);
    assert_eq!(told().await, ("1 of 16384".to_owned(), vec![]));
}

/// A user who may read and publish knows the channels, the entries and the tokens.
#[tokio::test]
async fn a_forged_hint_makes_a_waiter_that_confirms_look_and_nothing_more() {
    let server = Server::start();
    let (holder, client) = (server.client(), server.client_with("?confirm_hints=true"));
    let (mine, next) = (mutex("job"), mutex("job"));
    holder.hold(&mine).await;
    let mut heir = waiting(client.create(&next).await);
    let forged = format!("A {} {}", next.id, heir.token);
    for channel in server.command::<Vec<Vec<u8>>>("PUBSUB CHANNELS") {
        server.bytes::<()>(&[b"PUBLISH", &channel, forged.as_bytes()]);
    }
    assert_eq!(soon(heir.hints.next()).await, Some(lock_core::Hint::Changed));
    let mut heir = waiting(client.again(&next, heir.token).await);
    holder.leave(&mine).await;
    assert_eq!(soon(heir.hints.next()).await, Some(lock_core::Hint::Changed));
    assert_eq!(admitted(client.again(&next, heir.token).await), heir.token);
}

/// Whether the diagnosis says that the user `spy` can forge hints.
async fn told_of_spy(client: &Client) -> bool {
    let problems = client.redis.diagnose().await.unwrap().problems;
    problems.iter().any(|problem| problem.contains("can make a waiter believe") && problem.contains("spy"))
}

#[tokio::test]
async fn users_who_may_forge_a_hint_are_a_problem_unless_hints_are_confirmed() {
    let server = Server::start();
    server.command::<()>("ACL SETUSER spy on nopass ~* &* -@all +@read +publish");
    assert!(told_of_spy(&server.client()).await);
    assert!(!told_of_spy(&server.client_with("?confirm_hints=true")).await);
}

/// The rules vary, and the server itself shows whether the user can do it.
#[tokio::test]
async fn who_may_publish_on_our_channels_and_not_write_our_keys_is_told_of() {
    let server = Server::start();
    let client = server.client_with("?prefix=locks:");
    let may = |command: &str| {
        let answer: String = server.command(&format!("ACL DRYRUN spy {command}"));
        answer == "OK"
    };
    let mut found = 0;
    for rules in [
        "~* &* -@all +@read +publish",
        "~* allchannels +@all -@write",
        "%R~* &* -@all +@fast",
        "~* &* -@all +@fast",
        "~other:* allchannels +@all",
        "~* &* +@all",
        "~* &other:* +@all",
        "~* &* -@all +@read +@fast -@fast",
        "-@all (&locks:* +publish)",
        "-@all (&* +@fast) (~other:* +@all)",
        "-@all (&* +@fast) (~locks:* +@all)",
        "-@all (&* +get) (~* +@read +publish)",
        "~* &* +@all -publish (%R~* &other:* +publish)",
    ] {
        server.command::<()>(&format!("ACL SETUSER spy reset on nopass resetchannels {rules}"));
        let forges = may("PUBLISH locks:x y") && !may("SET locks:x y") && !may("ZADD locks:x 1 y");
        assert_eq!(told_of_spy(&client).await, forges, "{rules}");
        found += u32::from(forges);
    }
    assert_eq!(found, 6);
}

#[tokio::test]
async fn connecting_checks_that_a_server_of_the_right_sort_answers() {
    let server = Server::start();
    let keeper = Keeper::start().unwrap();
    let connect = async |url: String| {
        let config: RedisConfig = url.parse().unwrap();
        Redis::connect(config, &keeper).await
    };
    connect(server.url()).await.unwrap();
    server.command::<()>("CONFIG SET requirepass secret");
    match connect(server.url()).await.unwrap_err() {
        ConnectError::Store(error) => assert_eq!(*error.kind(), BackendErrorKind::Denied),
        other => panic!("{other}"),
    }
    connect(server.url().replace("//", "//:secret@")).await.unwrap();
    // While this port is reserved, no program gets it or listens there.
    let port = Port::reserve();
    match connect(format!("redis://127.0.0.1:{port}")).await.unwrap_err() {
        ConnectError::Store(error) => assert_eq!(*error.kind(), BackendErrorKind::Unreachable),
        other => panic!("{other}"),
    }
    keeper.stop();
}

#[tokio::test]
async fn a_database_that_is_not_there_is_not_told_as_an_old_server() {
    let (server, keeper) = (Server::start(), Keeper::start().unwrap());
    let config: RedisConfig = format!("{}/99", server.url()).parse().unwrap();
    let said = Redis::connect(config, &keeper).await.unwrap_err().to_string();
    let refused = "refused the choice of the database: ERR DB index is out of range";
    assert!(said.contains(refused) && !said.contains("6.0"), "{said}");
    keeper.stop();
}

/// The permissions of docs/backends/redis.md: on every supported version of the server, all verbs work with them.
#[tokio::test]
async fn the_documented_permissions_are_enough() {
    let server = Server::start();
    let manual = include_str!("../../docs/backends/redis.md");
    let (_, rules) = manual.split_once("ACL SETUSER app ").unwrap();
    let (rules, _) = rules.split_once("```").unwrap();
    let rules: Vec<_> = ["ACL", "SETUSER", "app"].into_iter().chain(rules.split_whitespace()).collect();
    server.bytes::<()>(&rules.iter().map(|rule| rule.as_bytes()).collect::<Vec<_>>());
    let url = server.url().replace("//", "//app:secret@") + "?prefix=locks:";
    let keeper = Keeper::start().unwrap();
    let redis = Redis::connect(url.parse().unwrap(), &keeper).await.unwrap();
    let client = Client { redis, keeper };
    for (mine, next) in [(mutex("job"), mutex("job")), (reader("page"), writer("page"))] {
        let mut alarms = client.redis.alarms();
        let token = client.hold(&mine).await;
        let mut heir = waiting(client.create(&next).await);
        client.renew(&mine, token).await;
        waiting(client.again(&next, heir.token).await);
        assert_eq!(client.redis.queue(&mine.name).await.unwrap().len(), 2);
        assert_eq!(client.redis.evict(&mine.name, mine.id).await.unwrap(), Departure::Left);
        assert_eq!(soon(alarms.next()).await, Some(mine.id));
        assert_eq!(soon(heir.hints.next()).await, Some(lock_core::Hint::Admitted { token: heir.token }));
        client.redis.leave(&next, lock_core::Creates::InDoubt).await.unwrap();
    }
    assert_eq!(client.redis.list("").await.unwrap().len(), 0);
    let diagnosis = client.redis.diagnose().await.unwrap();
    assert_eq!(diagnosis.problems.len(), 1);
    assert!(diagnosis.facts.contains(&("users", "not told".to_owned())), "{:?}", diagnosis.facts);
    // A clock that stands still takes one command more.
    let counter = slots::counter_key("locks:", b"locks:clock");
    server.bytes::<()>(&[b"XADD", &counter, b"9000000000000-999", b"t", b""]);
    client.hold(&mutex("clock")).await;
    // Nothing more is permitted.
    let outside: redis::RedisResult<()> = redis::Client::open(server.url().replace("//", "//app:secret@"))
        .and_then(|client| client.get_connection())
        .and_then(|mut connection| redis::cmd("GET").arg("other").query(&mut connection));
    assert_eq!(outside.unwrap_err().code(), Some("NOPERM"));
}
