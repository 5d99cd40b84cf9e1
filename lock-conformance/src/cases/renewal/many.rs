//! Many leases of one client.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use lock_core::{DistributedLock, EntryId, Guard, Lease, LostReason};

use crate::{
    SLACK, TestEnv, Verb,
    audit::within,
    cases::{
        altered::{Alter, altered},
        lease::{lock_name, ms, now},
        stall_tolerant::stall_tolerant,
        steps::faulty,
    },
};

/// With one request for each renewal there would be about 4 500.
const FEW: usize = 150;

/// All locks are held for one and a half times their ttl, in which each is renewed at least four times.
pub(crate) async fn a_thousand_locks_are_renewed_in_few_requests(env: TestEnv) {
    stall_tolerant(env, ms(2000), a_thousand_locks).await;
}

async fn a_thousand_locks(env: TestEnv, ttl: Duration) {
    let (client, counted) = faulty(&env).await;
    let options = client.options().ttl(ttl);
    let acquired = (0..1000).map(|i| {
        let lock = client.mutex(&env.name(&format!("job {i} {ttl:?}"))).with_options(options.clone());
        async move { lock.acquire().await.unwrap() }
    });
    // If all were acquired at the same time, a busy machine would not answer the last one in time.
    let guards: Vec<Guard> = stream::iter(acquired).buffer_unordered(50).collect().await;
    let before = counted.calls(Verb::Renew);
    assert_all_stay_held(&guards, ttl * 3 / 2).await;
    let requests = counted.calls(Verb::Renew) - before;
    assert!(requests <= FEW, "{requests} requests to renew 1000 locks four times");
    drop(guards);
    client.locks.close(SLACK).await.unwrap();
}

/// Checks all the time, so that a loss is reported when it happens.
async fn assert_all_stay_held(guards: &[Guard], time: Duration) {
    let end = now() + time;
    while now() < end {
        let lost: Vec<_> = guards.iter().filter(|guard| !guard.is_held()).collect();
        let first = lost.first().map(|guard| (guard.name(), guard.state()));
        assert!(first.is_none(), "{} of {} locks are lost: {first:?}", lost.len(), guards.len());
        tokio::time::sleep(ms(20)).await;
    }
}

/// A store that refuses to renew one entry.
#[derive(Debug, Default)]
struct RefusesOne(std::sync::OnceLock<EntryId>);

impl Alter for RefusesOne {
    fn refuses(&self, lease: &Lease) -> bool {
        self.0.get() == Some(&lease.entry.id)
    }
}

/// Of several locks, one cannot be renewed and one is taken away. The others are still held.
pub(crate) async fn a_lease_that_cannot_be_renewed_costs_no_other(env: TestEnv) {
    stall_tolerant(env, ms(3000), one_lease_fails).await;
}

async fn one_lease_fails(env: TestEnv, ttl: Duration) {
    let store = Arc::new(RefusesOne::default());
    let client = altered(&env, Arc::clone(&store)).await;
    let mut guards = Vec::new();
    for i in 0..9 {
        let lock = client.mutex(&env.name(&format!("job {i} {ttl:?}")));
        guards.push(lock.acquire_with(&client.options().ttl(ttl)).await.unwrap());
    }
    let (refused, evicted) = (guards.swap_remove(4), guards.swap_remove(2));
    store.0.set(refused.entry_id()).unwrap();
    let name = lock_name(evicted.name().as_str());
    env.server().delete(&name).await.unwrap();
    let ttl = refused.ttl();
    assert_eq!(within("the loss of the refused", ttl + SLACK, refused.lost()).await, LostReason::Expired);
    assert_eq!(within("the loss of the deleted", ttl + SLACK, evicted.lost()).await, LostReason::Gone);
    assert_all_stay_held(&guards, ttl).await;
}
