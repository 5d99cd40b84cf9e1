//! A renewal extends the lease of its owner's entry, and nothing else.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Claim, Creates, Departure, DistributedLock, Entry, Error, FencingToken, Lease, LostReason, Renewal, Step,
};

use crate::{
    Client, Fault, Gate, SLACK, TestEnv, Verb,
    audit::{assert_free, assert_queue_empties, soon, within},
    cases::{
        lease::{GRAIN, admitted, lease_end, lock_name, ms, until},
        stall_tolerant::stall_tolerant,
        steps::{LONG, assert_held_alone, faulty, take},
    },
};

/// The one answer to the renewal of one lease.
async fn renew(client: &Client, entry: &Entry, token: FencingToken) -> Renewal {
    let lease = Lease { entry: Arc::new(entry.clone()), token };
    let mut answers = soon("an answer to renew", client.backend.renew(&[lease])).await;
    assert_eq!(answers.len(), 1, "one answer for each lease");
    answers.remove(0).unwrap()
}

/// A renewal creates no entry that never existed, and none that has left, expired, or was deleted.
pub(crate) async fn a_renewal_creates_nothing(env: TestEnv) {
    let client = env.client().await;
    let name = env.name("job");
    let never = client.entry(&name, Claim::mutex(), LONG);
    assert_eq!(renew(&client, &never, FencingToken::new(1)).await, Renewal::Lost);
    assert_queue_empties(&client, &name).await;

    let left = client.entry(&name, Claim::mutex(), LONG);
    let (token, _) = admitted(&client, &left, Step::Create).await;
    assert_eq!(client.backend.leave(&left, Creates::Answered).await.unwrap(), Departure::Left);
    assert_eq!(renew(&client, &left, token).await, Renewal::Lost);
    assert_queue_empties(&client, &name).await;

    let guard = take(&client.mutex(&name).with_options(client.options().ttl(LONG))).await;
    env.server().delete(guard.name()).await.unwrap();
    let late = guard.extend().await;
    assert!(matches!(late, Err(Error::Lost { reason: LostReason::Gone, .. })), "{late:?}");
    assert_queue_empties(&client, &name).await;

    // The entry of a dead client, so that nothing else keeps the lease alive.
    let dead = env.client().await;
    let expired = dead.entry(&name, Claim::mutex(), ms(200));
    let (token, _) = admitted(&dead, &expired, Step::Create).await;
    dead.stop();
    until(lease_end(&client, &expired.name, expired.id).await).await;
    assert_queue_empties(&client, &name).await;
    assert_eq!(renew(&dead, &expired, token).await, Renewal::Lost);
    assert_free(&client, &name).await;
}

/// Renewals with the client's own entry and token, and with one of them taken from the other client, do not extend the other's lease.
pub(crate) async fn a_renewal_extends_nobody_elses_lease(env: TestEnv) {
    let (former, holder) = (env.client().await, env.client().await);
    let name = env.name("job");
    let gone = former.entry(&name, Claim::mutex(), LONG);
    let (old, _) = admitted(&former, &gone, Step::Create).await;
    former.backend.operator().evict(&gone.name, gone.id).await.unwrap();

    let mine = holder.entry(&name, Claim::mutex(), LONG);
    let (new, _) = admitted(&holder, &mine, Step::Create).await;
    let before = lease_end(&holder, &mine.name, mine.id).await;
    tokio::time::sleep(GRAIN * 3 / 2).await;
    for (entry, token) in [(&gone, old), (&gone, new), (&mine, old)] {
        assert_eq!(renew(&former, entry, token).await, Renewal::Lost, "{entry:?} with {token}");
    }
    let after = lease_end(&holder, &mine.name, mine.id).await;
    assert!(after <= before + GRAIN, "another's renewals moved the end by {:?}", after.since(before));
    assert!(matches!(renew(&holder, &mine, new).await, Renewal::Renewed { .. }));
}

/// A renewal is on its way when the lock is released, and arrives after it.
pub(crate) async fn nothing_is_renewed_after_a_release(env: TestEnv) {
    let (client, faults) = faulty(&env).await;
    let other = env.client().await;
    let name = env.name("job");
    let gate = Gate::new();
    faults.next(Verb::Renew, Fault::InFlight(gate.clone()));
    let guard = client.mutex(&name).acquire_with(&client.options().ttl(ms(600))).await.unwrap();
    soon("a renewal on its way", gate.reached()).await;
    guard.release().await.unwrap();
    let calls = faults.calls(Verb::Renew);
    let next = other.mutex(&name).acquire_with(&other.options().ttl(LONG).renew(false)).await.unwrap();
    let before = lease_end(&other, next.name(), next.entry_id()).await;
    tokio::time::sleep(GRAIN * 3 / 2).await;
    gate.open();
    // Time for the late renewal to arrive.
    tokio::time::sleep(ms(100)).await;
    let after = lease_end(&other, next.name(), next.entry_id()).await;
    assert!(after <= before + GRAIN, "a late renewal moved the next lease by {:?}", after.since(before));
    let rows = client.backend.operator().queue(next.name()).await.unwrap();
    assert!(
        rows.len() == 1 && rows[0].entry == Some(next.entry_id()),
        "a late renewal made an entry: {rows:?}"
    );
    next.release().await.unwrap();
    assert_queue_empties(&other, &name).await;
    assert_eq!(faults.calls(Verb::Renew), calls, "renewed after the release");
    assert_free(&other, &name).await;
}

/// In stores with sessions, a session keeps all entries of its client alive, but not one that was deleted.
pub(crate) async fn a_lease_is_proved_by_its_own_entry_and_not_by_others_of_its_client(env: TestEnv) {
    stall_tolerant(env, ms(2000), proved_by_its_own_entry).await;
}

async fn proved_by_its_own_entry(env: TestEnv, ttl: Duration) {
    let (client, other) = (env.client().await, env.client().await);
    let (deleted, kept) = (env.name(&format!("deleted {ttl:?}")), env.name(&format!("kept {ttl:?}")));
    let options = client.options().ttl(ttl);
    let guard = client.mutex(&deleted).acquire_with(&options).await.unwrap();
    let alive = client.mutex(&kept).acquire_with(&options).await.unwrap();
    env.server().delete(&lock_name(&deleted)).await.unwrap();
    let reason = within("the loss of a lock that was deleted", guard.ttl() + SLACK, guard.lost()).await;
    assert_eq!(reason, LostReason::Gone, "the loss was noticed only at the deadline");
    assert!(guard.extend().await.is_err());
    assert_held_alone(&alive, &other.mutex(&kept)).await;
    assert_free(&other, &deleted).await;
}
