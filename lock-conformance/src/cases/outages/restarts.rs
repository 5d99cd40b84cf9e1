//! Servers that restart, with or without their data.

use std::time::Duration;

use lock_core::{AcquireOptions, Guard, HoldState, LostReason};

use super::waiters::behind;
use crate::{
    Client, Data, SLACK, TestEnv,
    audit::{await_queue, eventually, within},
    cases::{
        lease::ms,
        steps::{is_busy, long, mutex, take_free},
    },
};

/// The server has crashed, or was shut down.
pub(crate) async fn a_holder_goes_on_when_the_server_comes_back_with_its_data(env: TestEnv) {
    let (holder, other) = (env.client().await, env.client().await);
    let name = env.name("job");
    let held = take_free(&holder.mutex(&name).with_options(outliving())).await;
    for crash in [true, false] {
        let ended = if crash { env.server().kill().await } else { env.server().stop().await };
        ended.unwrap();
        assert!(held.is_held());
        tokio::time::sleep(ms(100)).await;
        env.server().start(Data::Kept).await.unwrap();
        let busy = is_busy(&mutex(&other, &name)).await;
        assert!(busy || !held.is_held(), "granted to others while it is held");
        assert!(
            held.is_held(),
            "the server was back too late for a lease of {OUTLIVING:?}: {:?}",
            held.state()
        );
        eventually("it is extended", SLACK, || async { held.extend().await.is_ok() }).await;
        assert_eq!(held.state(), HoldState::Held);
    }
    held.release().await.unwrap().confirmed().unwrap();
    await_queue(&other, &name, 0).await;
}

/// The holder learns of it at its next renewal.
pub(crate) async fn a_holder_learns_that_the_server_lost_its_data(env: TestEnv) {
    let (holder, waiter) = (env.client().await, env.client().await);
    let name = env.name("job");
    let held = take_free(&holder.mutex(&name).with_options(outliving())).await;
    let (waiting, _) = behind(&waiter, &name, outliving()).await;
    env.server().kill().await.unwrap();
    env.server().start(Data::Lost).await.unwrap();
    let next = within("the next grant", OUTLIVING / 3 + SLACK, waiting).await.unwrap();
    assert_told(&held).await;
    assert_only(&waiter, &next).await;
}

/// The server evicted the lock as data that it can do without.
pub(crate) async fn a_holder_learns_that_the_server_threw_it_out(env: TestEnv) {
    let (holder, waiter) = (env.client().await, env.client().await);
    let name = env.name("job");
    let held = take_free(&holder.mutex(&name).with_options(outliving())).await;
    let (waiting, _) = behind(&waiter, &name, outliving()).await;
    env.server().evict().await.unwrap();
    let next = within("the next grant", OUTLIVING / 3 + SLACK, waiting).await.unwrap();
    assert!(next.token() > held.token(), "{} after {}", next.token(), held.token());
    assert_told(&held).await;
    assert_only(&waiter, &next).await;
}

/// A ttl that outlives a restart of the server. On a machine with two cores and eight of these cases beside each other, a restart of
/// ZooKeeper took more than nine seconds.
const OUTLIVING: Duration = Duration::from_secs(30);

fn outliving() -> AcquireOptions {
    long().ttl(OUTLIVING)
}

/// The store reports that the lock is gone, long before the deadline.
async fn assert_told(held: &Guard) {
    let reason = within("the loss", held.ttl() / 3 + SLACK, held.lost()).await;
    assert_eq!(reason, LostReason::Gone);
}

async fn assert_only(client: &Client, next: &Guard) {
    await_queue(client, next.name().as_str(), 1).await;
    next.extend().await.unwrap();
}
