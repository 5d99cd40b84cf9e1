//! Waiters with a shorter lease than holders, on simulated time.

mod support;

use std::time::Duration;

use lock_core::{AcquireOptions, DistributedLock, Error, Guard, Outage};
use support::{Client, Fault, Sim, Verb, assert_at, lease, ms, s, sleep};

const TTL: Duration = s(30);
const WAITING: Duration = s(6);

fn long() -> AcquireOptions {
    AcquireOptions::new().ttl(TTL)
}

fn short_while_waiting() -> AcquireOptions {
    long().waiting_ttl(WAITING)
}

async fn hold(client: &Client, options: &AcquireOptions) -> Guard {
    client.locks.mutex("a").unwrap().acquire_with(options).await.unwrap()
}

/// Starts to wait in a new task, and lets the request arrive.
async fn wait(client: &Client, options: AcquireOptions) -> tokio::task::JoinHandle<Result<Guard, Error>> {
    let lock = client.locks.mutex("a").unwrap();
    let waiter = tokio::spawn(async move { lock.acquire_with(&options).await });
    sleep(ms(1)).await;
    waiter
}

/// The rest of the lease, as the store has it, of the entry at this place in the queue.
async fn left(sim: &Sim, place: usize) -> Duration {
    sim.rows("a").await[place].lease_left.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_dead_waiter_is_in_the_way_for_no_longer_than_its_shorter_lease() {
    let sim = Sim::new();
    let (holder, dead, next) = (sim.client(), sim.client(), sim.client());
    let guard = hold(&holder, &long()).await;
    dead.wire.silence();
    let entered = sim.now();
    let _dead = wait(&dead, short_while_waiting()).await;
    dead.wire.always(Verb::Enter, Some(Fault::Hangs));
    dead.wire.always(Verb::Leave, Some(Fault::Hangs));
    let waiting = wait(&next, long()).await;
    guard.release().await.unwrap();
    let granted = waiting.await.unwrap().unwrap();
    assert_at(sim.now(), entered + WAITING);
    assert!(granted.is_held());
}

#[tokio::test(start_paused = true)]
async fn who_waited_with_a_shorter_lease_holds_with_the_full_one() {
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    let guard = hold(&holder, &long()).await;
    let waiting = wait(&waiter, short_while_waiting()).await;
    sleep(s(20)).await;
    let place = sim.rows("a").await[1].token;
    let (looks, released) = (waiter.wire.sent(Verb::Enter).len(), sim.now());
    guard.release().await.unwrap();
    let granted = waiting.await.unwrap().unwrap();
    assert_eq!(Some(granted.token()), place, "it never lost its place");
    assert_eq!(granted.ttl(), TTL);
    assert_at(sim.now(), released);
    assert_eq!(waiter.wire.sent(Verb::Enter).len(), looks + 1, "one look asks for it");
    assert!(granted.remaining() + ms(2) >= lease(TTL), "{:?}", granted.remaining());
    assert!(left(&sim, 0).await + ms(2) >= TTL, "the store knows nothing of it");
    // It is renewed like any other lease.
    sleep(s(9)).await;
    assert_eq!(waiter.wire.sent(Verb::Renew).len(), 0);
    sleep(s(2)).await;
    assert_eq!(waiter.wire.sent(Verb::Renew).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_need_not_wait_holds_with_the_full_lease_too() {
    let sim = Sim::new();
    let client = sim.client();
    let granted = hold(&client, &short_while_waiting()).await;
    assert_eq!(client.wire.sent(Verb::Enter).len(), 2);
    assert!(granted.remaining() + ms(2) >= lease(TTL), "{:?}", granted.remaining());
    assert!(left(&sim, 0).await + ms(2) >= TTL, "the store knows nothing of it");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_granted_before_the_full_lease_is_answered_for() {
    let sim = Sim::new();
    let client = sim.client();
    let lock = client.locks.mutex("a").unwrap();
    // The first request is answered, and the second is not.
    client.wire.once(Verb::Enter, Fault::Late(ms(0)));
    client.wire.once(Verb::Enter, Fault::Hangs);
    let start = sim.now();
    let error = lock.acquire_with(&short_while_waiting().wait(s(3))).await.unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error:?}");
    assert_at(sim.now(), start + s(3));
    sleep(ms(1)).await;
    assert!(sim.rows("a").await.is_empty(), "it has left");

    client.wire.once(Verb::Enter, Fault::Late(ms(0)));
    client.wire.once(Verb::Enter, Fault::ReplyLost);
    let granted = lock.acquire_with(&short_while_waiting()).await.unwrap();
    assert!(
        granted.remaining() + ms(2) >= lease(TTL),
        "it is asked about once more: {:?}",
        granted.remaining()
    );
}

#[tokio::test(start_paused = true)]
async fn who_comes_back_to_the_queue_waits_with_the_shorter_lease_again() {
    let sim = Sim::new();
    let (client, next) = (sim.client(), sim.client());
    // It is admitted, but cannot ask for the full lease before its own lease has ended and another client holds the lock.
    client.wire.once(Verb::Enter, Fault::Late(ms(0)));
    client.wire.always(Verb::Enter, Some(Fault::Refused));
    let start = sim.now();
    let waiting = wait(&client, short_while_waiting().outage(Outage::Wait)).await;
    let _held = hold(&next, &long()).await;
    assert_at(sim.now(), start + WAITING);
    client.wire.always(Verb::Enter, None);
    sleep(s(3)).await;
    assert_eq!(sim.rows("a").await.len(), 2);
    assert!(left(&sim, 1).await <= WAITING);
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_looks_at_every_third_of_its_shorter_lease() {
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    let _guard = hold(&holder, &long()).await;
    let waiting = wait(&waiter, short_while_waiting()).await;
    assert!(left(&sim, 1).await <= WAITING);
    sleep(s(20)).await;
    let sent = waiter.wire.sent(Verb::Enter);
    assert!((10..=11).contains(&sent.len()), "{} looks in 20 s", sent.len());
    assert!(sent.windows(2).all(|pair| pair[1].since(pair[0]) <= WAITING / 3 + ms(2)));
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_will_lengthen_is_the_full_one_from_the_start() {
    let not_renewed = short_while_waiting().renew(false);
    let longer = long().waiting_ttl(TTL * 2);
    for (options, shared) in [(not_renewed, false), (short_while_waiting(), true), (longer, false)] {
        let sim = Sim::new();
        let (holder, waiter) = (sim.client(), sim.client());
        if shared {
            waiter.wire.share_leases();
        }
        let _guard = hold(&holder, &long()).await;
        let waiting = wait(&waiter, options.clone()).await;
        let left = left(&sim, 1).await;
        assert!(left + ms(2) >= TTL && left <= TTL, "{left:?} with {options:?}");
        waiting.abort();
    }
    let sim = Sim::new();
    let client = sim.client();
    let tried = client.locks.mutex("a").unwrap().try_acquire_with(&short_while_waiting()).await.unwrap();
    assert!(tried.unwrap().remaining() + ms(2) >= lease(TTL), "a try waits for nothing");
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_to_the_request_for_the_full_lease_costs_no_place() {
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    let guard = hold(&holder, &long()).await;
    let waiting = wait(&waiter, short_while_waiting()).await;
    let (place, released) = (sim.rows("a").await[1].token, sim.now());
    // It is carried out immediately, and answered after the shorter lease would have ended.
    waiter.wire.once(Verb::Enter, Fault::Late(WAITING + s(1)));
    guard.release().await.unwrap();
    let granted = waiting.await.unwrap().unwrap();
    assert_eq!(Some(granted.token()), place, "it lost its place");
    assert_at(sim.now(), released + WAITING + s(1));
    assert_eq!(waiter.wire.sent(Verb::Leave).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_close_counts_on_the_full_lease_once_it_was_asked_for() {
    let sim = Sim::new();
    let client = sim.client();
    // It is admitted, and the outcome of its request for the full lease is unknown.
    client.wire.once(Verb::Enter, Fault::Late(ms(0)));
    client.wire.always(Verb::Enter, Some(Fault::Hangs));
    client.wire.always(Verb::Leave, Some(Fault::Refused));
    let waiting = wait(&client, short_while_waiting()).await;
    sleep(ms(5)).await;
    assert_eq!(client.wire.sent(Verb::Enter).len(), 2);
    let error = client.locks.close(ms(100)).await.unwrap_err();
    let [(_, Some(free_within))] = error.unconfirmed.as_slice() else { panic!("{error:?}") };
    assert!(*free_within >= TTL, "the store may keep it for longer than {free_within:?}");
    assert!(matches!(waiting.await.unwrap(), Err(Error::Closed { .. })));
}

#[tokio::test(start_paused = true)]
async fn each_of_the_two_requests_is_repeated_once() {
    let sim = Sim::new();
    let client = sim.client();
    for fault in [Fault::ReplyLost, Fault::Late(ms(0)), Fault::ReplyLost] {
        client.wire.once(Verb::Enter, fault);
    }
    let granted = hold(&client, &short_while_waiting()).await;
    assert_eq!(client.wire.sent(Verb::Enter).len(), 4);
    assert!(granted.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_grant_slower_than_the_shorter_lease_names_that_one() {
    let sim = Sim::new();
    let client = sim.client();
    client.wire.always(Verb::Enter, Some(Fault::Late(ms(1_500))));
    let lock = client.locks.mutex("a").unwrap();
    let error = lock.acquire_with(&long().waiting_ttl(s(1))).await.unwrap_err();
    assert!(matches!(error, Error::TooSlow { ttl, .. } if ttl == s(1)), "{error:?}");
}
