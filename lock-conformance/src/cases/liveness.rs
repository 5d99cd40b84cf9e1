//! Every waiter is granted in the end, whatever holders, waiters and servers do.

mod hand_off;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lock_core::{AcquireOptions, DistributedLock, Error, Guard, Holder};
use tokio::task::{JoinHandle, JoinSet};

use self::hand_off::{
    a_cancelled_writer_frees_the_readers_behind_it, an_expired_holder_is_noticed_by_the_next_caller,
    permits_that_come_back_admit_all_who_fit, waiters_look_again_when_their_notifications_come_back,
};
use super::steps::{faulty, long, mutex, take_free};
use crate::{
    CaseTest, Client, Command, Critical, Data, Fault, Gate, NoHints, SLACK, Side, TestEnv, Verb,
    audit::{assert_free, await_queue, soon, within},
    volume,
};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! liveness_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] liveness {
            a_killed_holder_is_followed_when_its_lease_ends ["L01"]
            a_killed_waiter_keeps_nobody_from_the_lock ["L02"]
            a_killed_head_of_the_queue_is_passed_over ["L03"]
            a_waiter_that_goes_away_in_the_middle_of_the_queue_is_passed_over ["L04"]
            waiters_go_on_when_the_server_comes_back_with_its_data ["L06"]
            waiters_go_on_when_the_server_comes_back_without_its_data ["L06"]
            a_wait_ends_in_time_and_says_who_was_ahead ["L08"]
            a_wait_of_zero_asks_once ["L09"]
            a_wait_without_end_keeps_its_place_for_many_ttls ["L10"]
            a_release_between_the_look_and_the_wait_is_not_missed ["T16"]
            a_release_is_noticed_without_hints ["L12"]
            a_dead_holder_is_noticed_without_hints_before_the_ttl_of_the_waiter ["L12"]
            waiters_go_on_when_their_notifications_are_cut ["L12"]
            a_cancelled_writer_frees_the_readers_behind_it ["PR11"]
            permits_that_come_back_admit_all_who_fit ["PR11"]
            an_expired_holder_is_noticed_by_the_next_caller ["PR11"]
            waiters_look_again_when_their_notifications_come_back ["PR14"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = liveness_cases!(list);

/// The ttl of clients that crash: long enough for a holder to be renewed on a busy machine.
const TTL: Duration = Duration::from_millis(1500);

/// Waits for the lock in a new task, and returns when the waiter is in the queue as entry number `len`.
async fn waiting(client: &Client, name: &str, options: &AcquireOptions, len: usize) -> JoinHandle<Guard> {
    let lock = client.mutex(name).with_options(options.clone());
    let task = tokio::spawn(async move { lock.acquire().await.unwrap() });
    await_queue(client, name, len).await;
    task
}

pub(super) async fn a_killed_holder_is_followed_when_its_lease_ends(env: TestEnv) {
    let (client, name) = (env.client().await, env.name("killed"));
    let mut holder = env.process().await;
    let token = holder.acquire(&name, Side::Mutex, &env.options().ttl(TTL)).await;
    let waiter = waiting(&client, &name, &env.options(), 2).await;
    // Long enough that the lease must have been renewed.
    tokio::time::sleep(TTL * 3 / 2).await;
    assert!(!waiter.is_finished(), "the lock was granted while its holder lived");
    holder.kill().await;
    let guard = within("the lock of a killed holder", TTL + SLACK, waiter).await.unwrap();
    assert!(guard.token() > token);
    guard.release().await.unwrap().confirmed().unwrap();
}

pub(super) async fn a_killed_waiter_keeps_nobody_from_the_lock(env: TestEnv) {
    let (client, name) = (env.client().await, env.name("waiters"));
    let mut doomed = env.process().await;
    let guard = client.mutex(&name).acquire().await.unwrap();
    let head = waiting(&client, &name, &env.options(), 2).await;
    doomed.tell(&acquire(&name, &env.options().ttl(TTL)));
    await_queue(&client, &name, 3).await;
    let last = waiting(&client, &name, &env.options(), 4).await;
    doomed.kill().await;
    guard.release().await.unwrap().confirmed().unwrap();
    let guard = soon("the head of the queue", head).await.unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
    let guard = within("the waiter behind the dead one", TTL + SLACK, last).await.unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
    assert_free(&client, &name).await;
}

pub(super) async fn a_killed_head_of_the_queue_is_passed_over(env: TestEnv) {
    let (client, name) = (env.client().await, env.name("head"));
    let mut doomed = env.process().await;
    let guard = client.mutex(&name).acquire().await.unwrap();
    doomed.tell(&acquire(&name, &env.options().ttl(TTL)));
    await_queue(&client, &name, 2).await;
    let next = waiting(&client, &name, &env.options(), 3).await;
    doomed.kill().await;
    // The lock may be handed to the dead waiter first: then it is free when the lease of that waiter ends.
    guard.release().await.unwrap().confirmed().unwrap();
    let guard = within("the waiter behind the dead head", TTL + SLACK, next).await.unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
    assert_free(&client, &name).await;
}

fn acquire(name: &str, options: &AcquireOptions) -> Command {
    Command::Acquire { name: name.to_owned(), side: Side::Mutex, options: options.clone() }
}

pub(super) async fn a_waiter_that_goes_away_in_the_middle_of_the_queue_is_passed_over(env: TestEnv) {
    let (one, two) = (env.client().await, env.client().await);
    let name = env.name("middle");
    // The ttl is so long that a place that stayed behind would be noticed.
    let options = env.options();
    let holder = one.mutex(&name).acquire().await.unwrap();
    let head = waiting(&one, &name, &options, 2).await;
    let middle = waiting(&two, &name, &options, 3).await;
    let last = waiting(&one, &name, &options, 4).await;
    middle.abort();
    assert!(middle.await.unwrap_err().is_cancelled());
    await_queue(&one, &name, 3).await;
    holder.release().await.unwrap().confirmed().unwrap();
    let head = soon("the waiter ahead of the one that went away", head).await.unwrap();
    assert!(!last.is_finished());
    head.release().await.unwrap().confirmed().unwrap();
    let last = soon("the waiter behind the one that went away", last).await.unwrap();
    last.release().await.unwrap().confirmed().unwrap();
    assert_free(&one, &name).await;
}

pub(super) async fn hand_overs_by_the_thousand_lose_nobody(env: TestEnv) {
    const CLIENTS: usize = 4;
    let rounds = volume(1_000, 10_000) / CLIENTS;
    let (name, section) = (env.name("relay"), Critical::new(1));
    // A lost hand-off would only be made up for when a waiter looks or a lease ends, which is too late for this case to pass.
    let options = env.options();
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        let lock = env.client().await.mutex(&name).with_options(options.clone());
        let section = section.clone();
        tasks.spawn(async move {
            for round in 0..rounds {
                let what = format!("the turn in round {round}");
                let guard = soon(&what, lock.acquire()).await.unwrap();
                drop(section.enter(1));
                guard.release().await.unwrap().confirmed().unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(section.visits(), (CLIENTS * rounds) as u64);
    assert_free(&env.client().await, &name).await;
}

pub(super) async fn waiters_go_on_when_the_server_comes_back_with_its_data(env: TestEnv) {
    restart(&env, Data::Kept).await;
}

pub(super) async fn waiters_go_on_when_the_server_comes_back_without_its_data(env: TestEnv) {
    restart(&env, Data::Lost).await;
}

async fn restart(env: &TestEnv, data: Data) {
    let (one, two) = (env.client().await, env.client().await);
    let name = env.name("restart");
    let options = env.options().ttl(Duration::from_secs(20));
    let guard = one.mutex(&name).acquire_with(&options).await.unwrap();
    let head = waiting(&two, &name, &options, 2).await;
    let last = waiting(&one, &name, &options, 3).await;
    env.server().kill().await.unwrap();
    // Long enough that a waiter's requests fail.
    tokio::time::sleep(Duration::from_millis(200)).await;
    env.server().start(data).await.unwrap();
    if data == Data::Kept {
        assert!(!head.is_finished(), "the lock was granted while it was held");
        guard.release().await.unwrap().confirmed().unwrap();
    } else {
        drop(guard);
    }
    let mut waiters = JoinSet::from_iter([head, last].map(|waiter| async move { waiter.await.unwrap() }));
    for _ in 0..2 {
        // A waiter that lost its place asks again at a third of its ttl, at the latest.
        let guard = within("a waiter after the restart", options.ttl / 3 + SLACK, waiters.join_next()).await;
        guard.unwrap().unwrap().release().await.unwrap().confirmed().unwrap();
    }
    assert_free(&one, &name).await;
    assert_free(&two, &name).await;
}

/// Never too early. How late is up to the machine here: `lock-core/tests/wait_bound.rs` shows it to the millisecond.
pub(super) async fn a_wait_ends_in_time_and_says_who_was_ahead(env: TestEnv) {
    let (holder, waiter) = (env.client().await, env.client().await);
    let name = env.name("patience");
    let guard = holder.mutex(&name).acquire_with(&env.options().label("the holder")).await.unwrap();
    for wait in [1, 40, 300, 1500].map(Duration::from_millis) {
        let asked = Instant::now();
        let answer = waiter.mutex(&name).acquire_with(&env.options().wait(wait)).await;
        let took = asked.elapsed();
        let Err(Error::WaitTimeout { waited, ahead, holder, name: found, .. }) = answer else {
            panic!("{answer:?}")
        };
        assert!(took >= wait && waited >= wait, "a wait of {wait:?} ended after {took:?}");
        assert!(took < wait + SLACK, "a wait of {wait:?} ended after {took:?}");
        assert_eq!(found.as_str(), name);
        // A short wait may end before the store has answered.
        if wait > Duration::from_secs(1) {
            assert_eq!(ahead, Some(1));
            assert_eq!(holder, Some(Holder::Ours { label: Some("the holder".to_owned()) }));
        }
        await_queue(&waiter, &name, 1).await;
    }
    assert!(guard.is_held());
    guard.release().await.unwrap().confirmed().unwrap();
    assert_free(&waiter, &name).await;
}

pub(super) async fn a_wait_of_zero_asks_once(env: TestEnv) {
    let (holder, asker) = (env.client().await, env.client().await);
    let name = env.name("at-once");
    let once = env.options().wait(Duration::ZERO);
    let guard = holder.mutex(&name).acquire_with(&once).await.expect("it is free");
    let answer = soon("an answer at once", asker.mutex(&name).acquire_with(&once)).await;
    assert!(matches!(&answer, Err(Error::WaitTimeout { .. })), "{answer:?}");
    guard.release().await.unwrap().confirmed().unwrap();
    let guard = asker.mutex(&name).acquire_with(&once).await.expect("it is free again, and nothing was left");
    guard.release().await.unwrap().confirmed().unwrap();
}

pub(super) async fn a_wait_without_end_keeps_its_place_for_many_ttls(env: TestEnv) {
    let (holder, waiter) = (env.client().await, env.client().await);
    let name = env.name("patience");
    let short = AcquireOptions::new().ttl(Duration::from_secs(2));
    let guard = holder.mutex(&name).acquire_with(&short).await.unwrap();
    let task = waiting(&waiter, &name, &short, 2).await;
    let place = holder.mutex(&name).queue().await.unwrap().pop().unwrap();
    assert!(!place.admitted);
    tokio::time::sleep(short.ttl * 5 / 2).await;
    assert!(guard.is_held());
    let rows = holder.mutex(&name).queue().await.unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[1].entry, rows[1].token), (place.entry, place.token), "the place was lost in between");
    guard.release().await.unwrap().confirmed().unwrap();
    let guard = soon("the patient waiter", task).await.unwrap();
    assert_eq!(Some(guard.token()), place.token);
    guard.release().await.unwrap().confirmed().unwrap();
}

/// The ttl is so long that no waiter looks again before the case has failed.
pub(super) async fn a_release_between_the_look_and_the_wait_is_not_missed(env: TestEnv) {
    let (holder, (waiter, faults)) = (env.client().await, faulty(&env).await);
    let (name, gate) = (env.name("between"), Gate::new());
    let guard = take_free(&mutex(&holder, &name)).await;
    faults.next(Verb::Enter, Fault::HoldReply(gate.clone()));
    let task = waiting(&waiter, &name, &long(), 2).await;
    // The store has answered that it has to wait, but the answer has not arrived yet.
    gate.reached().await;
    guard.release().await.unwrap().confirmed().unwrap();
    gate.open();
    let guard = soon("the waiter that was about to wait", task).await.unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
}

pub(super) async fn a_release_is_noticed_without_hints(env: TestEnv) {
    let holder = env.client().await;
    let deaf = env.client_through(&[Arc::new(NoHints::default())]).await;
    let name = env.name("deaf");
    let guard = holder.mutex(&name).acquire().await.unwrap();
    let often = env.options().ttl(TTL);
    let task = waiting(&deaf, &name, &often, 2).await;
    let token = guard.token();
    guard.release().await.unwrap().confirmed().unwrap();
    let guard = within("a look at the queue", often.ttl / 3 + SLACK, task).await.unwrap();
    assert!(guard.token() > token);
    guard.release().await.unwrap().confirmed().unwrap();
}

pub(super) async fn a_dead_holder_is_noticed_without_hints_before_the_ttl_of_the_waiter(env: TestEnv) {
    let deaf = env.client_through(&[Arc::new(NoHints::default())]).await;
    let name = env.name("deaf");
    let mut holder = env.process().await;
    holder.acquire(&name, Side::Mutex, &env.options().ttl(TTL)).await;
    // Its own lease makes it look only every 40 s, so it has to look when the lease of the holder ends.
    let task = waiting(&deaf, &name, &env.options(), 2).await;
    holder.kill().await;
    let guard = within("the end of the holder's lease", TTL + SLACK, task).await.unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
}

pub(super) async fn waiters_go_on_when_their_notifications_are_cut(env: TestEnv) {
    let (holder, waiter) = (env.client().await, env.client().await);
    let name = env.name("cut");
    let often = env.options().ttl(TTL);
    for _ in 0..3 {
        let guard = holder.mutex(&name).acquire().await.unwrap();
        let task = waiting(&waiter, &name, &often, 2).await;
        env.server().cut_notifications().await.unwrap();
        // Released while hints cannot be delivered.
        guard.release().await.unwrap().confirmed().unwrap();
        let guard = within("a look at the queue", often.ttl / 3 + SLACK, task).await.unwrap();
        guard.release().await.unwrap().confirmed().unwrap();
    }
    assert_free(&waiter, &name).await;
}
