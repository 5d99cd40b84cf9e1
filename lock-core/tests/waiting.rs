//! The wait engine on simulated time: when it looks again, when it gives up, and which hints it trusts.

mod support;

use std::time::Duration;

use futures_util::FutureExt;
use lock_core::{AcquireOptions, DistributedLock, Error, Hint, Outage};
use support::{Client, Fault, Sim, Verb, assert_at, lease, ms, s, sleep};
use tokio::time::timeout;

fn ttl(ttl: Duration) -> AcquireOptions {
    AcquireOptions::new().ttl(ttl)
}

async fn hold(client: &Client, options: &AcquireOptions) -> lock_core::Guard {
    client.locks.mutex("a").unwrap().acquire_with(options).await.unwrap()
}

/// Starts to wait in a new task, and lets the request arrive.
async fn wait(
    client: &Client,
    options: AcquireOptions,
) -> tokio::task::JoinHandle<Result<lock_core::Guard, Error>> {
    let lock = client.locks.mutex("a").unwrap();
    let waiter = tokio::spawn(async move { lock.acquire_with(&options).await });
    sleep(ms(1)).await;
    waiter
}

#[tokio::test(start_paused = true)]
async fn a_waiter_keeps_its_place_alive_behind_a_longer_lease() {
    // PR13
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    let guard = hold(&holder, &ttl(s(60))).await;
    let waiting = wait(&waiter, ttl(s(6))).await;
    sleep(s(50)).await;
    let sent = waiter.wire.sent(Verb::Enter);
    assert!((24..=27).contains(&sent.len()), "{} looks in 50 s", sent.len());
    assert!(sent.windows(2).all(|pair| pair[1].since(pair[0]) <= ms(2_002)));
    let place = sim.rows("a").await[1].token;
    guard.release().await.unwrap();
    assert_eq!(Some(waiting.await.unwrap().unwrap().token()), place, "it never lost its place");
}

#[tokio::test(start_paused = true)]
async fn a_hand_off_is_one_hint_and_asks_nothing() {
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    let guard = hold(&holder, &ttl(s(30))).await;
    let waiting = wait(&waiter, ttl(s(30))).await;
    assert_eq!(waiter.wire.sent(Verb::Enter).len(), 1);
    let released = sim.now();
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert_at(sim.now(), released);
    assert_eq!(waiter.wire.sent(Verb::Enter).len(), 1, "the hint was the grant");
    assert!(next.remaining() <= lease(s(30)));
}

/// A session of ZooKeeper lasts 40 s at most, unless its servers are configured otherwise.
#[tokio::test(start_paused = true)]
async fn a_hint_is_the_grant_also_where_the_store_grants_a_short_lease() {
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    waiter.wire.grants(s(40));
    let guard = hold(&holder, &ttl(s(30))).await;
    let waiting = wait(&waiter, ttl(s(150))).await;
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert_eq!(waiter.wire.sent(Verb::Enter).len(), 1, "the hint was not taken");
    assert!(next.remaining() <= lease(s(40)));
}

#[tokio::test(start_paused = true)]
async fn a_hint_near_the_end_of_the_own_lease_is_checked_first() {
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    let guard = hold(&holder, &ttl(s(30))).await;
    let waiting = wait(&waiter, ttl(s(6)).outage(Outage::Wait)).await;
    // The looks at 2 s and later are lost, and with them the refreshing of the lease.
    waiter.wire.always(Verb::Enter, Some(Fault::Refused));
    sleep(ms(4_500)).await;
    waiter.wire.always(Verb::Enter, None);
    let asked = waiter.wire.sent(Verb::Enter).len();
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(waiter.wire.sent(Verb::Enter).len() > asked, "the lease was refreshed first");
    assert!(next.remaining() >= s(5));
}

#[tokio::test(start_paused = true)]
async fn without_hints_a_waiter_is_admitted_when_the_lease_of_the_holder_ends() {
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    waiter.wire.silence();
    let start = sim.now();
    let guard = hold(&holder, &ttl(s(10))).await;
    std::mem::forget(guard);
    holder.keeper.stop();
    let waiting = wait(&waiter, ttl(s(60))).await;
    let next = waiting.await.unwrap().unwrap();
    assert_at(sim.now(), start + s(10));
    drop(next);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_exactly_when_it_should_and_leaves_no_place_behind() {
    // L08
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    let _guard = hold(&holder, &ttl(s(30)).label("the holder")).await;
    let start = sim.now();
    let error =
        waiter.locks.mutex("a").unwrap().acquire_with(&ttl(s(30)).wait(ms(12_345))).await.unwrap_err();
    assert_at(sim.now(), start + ms(12_345));
    assert_eq!(
        error.to_string(),
        format!(
            "lock `a` was not granted within {:?} (1 ahead), held by `the holder`; wait longer, or see who holds it",
            ms(12_345)
        )
    );
    sleep(ms(1)).await;
    assert_eq!(sim.rows("a").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_in_time_even_if_the_store_hangs() {
    // L08
    let sim = Sim::new();
    let client = sim.client();
    client.wire.always(Verb::Enter, Some(Fault::Hangs));
    let start = sim.now();
    let error = client.locks.mutex("a").unwrap().acquire_with(&ttl(s(30)).wait(s(3))).await.unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error:?}");
    assert_at(sim.now(), start + s(3));
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_arrives_at_the_end_of_the_wait_is_taken() {
    // C12
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    let guard = hold(&holder, &ttl(s(30))).await;
    let lock = waiter.locks.mutex("a").unwrap();
    let options = ttl(s(30)).wait(s(5));
    let mut acquire = Box::pin(lock.acquire_with(&options));
    assert!((&mut acquire).now_or_never().is_none());
    sleep(ms(4_999)).await;
    guard.release().await.unwrap();
    sleep(ms(1)).await;
    // Both are ready now: the hint, and the timer.
    assert!(acquire.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_place_whose_future_is_not_polled_for_a_ttl_is_given_up_by_the_keeper() {
    // PR09
    let sim = Sim::new();
    let (holder, sleeper, next) = (sim.client(), sim.client(), sim.client());
    let guard = hold(&holder, &ttl(s(30))).await;
    let lock = sleeper.locks.mutex("a").unwrap();
    let mut asleep = Box::pin(async move { lock.acquire_with(&ttl(s(6))).await });
    assert!((&mut asleep).now_or_never().is_none());
    let waiting = wait(&next, ttl(s(30))).await;
    guard.release().await.unwrap();
    // The lock was granted to the waiter that sleeps, and does not take it.
    let released = sim.now();
    let granted = waiting.await.unwrap().unwrap();
    assert!(sim.now().since(released) <= s(6), "nobody renewed what nobody collected");
    assert_eq!(sleeper.wire.sent(Verb::Leave).len(), 1);
    // When it wakes up, it joins the queue again, behind the others.
    let asleep = tokio::spawn(asleep);
    sleep(s(20)).await;
    assert!(!asleep.is_finished());
    granted.release().await.unwrap().confirmed().unwrap();
    assert!(asleep.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_an_error_at_once_by_default() {
    let sim = Sim::new();
    let client = sim.client();
    client.wire.always(Verb::Enter, Some(Fault::Refused));
    let error = client.locks.mutex("a").unwrap().acquire_with(&ttl(s(30))).await.unwrap_err();
    assert!(matches!(error, Error::Backend { .. }) && error.is_transient(), "{error:?}");
    assert_eq!(client.wire.sent(Verb::Enter).len(), 1);
    assert_eq!(client.wire.sent(Verb::Leave).len(), 0, "what never left is not cleaned up");
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_asked_for_with_the_same_entry_and_never_called_busy() {
    let sim = Sim::new();
    let client = sim.client();
    client.wire.once(Verb::Enter, Fault::ReplyLost);
    let guard = client.locks.mutex("a").unwrap().try_acquire_with(&ttl(s(30))).await.unwrap();
    assert!(guard.is_some());
    assert_eq!(sim.rows("a").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn patience_with_a_store_that_is_away_backs_off_and_ends_when_it_is_back() {
    let sim = Sim::new();
    let client = sim.client();
    client.wire.always(Verb::Enter, Some(Fault::Refused));
    let waiting = wait(&client, ttl(s(30)).outage(Outage::Wait).back_off(ms(100), s(2))).await;
    sleep(s(60)).await;
    let tries = client.wire.sent(Verb::Enter).len();
    assert!((30..=70).contains(&tries), "{tries} tries in a minute");
    client.wire.always(Verb::Enter, None);
    let back = sim.now();
    assert!(waiting.await.unwrap().is_ok());
    assert!(sim.now().since(back) <= s(2));
}

#[tokio::test(start_paused = true)]
async fn who_stands_in_the_queue_waits_for_a_store_that_went_away() {
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    let guard = hold(&holder, &ttl(s(120))).await;
    let waiting = wait(&waiter, ttl(s(60))).await;
    waiter.wire.always(Verb::Enter, Some(Fault::Lost(s(2))));
    sleep(s(45)).await;
    waiter.wire.always(Verb::Enter, None);
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_grant_slower_than_its_own_ttl_is_never_given_out() {
    // X13
    let sim = Sim::new();
    let client = sim.client();
    client.wire.always(Verb::Enter, Some(Fault::Late(ms(1_500))));
    let error = client.locks.mutex("a").unwrap().acquire_with(&ttl(s(1))).await.unwrap_err();
    assert!(matches!(error, Error::TooSlow { .. }), "{error:?}");
    // Three late grants in a row are tolerated; the look after each of them finds that the entry has expired.
    assert_eq!(client.wire.sent(Verb::Enter).len(), 7);
    client.wire.always(Verb::Enter, None);
    sleep(s(2)).await;
    assert!(sim.rows("a").await.is_empty());
}

/// Where a session keeps entries, the keeper gives one up at its ttl, and the store refuses a create that comes later.
#[tokio::test(start_paused = true)]
async fn a_try_and_a_wait_end_where_creates_take_longer_than_the_ttl() {
    let sim = Sim::new();
    let client = sim.client();
    client.wire.share_leases();
    client.wire.always(Verb::Enter, Some(Fault::Slow(ms(1_500))));
    let (lock, brief, long) = (client.locks.mutex("a").unwrap(), ttl(s(1)), s(60));
    let tried = timeout(long, lock.try_acquire_with(&brief)).await.expect("the try ends").unwrap_err();
    assert!(matches!(tried, Error::TooSlow { .. }), "{tried:?}");
    assert_eq!(client.wire.sent(Verb::Enter).len(), 4);
    let waited = timeout(long, lock.acquire_with(&brief)).await.expect("the wait ends").unwrap_err();
    assert!(matches!(waited, Error::TooSlow { .. }), "{waited:?}");
    assert_eq!(client.wire.sent(Verb::Enter).len(), 8);
    assert!(sim.rows("a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn late_answers_before_and_after_an_outage_do_not_add_up() {
    let sim = Sim::new();
    let client = sim.client();
    client.wire.share_leases();
    let late = [Fault::Slow(ms(1_500)); 3];
    for fault in late.into_iter().chain([Fault::Refused]).chain(late) {
        client.wire.once(Verb::Enter, fault);
    }
    let guard = hold(&client, &ttl(s(1)).outage(Outage::Wait)).await;
    assert!(guard.is_held());
    assert_eq!(client.wire.sent(Verb::Enter).len(), 8);
}

#[tokio::test(start_paused = true)]
async fn one_slow_grant_is_refreshed_and_given_out() {
    let sim = Sim::new();
    let client = sim.client();
    client.wire.once(Verb::Enter, Fault::Late(ms(1_500)));
    let guard = client.locks.mutex("a").unwrap().acquire_with(&ttl(s(1))).await.unwrap();
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_when_the_locks_are_closed() {
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    let _guard = hold(&holder, &ttl(s(30))).await;
    let waiting = wait(&waiter, ttl(s(30))).await;
    waiter.locks.close(s(1)).await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(Error::Closed { .. })));
    sleep(ms(1)).await;
    assert_eq!(sim.rows("a").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hint_for_another_life_of_the_entry_is_only_a_reason_to_look() {
    // PR03
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    let guard = hold(&holder, &ttl(s(60))).await;
    let waiting = wait(&waiter, ttl(s(60))).await;
    let asked = waiter.wire.sent(Verb::Enter).len();
    waiter.wire.inject(Hint::Admitted { token: guard.token() });
    sleep(ms(1)).await;
    assert!(!waiting.is_finished(), "it was granted what another life of the entry had");
    assert_eq!(waiter.wire.sent(Verb::Enter).len(), asked + 1);
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_create_that_arrives_after_its_leave_finds_a_tombstone() {
    // PR08
    let sim = Sim::new();
    let client = sim.client();
    client.wire.always(Verb::Enter, Some(Fault::ArrivesLate(s(5))));
    let error = client.locks.mutex("a").unwrap().acquire_with(&ttl(s(30))).await.unwrap_err();
    assert!(matches!(error, Error::Backend { .. }), "{error:?}");
    sleep(s(6)).await;
    assert!(sim.rows("a").await.is_empty(), "a lock was left behind that nobody knows of");
}

#[tokio::test(start_paused = true)]
async fn a_create_that_arrives_twice_leaves_nothing_behind_a_release() {
    // PR08: the guard of the second create still knows that the first create is in doubt.
    let sim = Sim::new();
    let client = sim.client();
    client.wire.once(Verb::Enter, Fault::ArrivesLate(s(5)));
    let guard = hold(&client, &ttl(s(30))).await;
    guard.release().await.unwrap().confirmed().unwrap();
    sleep(s(6)).await;
    assert!(sim.rows("a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_lost_is_taken_anew_under_another_id_behind_the_others() {
    let sim = Sim::new();
    let (holder, waiter, other) = (sim.client(), sim.client(), sim.client());
    let _guard = hold(&holder, &ttl(s(60))).await;
    let _waiting = wait(&waiter, ttl(s(9))).await;
    let _other = wait(&other, ttl(s(60))).await;
    let rows = sim.rows("a").await;
    let (evicted, second) = (rows[1].entry.unwrap(), rows[2].entry);
    waiter.locks.operator().evict(&lock_core::LockName::new("a").unwrap(), evicted).await.unwrap();
    sleep(s(4)).await;
    let rows = sim.rows("a").await;
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[1].entry, second);
    assert_ne!(rows[2].entry, Some(evicted));
}

#[tokio::test(start_paused = true)]
async fn what_is_granted_to_a_place_that_the_keeper_has_given_up_is_not_held() {
    // The answer to a look is under way when the lease of the place ends: the keeper leaves for it, and the lock goes to
    // somebody else.
    let sim = Sim::new();
    let (holder, waiter, other) = (sim.client(), sim.client(), sim.client());
    let guard = hold(&holder, &ttl(s(60))).await;
    let waiting = wait(&waiter, ttl(s(6))).await;
    let behind = wait(&other, ttl(s(60))).await;
    // The looks from 2 s on fail; one at about 5 s is carried out, and answered when the place is lost.
    waiter.wire.always(Verb::Enter, Some(Fault::Refused));
    sleep(ms(4_500)).await;
    waiter.wire.always(Verb::Enter, Some(Fault::Late(s(3))));
    guard.release().await.unwrap();
    sleep(s(1)).await;
    waiter.wire.always(Verb::Enter, None);
    let behind = behind.await.unwrap().unwrap();
    sleep(s(5)).await;
    assert!(behind.is_held());
    assert!(!waiting.is_finished(), "two hold the lock");
    behind.release().await.unwrap();
    assert!(waiting.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_entry_in_a_session_is_left_for_when_its_future_is_never_polled() {
    // PR09: the creating request is on its way, and nobody ever reads its answer.
    let sim = Sim::new();
    let client = sim.client();
    client.wire.share_leases();
    client.wire.once(Verb::Enter, Fault::Late(ms(10)));
    let lock = client.locks.mutex("a").unwrap();
    let mut asleep = Box::pin(async move { lock.acquire_with(&ttl(s(6))).await });
    assert!((&mut asleep).now_or_never().is_none());
    sleep(ms(5_990)).await;
    assert_eq!(client.wire.sent(Verb::Leave).len(), 0, "too early");
    sleep(ms(20)).await;
    assert_eq!(client.wire.sent(Verb::Leave).len(), 1);
    // The answer must not be relied on any more.
    let guard = asleep.await.unwrap();
    sleep(s(1)).await;
    assert_eq!(sim.rows("a").await[0].entry, Some(guard.entry_id()));
}
