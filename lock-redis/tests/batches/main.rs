//! Verbs that the tasks of one process request at the same time are sent in batches, and each gets the answer that it would get alone.

#[path = "../common/mod.rs"]
mod common;
mod cut;
mod refused;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use common::*;
use futures_util::{FutureExt, future::join_all};
use lock_conformance::Port;
use lock_core::{
    Backend, BackendError, BackendErrorKind as Kind, Creates, Departure, Entry, FencingToken, Keeper,
    Standing, Step, WaitMode,
};
use lock_redis::Redis;

// While at most 32 verbs are in flight, each is sent alone. The verbs after them are sent in batches.

/// A client that has done everything once, a batch too, so that it does not have to open or load anything.
async fn warm(server: &Server) -> Client {
    let client = server.client();
    for entries in
        [entries("warm", 96), (0..96).map(|i| semaphore(&format!("warm-pool/{i}"), 1, 1)).collect()]
    {
        hold_all(&client, &entries).await;
        leave_all(&client, &entries).await;
    }
    server.forget_calls();
    client
}

fn entries(of: &str, count: usize) -> Vec<Entry> {
    (0..count).map(|i| mutex(&format!("{of}/{i}"))).collect()
}

async fn ask_all(client: &Client, entries: &[Entry]) -> Vec<Result<Standing, BackendError>> {
    join_all(entries.iter().map(|entry| client.enter(entry, Step::Create, WaitMode::Queue))).await
}

async fn hold_all(client: &Client, entries: &[Entry]) -> Vec<FencingToken> {
    ask_all(client, entries).await.into_iter().map(|standing| admitted(standing.unwrap())).collect()
}

async fn leave_all(client: &Client, entries: &[Entry]) {
    let left = join_all(entries.iter().map(|entry| client.leave(entry))).await;
    assert!(left.iter().all(|left| *left == Departure::Left), "{left:?}");
}

fn kinds(answers: &[Result<Standing, BackendError>]) -> Vec<Option<&Kind>> {
    answers.iter().map(|answer| answer.as_ref().err().map(BackendError::kind)).collect()
}

#[tokio::test]
async fn many_verbs_of_one_moment_are_few_commands() {
    let server = Server::start();
    let client = warm(&server).await;
    let entries = entries("job", 96);
    hold_all(&client, &entries).await;
    let created = server.calls("exec");
    let few = 36..=40;
    assert!(few.contains(&created), "{created} transactions for 96, 32 alone and 16 in each at the most");
    assert_eq!(server.calls("evalsha"), 0);
    leave_all(&client, &entries).await;
    let left = server.calls("evalsha");
    assert!(few.contains(&left), "{left} scripts for 96 releases");
    // The same by scripts.
    let entries: Vec<_> = (0..96).map(|i| semaphore(&format!("pool/{i}"), 1, 1)).collect();
    server.forget_calls();
    hold_all(&client, &entries).await;
    let entered = server.calls("evalsha");
    assert!(few.contains(&entered), "{entered} scripts for 96 verbs");
    let looks = server.calls("time");
    assert!(looks <= entered, "one look at the clock for each script, not {looks} for {entered}");
    leave_all(&client, &entries).await;
    let left = server.calls("evalsha") - entered;
    assert!(few.contains(&left), "{left} scripts for 96 verbs");
    assert_eq!(server.calls("eval"), 0);
}

#[tokio::test]
async fn a_lone_verb_goes_alone_and_at_once() {
    let server = Server::start();
    let client = warm(&server).await;
    let mine = mutex("job");
    client.hold(&mine).await;
    client.leave(&mine).await;
    // Batches begin with this command.
    assert_eq!(["exec", "evalsha", "zadd"].map(|command| server.calls(command)), [1, 1, 0]);
}

#[tokio::test]
async fn few_verbs_go_alone_and_at_once() {
    let server = Server::start();
    let client = warm(&server).await;
    let few = entries("job", 32);
    for _ in 0..3 {
        hold_all(&client, &few).await;
        leave_all(&client, &few).await;
    }
    assert_eq!(["exec", "evalsha", "zadd"].map(|command| server.calls(command)), [3 * 32, 3 * 32, 0]);
}

#[tokio::test]
async fn each_gets_the_answer_to_its_own_verb() {
    let server = Server::start();
    let client = warm(&server).await;
    let held = entries("held", 24);
    hold_all(&client, &held).await;
    for _ in 0..3 {
        let asked = (0..96).map(|i| {
            let (client, of) = (&client, format!("held/{}", i / 4));
            async move {
                match i % 4 {
                    0 => {
                        let free = mutex(&format!("free/{i}"));
                        client.hold(&free).await;
                        assert_eq!(client.leave(&free).await, Departure::Left);
                    }
                    1 => {
                        let late = mutex(&of);
                        client.queue_up(&late).await;
                        assert_eq!(client.leave(&late).await, Departure::Left);
                    }
                    2 => {
                        let tried = client.enter(&mutex(&of), Step::Create, WaitMode::Try).await.unwrap();
                        assert!(matches!(tried, Standing::Busy), "{tried:?}");
                        assert_eq!(client.leave(&mutex(&of)).await, Departure::Absent);
                    }
                    _ => {
                        let kind = client.refused(&semaphore(&of, 1, 2)).await;
                        assert_eq!(
                            kind,
                            Kind::ClaimMismatch { found_kind: lock_core::Kind::Mutex, found_limit: 1 }
                        );
                    }
                }
            }
        });
        join_all(asked).await;
    }
    leave_all(&client, &held).await;
    let left: Vec<_> = server.keys().into_iter().filter(|key| !is_counter(key)).collect();
    assert_eq!(left, Vec::<Vec<u8>>::new(), "nothing but the counters of tokens");
}

/// H50.
#[tokio::test]
async fn one_that_fails_harms_no_other() {
    let server = Server::start();
    let client = warm(&server).await;
    let mut asked = entries("job", 96);
    for i in [3, 50, 95] {
        // In place of the queue of this lock.
        server.bytes::<()>(&[b"SET", &companion("q", &format!("job/{i}")), b"a user's"]);
    }
    asked[40] = semaphore("job/40", 1, 1);
    let alone = client.refused(&asked[3]).await;
    let answers = ask_all(&client, &asked).await;
    for (i, answer) in answers.into_iter().enumerate() {
        if [3, 50, 95].contains(&i) {
            assert_eq!((answer.unwrap_err().kind(), &alone), (&Kind::ForeignData, &Kind::ForeignData), "{i}");
        } else {
            admitted(answer.unwrap());
        }
    }
}

#[tokio::test]
async fn two_who_want_the_same_lock_in_one_moment_get_it_in_turn() {
    let server = Server::start();
    let client = warm(&server).await;
    let asked: Vec<_> = (0..96).map(|_| semaphore("job", 1, 1)).collect();
    let mut places = Vec::new();
    for (i, answer) in ask_all(&client, &asked).await.into_iter().enumerate() {
        match answer.unwrap() {
            Standing::Admitted { token, .. } => places.push((token, 0, i)),
            Standing::Waiting { token, ahead, .. } => places.push((token, ahead, i)),
            other => panic!("{other:?}"),
        }
    }
    let expected: Vec<_> = (0..96).map(|i| (i as u64, i)).collect();
    let mut found: Vec<_> = places.iter().map(|(_, ahead, i)| (*ahead, *i)).collect();
    assert_eq!(found, expected, "first come, first served");
    places.sort();
    found = places.iter().map(|(_, ahead, i)| (*ahead, *i)).collect();
    assert_eq!(found, expected, "the tokens are in this order, too");
}

#[tokio::test]
async fn the_verbs_of_one_caller_are_carried_out_in_the_order_of_asking() {
    let server = Server::start();
    let client = warm(&server).await;
    let callers = (0..96).map(|i| {
        let client = &client;
        async move {
            let mut last = FencingToken::new(0);
            for _ in 0..20 {
                let mine = mutex(&format!("job/{i}"));
                let token = client.hold(&mine).await;
                assert!(token > last, "{token} after {last}");
                last = token;
                assert_eq!(client.leave(&mine).await, Departure::Left);
            }
        }
    });
    join_all(callers).await;
    let commands = server.calls("exec") + server.calls("evalsha");
    assert!(commands < 2 * 96 * 20, "{commands} commands");
}

#[tokio::test]
async fn what_is_given_up_in_the_queue_is_not_sent_and_harms_no_other() {
    let server = Server::start();
    let client = warm(&server).await;
    let entries = entries("job", 96);
    let mut asked: Vec<_> =
        entries.iter().map(|entry| Box::pin(client.enter(entry, Step::Create, WaitMode::Try))).collect();
    // All are requested before the sending task runs.
    for verb in &mut asked {
        assert!(verb.as_mut().now_or_never().is_none());
    }
    // The first ones were sent alone, at once.
    let is_kept = |i: usize| i < 32 || i.is_multiple_of(2);
    let kept = asked.into_iter().enumerate().filter(|(i, _)| is_kept(*i));
    for standing in join_all(kept.map(|(_, verb)| verb)).await {
        admitted(standing.unwrap());
    }
    let held: Vec<bool> =
        entries.iter().map(|entry| server.bytes(&[b"EXISTS", entry.name.as_str().as_bytes()])).collect();
    let expected: Vec<bool> = (0..96).map(is_kept).collect();
    assert_eq!(held, expected);
}

/// PR08: a verb that was dropped in flight is in doubt even in a batch, and its leave writes a tombstone.
#[tokio::test]
async fn a_verb_that_is_given_up_on_its_way_can_leave() {
    let server = Server::start();
    let client = warm(&server).await;
    for turns in 0..20 {
        let entries = entries(&format!("job{turns}"), 64);
        let mut asked: Vec<_> =
            entries.iter().map(|entry| Box::pin(client.enter(entry, Step::Create, WaitMode::Try))).collect();
        for verb in &mut asked {
            assert!(verb.as_mut().now_or_never().is_none());
        }
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        drop(asked);
        let left = entries.iter().map(|entry| client.redis.leave(entry, Creates::InDoubt));
        for left in join_all(left).await {
            left.unwrap();
        }
        for entry in &entries {
            assert!(!server.bytes::<bool>(&[b"EXISTS", entry.name.as_str().as_bytes()]), "{}", entry.name);
        }
    }
}

#[tokio::test]
async fn a_batch_is_bounded_in_bytes() {
    let server = Server::start();
    let client = warm(&server).await;
    let long: Vec<_> = (0..80).map(|i| mutex(&format!("{i:04096}"))).collect();
    hold_all(&client, &long).await;
    // Each create has more than 8 KiB, and a batch at most 64 KiB; the first 32 were sent alone.
    assert!(server.calls("exec") >= 32 + 48 / 8, "{} transactions", server.calls("exec"));
}

#[tokio::test]
async fn a_server_that_forgets_the_scripts_at_any_time_fails_nobody() {
    let server = Server::start();
    let client = warm(&server).await;
    let mut admin = server.connection();
    for round in 0..20 {
        let entries = entries(&format!("job{round}"), 96);
        let hold = async {
            for entry in &entries {
                // Also between the verbs.
                if entry.name.as_str().ends_with('7') {
                    tokio::task::yield_now().await;
                    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut admin).unwrap();
                }
            }
        };
        tokio::join!(hold, hold_all(&client, &entries));
        leave_all(&client, &entries).await;
    }
}

#[tokio::test]
async fn a_lost_connection_leaves_every_verb_of_a_batch_in_doubt() {
    let server = Server::start();
    let client = warm(&server).await;
    // From now on, commands are read but not carried out.
    server.command::<()>("CLIENT PAUSE 60000 ALL");
    let entries = entries("job", 96);
    let asked = ask_all(&client, &entries);
    let kill = async {
        tokio::time::sleep(ms(50)).await;
        server.restart();
    };
    let (answers, ()) = tokio::join!(asked, kill);
    assert_eq!(kinds(&answers), vec![Some(&Kind::Unreachable); 96]);
    for error in answers.into_iter().filter_map(Result::err) {
        assert!(!error.is_unsent(), "{error}");
    }
    hold_all(&client, &entries).await;
}

#[tokio::test]
async fn each_has_its_own_time_limit_from_when_it_was_asked_for() {
    let limit = ms(2_000);
    let server = Server::start();
    let client = server.client_with("?command_timeout=2s");
    let entries = entries("job", 96);
    hold_all(&client, &entries).await;
    server.command::<()>("CLIENT PAUSE 60000 ALL");
    let leave = async |entry| {
        let asked = Instant::now();
        (client.redis.leave(entry, Creates::Answered).await, asked.elapsed())
    };
    let left = join_all(entries.iter().map(leave)).await;
    for (left, took) in &left {
        assert_eq!(*left.as_ref().unwrap_err().kind(), Kind::TimedOut, "{left:?}");
        assert!(*took >= limit, "given up after {took:?}");
    }
    // No time limit began when that of another had ended. How long the machine takes for all of them together does not count.
    let took = || left.iter().map(|(_, took)| *took);
    let (first, last) = (took().min().unwrap(), took().max().unwrap());
    assert!(
        last.saturating_sub(first) < limit,
        "the first was given up after {first:?}, and the last after {last:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_on_many_threads_exclude_each_other() {
    let server = Server::start();
    let client = Arc::new(server.client());
    let held = Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (client, held) = (Arc::clone(&client), Arc::clone(&held));
            tokio::spawn(async move {
                let mut got = 0;
                for _ in 0..100 {
                    let mine = mutex("job");
                    let tried = client.enter(&mine, Step::Create, WaitMode::Try).await.unwrap();
                    if matches!(tried, Standing::Admitted { .. }) {
                        assert_eq!(held.fetch_add(1, Ordering::SeqCst), 0);
                        tokio::task::yield_now().await;
                        held.fetch_sub(1, Ordering::SeqCst);
                        assert_eq!(client.leave(&mine).await, Departure::Left);
                        got += 1;
                    }
                }
                got
            })
        })
        .collect();
    let got = join_all(tasks).await;
    assert!(got.into_iter().map(Result::unwrap).sum::<u32>() > 0);
}
