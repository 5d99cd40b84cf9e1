//! Hand-offs. Every verb ends with the same step: expired entries are dropped, and all entries that now fit are admitted and notified.
//!
//! Waiters here do not poll: ttls are long, and the store does not say when to look. Each grant comes by a hint, or, where hints were cut,
//! by the look after they return.

use std::sync::Arc;

use lock_core::{
    Claim, Creates, DistributedLock, FencingToken, Guard, Lease, Renewal, Standing, Step, WaitMode,
};

use crate::{
    Client, HintsOnly, SLACK, TestEnv,
    audit::soon,
    cases::steps::{LONG, absent, brief, is_busy, mutex, permits, queue_of, reader, take_free, writer},
};

async fn only_by_hints(env: &TestEnv) -> Client {
    env.client_through(&[Arc::new(HintsOnly)]).await
}

/// Waits for a lock in a task. Returns when its entry has this place in the queue.
async fn waiting(place: usize, lock: impl DistributedLock + 'static) -> tokio::task::JoinHandle<Guard> {
    let lock = Arc::new(lock);
    let ours = Arc::clone(&lock);
    let task = tokio::spawn(async move { ours.acquire().await.unwrap() });
    queue_of(place, &*lock).await;
    task
}

/// No lock is released: a waiter leaves.
pub(in crate::cases) async fn a_cancelled_writer_frees_the_readers_behind_it(env: TestEnv) {
    let (holder, waiters) = (env.client().await, only_by_hints(&env).await);
    let name = env.name("cancelled");
    let reading = take_free(&reader(&holder, &name)).await;
    let write = waiting(2, writer(&waiters, &name)).await;
    let behind = [waiting(3, reader(&waiters, &name)).await, waiting(4, reader(&waiters, &name)).await];
    let last = waiting(5, writer(&waiters, &name)).await;
    write.abort();
    let mut guards = vec![reading];
    for reader in behind {
        guards.push(soon("a reader behind a writer that went away", reader).await.unwrap());
    }
    assert!(guards.iter().all(Guard::is_held));
    drop(guards);
    soon("the writer behind them all", last).await.unwrap().release().await.unwrap();
}

/// One release admits several waiters. A waiter that does not fit goes on waiting.
pub(in crate::cases) async fn permits_that_come_back_admit_all_who_fit(env: TestEnv) {
    let (holder, waiters) = (env.client().await, [only_by_hints(&env).await, only_by_hints(&env).await]);
    let name = env.name("several");
    let all = take_free(&permits(&holder, &name, 5, 5)).await;
    let mut fit = Vec::new();
    for place in 2..6 {
        fit.push(waiting(place, permits(&waiters[place % 2], &name, 1, 5)).await);
    }
    let late = waiting(6, permits(&waiters[0], &name, 2, 5)).await;
    all.release().await.unwrap();
    let mut guards = Vec::new();
    for waiter in fit {
        guards.push(soon("one of several grants", waiter).await.unwrap());
    }
    assert!(
        !late.is_finished() && is_busy(&permits(&holder, &name, 1, 5)).await,
        "more were admitted than fit"
    );
    drop(guards.pop());
    soon("the one who did not fit", late).await.unwrap().release().await.unwrap();

    // The same with readers behind a writer.
    let name = env.name("readers");
    let writing = take_free(&writer(&holder, &name)).await;
    let mut readers = Vec::new();
    for place in 2..5 {
        readers.push(waiting(place, reader(&waiters[place % 2], &name)).await);
    }
    writing.release().await.unwrap();
    for reader in readers {
        guards.push(soon("one of several readers", reader).await.unwrap());
    }
    assert!(guards.iter().all(Guard::is_held));
}

/// By any verb of another client: the store does not have to notice the expiry on its own.
pub(in crate::cases) async fn an_expired_holder_is_noticed_by_the_next_caller(env: TestEnv) {
    let (dying, waiters, visitor) = (env.client().await, only_by_hints(&env).await, env.client().await);
    let mut places = Vec::new();
    for verb in ["enter", "renew", "leave"] {
        let name = env.name(verb);
        let held = take_free(&mutex(&dying, &name).with_options(brief())).await;
        let next = waiting(2, mutex(&waiters, &name)).await;
        places.push((verb, name, held, next));
    }
    dying.crash().await;
    for (verb, name, held, mut next) in places {
        let end_time = tokio::time::Instant::now() + held.ttl() + SLACK;
        let granted = loop {
            // A store that notices an expiry by itself may have told the waiter before.
            tokio::select! {
                granted = &mut next => break granted.unwrap(),
                () = visit(&visitor, verb, &name) => {}
            }
            assert!(tokio::time::Instant::now() < end_time, "{verb} did not notice that the holder is dead");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        };
        assert!(!held.is_held(), "the lock was handed on while its holder could rely on it");
        granted.release().await.unwrap();
    }
}

/// Another client calls a verb, which has no effect of its own.
async fn visit(client: &Client, verb: &str, name: &str) {
    let entry = client.entry(name, Claim::mutex(), LONG);
    let backend = &client.backend;
    match verb {
        "enter" => {
            let standing = backend.enter(&entry, Step::Create, WaitMode::Try).await.unwrap();
            assert!(matches!(standing, Standing::Busy), "another client passed the queue: {standing:?}");
        }
        "renew" => {
            let lease = Lease { entry: Arc::new(entry), token: FencingToken::new(1) };
            let answers = backend.renew(&[lease]).await;
            assert!(matches!(answers[..], [Ok(Renewal::Lost)]), "{answers:?}");
        }
        _ => absent(client, &entry, Creates::Answered).await,
    }
}

/// The lock is released while there are no notifications.
pub(in crate::cases) async fn waiters_look_again_when_their_notifications_come_back(env: TestEnv) {
    let (holder, waiter) = (env.client().await, env.client().await);
    let names = [env.name("one"), env.name("two"), env.name("three")];
    for _ in 0..5 {
        let mut turns = Vec::new();
        for name in &names {
            let held = take_free(&mutex(&holder, name)).await;
            let lock = mutex(&waiter, name);
            let waiting = tokio::spawn(async move { lock.acquire().await });
            queue_of(2, &mutex(&holder, name)).await;
            turns.push((held, waiting));
        }
        env.server().cut_notifications().await.unwrap();
        let mut waiters = Vec::new();
        for (held, waiting) in turns {
            held.release().await.unwrap();
            waiters.push(waiting);
        }
        for waiting in waiters {
            let guard = soon("the turn of a waiter who was told nothing", waiting).await.unwrap().unwrap();
            guard.release().await.unwrap();
        }
    }
}
