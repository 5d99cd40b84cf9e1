//! Locks leave nothing behind in the client, the machine and the store.
//!
//! Each of these cases runs in its own process, so that figures of the process belong to the case.

use std::{
    env,
    future::ready,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, StreamExt, future::join_all, stream};
use lock_core::{DistributedLock, Error, Guard};

use super::{
    growth::{MOST_WINDOWS, WINDOWS, assert_no_growth, footprint},
    lease::ms,
    logs::{
        a_cleanup_that_fails_for_long_is_told_ever_more_rarely, an_outage_costs_a_line_a_second_and_message,
    },
    process::forks::{
        a_fork_that_connects_again_has_locks_of_its_own, a_fork_that_connects_again_is_served_or_told_why_not,
    },
    steps::{freed, lasting, long, mutex, queue_of, refused, take, take_free},
    wire::connects::a_crowd_comes_back_from_an_outage_over_few_connections,
};
use crate::{CaseTest, Client, SLACK, TestEnv, Usage, audit::eventually, ran_nothing, volume};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! resources_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] resources {
            nothing_is_left_in_the_store_but_the_entries_of_the_dead ["G01"]
            acquisitions_leave_nothing_behind ["G02"]
            names_leave_nothing_behind_but_their_counters ["G03"]
            waiting_leaves_no_subscription_behind ["G04"]
            a_client_that_is_gone_leaves_no_session_and_no_connection_behind ["G05"]
            a_client_that_was_closed_has_no_session_left ["G05"]
            the_threads_and_files_of_a_client_go_with_it ["G06"]
            a_fork_that_connects_again_has_locks_of_its_own ["C20"]
            a_fork_that_connects_again_is_served_or_told_why_not ["PR35"]
            an_outage_costs_a_line_a_second_and_message ["G07"]
            a_cleanup_that_fails_for_long_is_told_ever_more_rarely ["G07"]
            a_crowd_comes_back_from_an_outage_over_few_connections ["T08"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = resources_cases!(list);

/// The group of the cases that run in their own process.
pub(crate) const GROUP: &str = "resources";

/// How many locks are taken at least, not counting the first round: `ACQUISITIONS`, or a thousand. The allowance for each lock does not
/// depend on the number.
fn acquisitions() -> u64 {
    let Ok(text) = env::var("ACQUISITIONS") else { return volume(1_000, 10_000) };
    text.parse().unwrap_or_else(|_| panic!("ACQUISITIONS is a number, not {text:?}"))
}

/// The additional time limit for a case of this group: 10 ms for each lock in each possible round, for a few sequential requests while
/// other cases run.
pub(crate) fn more_time() -> Duration {
    10 * ms(acquisitions() / WINDOWS as u64) * (MOST_WINDOWS as u32 + 1)
}

/// Every way in which an acquisition or a hold can end. The leak check follows, as after every case.
pub(super) async fn nothing_is_left_in_the_store_but_the_entries_of_the_dead(env: TestEnv) {
    let (client, dying) = (env.client().await, env.client().await);
    let lock = |tag: &str| mutex(&client, &env.name(tag));
    for (held, tag) in
        [(take_free(&lock("released")).await, "released"), (take_free(&lock("dropped")).await, "dropped")]
    {
        let hurried = long().wait(ms(20));
        assert!(lock(tag).try_acquire().await.unwrap().is_none());
        let late = refused(lock(tag).acquire_with(&hurried).await);
        assert!(matches!(late, Error::WaitTimeout { .. }));
        assert!(tokio::time::timeout(ms(20), lock(tag).acquire()).await.is_err());
        if tag == "released" {
            held.release().await.unwrap();
        }
    }
    // On a store without alarms, the first renewal finds the eviction.
    let evicted = take_free(&lock("evicted").with_options(lasting())).await;
    let left_to_tasks = lock("left to tasks");
    let held = take_free(&left_to_tasks).await;
    for _ in 0..2 {
        let lock = left_to_tasks.clone();
        tokio::spawn(async move { drop(lock.acquire().await) });
    }
    queue_of(3, &left_to_tasks).await;
    client.backend.operator().evict(evicted.name(), evicted.entry_id()).await.unwrap();
    evicted.lost().await;
    let dead = [take_free(&mutex(&dying, &env.name("dead"))).await];
    dying.crash().await;
    tokio::spawn(async move {
        let _kept = (held, dead);
        std::future::pending::<()>().await;
    });
}

/// Four tasks, one for each way of holding a name, take one lock after the other.
pub(super) async fn acquisitions_leave_nothing_behind(env: TestEnv) {
    let client = env.client().await;
    let each = acquisitions() / WINDOWS as u64;
    assert_no_growth(&env, each, |_| async {
        let name = |tag: &str| env.name(tag);
        let (readers, writers) = (client.rwlock(&name("readers")), client.rwlock(&name("writers")));
        let permits = client.semaphore(&name("permits"), 3).permits(2).unwrap();
        let locks: [Arc<dyn DistributedLock>; 4] = [
            Arc::new(client.mutex(&name("mutex"))),
            Arc::new(readers.read()),
            Arc::new(writers.write()),
            Arc::new(permits),
        ];
        let tasks = locks.map(|lock| tokio::spawn(one_after_the_other(lock, each / 4)));
        for done in join_all(tasks).await {
            done.unwrap();
        }
    })
    .await;
}

async fn one_after_the_other(lock: Arc<dyn DistributedLock>, count: u64) {
    let options = long();
    for i in 0..count {
        let guard = lock.acquire_with(&options).await.unwrap();
        if i % 8 == 0 {
            drop(guard);
        } else {
            guard.release().await.unwrap().confirmed().unwrap();
        }
    }
}

pub(super) async fn names_leave_nothing_behind_but_their_counters(env: TestEnv) {
    let client = env.client().await;
    let each = acquisitions() / WINDOWS as u64;
    let before = footprint(&env).await;
    let windows = assert_no_growth(&env, each, |window| {
        let (client, env) = (&client, &env);
        let locks = (0..each).map(move |i| mutex(client, &env.name(&format!("{window}/{i}"))));
        let taken = stream::iter(locks).map(|lock| async move { take(&lock).await.release().await.unwrap() });
        taken.buffer_unordered(16).all(|released| ready(released.confirmed().is_ok())).map(|all| assert!(all))
    })
    .await;
    let kept = footprint(&env).await.kept - before.kept;
    let names = windows as u64 * each;
    assert!(kept <= names, "{kept} counters for {names} names");
    let names = client.backend.operator().list(&env.name("")).await.unwrap();
    assert_eq!(names, [], "names without any entry");
}

/// Waits that end in a grant, waits that end in an error, and waits that are dropped.
pub(super) async fn waiting_leaves_no_subscription_behind(env: TestEnv) {
    const AT_ONCE: usize = 10;
    // Some clients keep the id of a waiter whose create was in doubt when it left, for its ttl: in about 140 bytes. If all of these waiters
    // are in doubt, as on a slow machine, that is less than the allowance for all acquisitions.
    let (turns, rounds) = volume((150, 1), (500, 3));
    let client = env.client().await;
    let lock = mutex(&client, &env.name("job"));
    assert_no_growth(&env, 2 * turns + 2 * rounds * AT_ONCE as u64, |_| async {
        let turns = [lock.clone(), lock.clone()].map(|lock| async move {
            for _ in 0..turns {
                take(&lock).await.release().await.unwrap();
            }
        });
        join_all(turns).await;
        let held = take_free(&lock).await;
        for _ in 0..rounds {
            let hurried = long().wait(ms(20));
            let late = join_all((0..AT_ONCE).map(|_| lock.acquire_with(&hurried))).await;
            assert!(late.into_iter().all(|late| matches!(refused(late), Error::WaitTimeout { .. })));
            let dropped = join_all((0..AT_ONCE).map(|_| tokio::time::timeout(ms(20), lock.acquire()))).await;
            assert!(dropped.into_iter().all(|dropped| dropped.is_err()));
        }
        held.release().await.unwrap();
        freed(&lock).await;
    })
    .await;
    drop(lock);
    drop(client);
    eventually("no subscription of a client that is gone", SLACK, || async {
        footprint(&env).await.subscriptions == 0
    })
    .await;
}

/// Locks of several ttls: some are released, some dropped, and some waited for.
pub(super) async fn a_client_that_is_gone_leaves_no_session_and_no_connection_behind(env: TestEnv) {
    let clients = join_all((0..4).map(|_| env.client())).await;
    let name = env.name("job");
    for (i, client) in clients.iter().enumerate() {
        let held = join_all((1..=3).map(|i| hold_for(client, &name, i))).await;
        let waiting = tokio::spawn({
            let lock = mutex(client, &format!("{name}/1"));
            async move { take(&lock).await.release().await.unwrap() }
        });
        queue_of(2, &client.mutex(&format!("{name}/1"))).await;
        assert!(footprint(&env).await.queues >= 3, "client {i} holds three locks, and fewer queues show");
        let mut held = held.into_iter();
        held.next().unwrap().release().await.unwrap();
        drop(held);
        waiting.await.unwrap();
        client.locks.close(SLACK).await.unwrap();
    }
    drop(clients);
    let end_time = Instant::now() + SLACK;
    loop {
        let left = footprint(&env).await;
        if left.is_of_nobody() {
            break;
        }
        assert!(Instant::now() < end_time, "clients that are gone left this at the server: {left:?}");
        tokio::time::sleep(ms(5)).await;
    }
}

async fn hold_for(client: &Client, name: &str, i: u32) -> Guard {
    let options = client.options().ttl(Duration::from_secs(10) * i);
    client.mutex(&format!("{name}/{i}")).acquire_with(&options).await.unwrap()
}

/// The process may end right after the close, so the close has to end the sessions.
pub(super) async fn a_client_that_was_closed_has_no_session_left(env: TestEnv) {
    let client = env.client().await;
    let shared = mutex(&client, &env.name("renewed"));
    let alone = mutex(&client, &env.name("not renewed")).with_options(long().renew(false));
    let held = [take_free(&shared).await, take_free(&alone).await];
    for guard in held {
        guard.release().await.unwrap().confirmed().unwrap();
    }
    client.locks.close(SLACK).await.unwrap();
    eventually("no session of a client that was closed", SLACK, || async {
        footprint(&env).await.sessions == 0
    })
    .await;
    drop(client);
}

pub(super) async fn the_threads_and_files_of_a_client_go_with_it(env: TestEnv) {
    let Some(before) = Usage::now() else {
        return ran_nothing(
            "resources::the_threads_and_files_of_a_client_go_with_it",
            "only on Linux a process can count its own",
        );
    };
    for _ in 0..10 {
        use_and_drop(&env).await;
    }
    let end_time = Instant::now() + SLACK;
    loop {
        let now = Usage::now().expect("it was known before");
        if now.threads <= before.threads && now.files <= before.files {
            break;
        }
        assert!(Instant::now() < end_time, "before ten clients came and went: {before:?}\nafter: {now:?}");
        tokio::time::sleep(ms(5)).await;
    }
}

/// Makes the client open all its connections: for commands on this runtime, for those of the keeper, and for hints.
async fn use_and_drop(env: &TestEnv) {
    let client = env.client().await;
    let started = Usage::now().expect("it is looked at only where it is known");
    assert!(started.threads > 1, "no keeper has a thread");
    let lock = mutex(&client, &env.name("job"));
    let held = take_free(&lock).await;
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { drop(take(&lock).await) }
    });
    queue_of(2, &lock).await;
    held.release().await.unwrap();
    waiting.await.unwrap();
    freed(&lock).await;
    client.locks.close(SLACK).await.unwrap();
}
