//! Hints that are lost, late or early: they cost time, and a bounded one.

use std::{sync::Arc, time::Duration};

use lock_core::{DistributedLock, Guard, Locks, Outage, Release, SystemEntropy};
use tokio::task::JoinHandle;

use super::{Far, warm};
use crate::{
    Client, Flow, Gate, Layered, Links, Silent, Way, World,
    audit::soon,
    cases::{
        lease::{ms, now},
        steady::steady,
        steps::{long, mutex, queue_of, take_free},
    },
};

/// Somebody who waits behind a holder of `other`, as the last of two. Patiently from the first: others see it in the queue
/// before it knows that it is there, and what cuts its connection then may cut the next one, too.
async fn behind(locks: &Locks, other: &Client, name: &str, ttl: Duration) -> JoinHandle<Guard> {
    let lock = locks.mutex(name).unwrap().with_options(long().ttl(ttl).outage(Outage::Wait));
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
    queue_of(2, &mutex(other, name)).await;
    waiting
}

/// Also if hints never come again.
pub(crate) async fn a_lost_hint_delays_a_hand_over_by_a_third_of_the_ttl_at_most(world: World) {
    steady(world, ms(6000), lost_hint).await;
}

async fn lost_hint(world: World, ttl: Duration) {
    let (other, far) = (world.client().await, Far::new(&world).await);
    let name = world.name(&format!("job {ttl:?}"));
    let held = take_free(&mutex(&other, &name)).await;
    // What cannot be lost without the commands is lost on the way to the waiter.
    let deaf = Layered::new(Arc::clone(&far.client.backend), Arc::new(Silent::default()));
    let deaf = Locks::with(Arc::new(deaf), far.client.keeper.clone(), Arc::new(SystemEntropy));
    let locks = if far.proxy.is_shared() { &deaf } else { &far.client.locks };
    let waiting = behind(locks, &other, &name, ttl).await;
    if !far.proxy.is_shared() {
        far.proxy.order(Links::Hints, Way::Replies, &Flow::Lose);
    }
    assert_eq!(held.release().await.unwrap(), Release::Released);
    let released = now();
    let guard = soon("the grant", waiting).await.unwrap();
    let took = now().since(released);
    assert!(took <= ttl / 3 + ttl / 8, "it took {took:?} with a ttl of {ttl:?}");
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

/// Nothing is said on it, and nothing heard. All of its waiters look again then, long before their own time.
pub(crate) async fn a_silent_notification_connection_is_noticed_in_the_promised_time(world: World) {
    // What is allowed beyond the promise.
    steady(world, ms(1000), silent_notifications).await;
}

async fn silent_notifications(world: World, late: Duration) {
    let (other, far) = (world.client().await, Far::new(&world).await);
    let names = ["one", "two", "three"].map(|tag| world.name(&format!("{tag} {late:?}")));
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for name in &names {
        held.push(take_free(&mutex(&other, name)).await);
        waiting.push(behind(&far.client.locks, &other, name, Duration::from_secs(120)).await);
    }
    let promised = world.wire().noticed_within();
    far.proxy.silence(Links::OpenHints);
    let silent = now();
    for guard in held {
        assert_eq!(guard.release().await.unwrap(), Release::Released);
    }
    for waiter in waiting {
        let guard = soon("the grant", waiter).await.unwrap();
        let took = now().since(silent);
        assert!(took <= promised + late, "noticed after {took:?}, and {promised:?} were promised");
        assert_eq!(guard.release().await.unwrap(), Release::Released);
    }
}

/// What was said while there was no connection was said to nobody.
pub(crate) async fn all_waiters_look_again_when_their_notifications_come_back(world: World) {
    let (other, far) = (world.client().await, Far::new(&world).await);
    let names = ["one", "two", "three"].map(|tag| world.name(tag));
    for _ in 0..3 {
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        for name in &names {
            held.push(take_free(&mutex(&other, name)).await);
            waiting.push(behind(&far.client.locks, &other, name, Duration::from_secs(120)).await);
        }
        // From now on nothing that is said arrives, and new connections get no answer.
        far.proxy.order(Links::Hints, Way::Replies, &Flow::Lose);
        far.proxy.reset(Links::OpenHints);
        for guard in held {
            assert_eq!(guard.release().await.unwrap(), Release::Released);
        }
        far.proxy.heal();
        far.proxy.reset(Links::OpenHints);
        for waiter in waiting {
            let guard = soon("the grant", waiter).await.unwrap();
            assert_eq!(guard.release().await.unwrap(), Release::Released);
        }
    }
}

/// The look was judged before the release, and is answered after it.
pub(crate) async fn a_hint_that_overtakes_the_answer_to_a_look_is_not_lost(world: World) {
    let (other, far) = (world.client().await, Far::new(&world).await);
    let name = world.name("job");
    warm(&far.client, &name).await;
    // The hints have their connection.
    let held = take_free(&mutex(&other, &name)).await;
    behind(&far.client.locks, &other, &name, Duration::from_secs(120)).await.abort();
    queue_of(1, &mutex(&other, &name)).await;

    let gate = Gate::new();
    far.proxy.order(Links::OpenCommands, Way::Replies, &Flow::Hold(gate.clone()));
    let waiting = behind(&far.client.locks, &other, &name, Duration::from_secs(120)).await;
    assert_eq!(held.release().await.unwrap(), Release::Released);
    // Long enough for the hint to have come first.
    tokio::time::sleep(ms(100)).await;
    // Where hints share the connection with the answers, they cannot overtake them.
    assert!(!waiting.is_finished() || far.proxy.is_shared(), "nothing has answered its look");
    gate.open();
    let guard = soon("the grant", waiting).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}
