//! Entries whose lease has ended, and entries that were created again under the same id.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use futures_util::{StreamExt, future::join_all, stream};
use lock_core::{
    Claim, Creates, Departure, Entry, FencingToken, Hint, Lease, Renewal, Standing, Step, WaitMode,
};

use crate::{
    Client, SLACK, TestEnv,
    audit::{assert_free, await_queue, eventually, soon},
    cases::{
        altered::{Alter, altered},
        lease::{GRAIN, admitted, lease_end, ms, row, until, waiting},
        steps::{LONG, absent, mutex, take, take_free},
    },
};

/// Sends each waiter one hint of admission with a wrong token.
#[derive(Debug, Default)]
struct LateHint {
    told: AtomicBool,
    looks: AtomicUsize,
}

impl Alter for LateHint {
    fn standing(&self, _entry: &Entry, mut standing: Standing) -> Standing {
        self.looks.fetch_add(1, Ordering::SeqCst);
        if let Standing::Waiting { token, hints, .. } = &mut standing
            && !self.told.swap(true, Ordering::SeqCst)
        {
            let former = FencingToken::new(token.get() - 1);
            let late = stream::iter([Hint::Admitted { token: former }]);
            let real = std::mem::replace(hints, Box::pin(stream::empty()));
            *hints = Box::pin(late.chain(real));
        }
        standing
    }
}

/// The hint only makes the waiter look again.
pub(crate) async fn a_hint_for_a_former_life_grants_nothing(env: TestEnv) {
    let holder = env.client().await;
    let name = env.name("job");
    let guard = take_free(&mutex(&holder, &name)).await;
    let late = Arc::new(LateHint::default());
    let client = altered(&env, Arc::clone(&late)).await;
    let lock = mutex(&client, &name);
    let waiter = tokio::spawn(async move { take(&lock).await });
    await_queue(&holder, &name, 2).await;
    eventually("a look because of the hint", SLACK, || async { late.looks.load(Ordering::SeqCst) > 1 }).await;
    tokio::time::sleep(ms(50)).await;
    assert!(!waiter.is_finished(), "granted by a hint for another life");
    assert!(guard.is_held());
    guard.release().await.unwrap();
    soon("the grant", waiter).await.unwrap().release().await.unwrap();
}

/// The entry leaves and is created again under the same id. Requests with the former token find it gone, and do not change it.
pub(crate) async fn a_former_life_of_an_entry_does_nothing_to_a_later_one(env: TestEnv) {
    let client = env.client().await;
    let name = env.name("job");
    let entry = client.entry(&name, Claim::mutex(), LONG);
    let (former, _) = admitted(&client, &entry, Step::Create).await;
    assert_eq!(client.backend.leave(&entry, Creates::Answered).await.unwrap(), Departure::Left);
    let look = client.backend.enter(&entry, Step::Again(former), WaitMode::Queue).await.unwrap();
    assert!(matches!(look, Standing::Gone), "a look created something: {look:?}");
    let (later, _) = admitted(&client, &entry, Step::Create).await;
    assert!(later > former, "the token {later} of the later life is not larger than {former}");

    let end_time = lease_end(&client, &entry.name, entry.id).await;
    tokio::time::sleep(GRAIN * 3 / 2).await;
    let look = client.backend.enter(&entry, Step::Again(former), WaitMode::Queue).await.unwrap();
    assert!(matches!(look, Standing::Gone), "the former life was found: {look:?}");
    assert_eq!(renew(&client, &entry, former).await, Renewal::Lost);
    let left = row(&client, &entry.name, entry.id).await.expect("the later life goes on");
    assert!(left.token.is_none_or(|shown| shown == later), "{left:?}");
    let after = lease_end(&client, &entry.name, entry.id).await;
    assert!(
        after <= end_time + GRAIN,
        "the former life extended the later one by {:?}",
        after.since(end_time)
    );
    assert!(matches!(renew(&client, &entry, later).await, Renewal::Renewed { .. }));
    let left = row(&client, &entry.name, entry.id).await.expect("it was renewed");
    assert_eq!(left.token, Some(later));
}

/// The one answer to the renewal of one lease.
async fn renew(client: &Client, entry: &Entry, token: FencingToken) -> Renewal {
    let lease = Lease { entry: Arc::new(entry.clone()), token };
    client.backend.renew(&[lease]).await.remove(0).unwrap()
}

/// The store has had no request since the holder's lease ended, so the first request has to judge the lease by the clock. The next in
/// the queue is admitted, and the dead entry stays out.
pub(crate) async fn the_dead_are_out_although_nobody_has_removed_them(env: TestEnv) {
    let firsts = [First::Renews, First::LooksAgain, First::Leaves, First::IsPassed];
    // A writer's lease may share a key with other leases, where that of a mutex has a key of its own.
    let both =
        firsts.into_iter().flat_map(|first| [Claim::mutex(), Claim::writer()].map(|claim| (first, claim)));
    join_all(both.map(|(first, claim)| the_dead_are_out_when(&env, first, claim))).await;
}

async fn the_dead_are_out_when(env: &TestEnv, first: First, claim: Claim) {
    let (dying, next) = (env.client().await, env.client().await);
    let name = env.name(&format!("{first:?} {}", claim.kind()));
    let dead = dying.entry(&name, claim, ms(1500));
    let (token, _) = admitted(&dying, &dead, Step::Create).await;
    let waits = next.entry(&name, claim, LONG);
    let (place, _) = waiting(&next, &waits, Step::Create).await;
    dying.stop();
    until(lease_end(&next, &dead.name, dead.id).await).await;

    let look = || dying.backend.enter(&dead, Step::Again(token), WaitMode::Queue);
    match first {
        First::Renews => assert_eq!(renew(&dying, &dead, token).await, Renewal::Lost),
        First::LooksAgain => {
            let look = soon("an answer", look()).await.unwrap();
            assert!(matches!(look, Standing::Gone), "{look:?}");
        }
        First::Leaves => absent(&dying, &dead, Creates::Answered).await,
        First::IsPassed => {}
    }
    assert_eq!(admitted(&next, &waits, Step::Again(place)).await.0, place, "{first:?}");
    assert_eq!(renew(&dying, &dead, token).await, Renewal::Lost, "{first:?}");
    let look = soon("an answer", look()).await.unwrap();
    assert!(matches!(look, Standing::Gone), "{first:?}: {look:?}");
    absent(&dying, &dead, Creates::Answered).await;
    let holds = row(&next, &waits.name, waits.id).await.expect("the next one holds");
    assert!(holds.admitted, "{first:?}: {holds:?}");
}

/// What the client of the dead entry does first.
#[derive(Clone, Copy, Debug)]
enum First {
    Renews,
    LooksAgain,
    Leaves,
    /// Nothing: another client acts first.
    IsPassed,
}

/// A dead writer between readers, whose permits are more than all others have.
pub(crate) async fn the_dead_do_not_count_against_those_behind_them(env: TestEnv) {
    let (reading, dying) = (env.client().await, env.client().await);
    let name = env.name("shared");
    let reads = reading.entry(&name, Claim::reader(), LONG);
    admitted(&reading, &reads, Step::Create).await;
    let dead = dying.entry(&name, Claim::writer(), ms(1000));
    let (token, _) = waiting(&dying, &dead, Step::Create).await;
    let behind = reading.entry(&name, Claim::reader(), LONG);
    let (place, _) = waiting(&reading, &behind, Step::Create).await;
    dying.stop();
    until(lease_end(&reading, &dead.name, dead.id).await).await;

    let tried = reading.entry(&name, Claim::reader(), LONG);
    let try_it = reading.backend.enter(&tried, Step::Create, WaitMode::Try).await.unwrap();
    assert!(matches!(try_it, Standing::Admitted { .. }), "a dead writer keeps a reader out: {try_it:?}");
    assert_eq!(admitted(&reading, &behind, Step::Again(place)).await.0, place);
    let look =
        soon("an answer", dying.backend.enter(&dead, Step::Again(token), WaitMode::Queue)).await.unwrap();
    assert!(matches!(look, Standing::Gone), "{look:?}");
    for entry in [&reads, &behind, &tried] {
        let departure = reading.backend.leave(entry, Creates::Answered).await.unwrap();
        assert_eq!(departure, Departure::Left);
    }
    assert_free(&reading, &name).await;
}
