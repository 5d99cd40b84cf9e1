//! The keeper on simulated time: when it renews, when it gives up, and what it reports then, exact to the tick.

mod support;

use std::time::Duration;

use lock_core::{AcquireOptions, DistributedLock, Error, Guard, Hint, HoldState, LostReason};
use support::{Client, Fault, Sim, Verb, assert_at, lease, ms, s, sleep};

const TTL: Duration = s(12);

fn options() -> AcquireOptions {
    AcquireOptions::new().ttl(TTL)
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_at_every_third_of_its_ttl() {
    let (sim, start) = (Sim::new(), s(1000));
    let client = sim.client();
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options()).await.unwrap();
    sleep(s(12) * 3).await;
    let sent = client.wire.sent(Verb::Renew);
    assert!((8..=9).contains(&sent.len()), "{} renewals in 36 s", sent.len());
    for pair in sent.windows(2) {
        let apart = pair[1].since(pair[0]);
        assert!((ms(3_800)..=ms(4_002)).contains(&apart), "{apart:?} apart");
    }
    assert!(sent[0].since_start() >= start + ms(3_800), "the first came too early");
    assert_eq!(guard.state(), HoldState::Held);
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_lost_exactly_at_its_deadline_if_no_renewal_is_answered() {
    let sim = Sim::new();
    let client = sim.client();
    client.wire.always(Verb::Renew, Some(Fault::Hangs));
    let sent = sim.now();
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options()).await.unwrap();
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert_at(sim.now(), sent + lease(TTL));
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    // Each try was given up after a sixth of the ttl, so that several fitted in.
    assert!(client.wire.sent(Verb::Renew).len() >= 3, "{:?}", client.wire.sent(Verb::Renew));
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
}

#[tokio::test(start_paused = true)]
async fn locks_that_are_lost_at_once_in_their_hundreds_are_all_left_for() {
    const LOCKS: usize = 2_000;
    let sim = Sim::new();
    let client = sim.client();
    let mut guards = Vec::new();
    for i in 0..LOCKS {
        let lock = client.locks.mutex(format!("a/{i}")).unwrap();
        guards.push(lock.acquire_with(&options().renew(false)).await.unwrap());
    }
    sleep(lease(TTL) + s(1)).await;
    assert_eq!(client.wire.sent(Verb::Leave).len(), LOCKS);
    assert!(guards.iter().all(|guard| !guard.is_held()));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_counted_from_the_sending_and_not_from_the_answer() {
    let sim = Sim::new();
    let client = sim.client();
    client.wire.once(Verb::Enter, Fault::Late(s(5)));
    client.wire.always(Verb::Renew, Some(Fault::Refused));
    let sent = sim.now();
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options()).await.unwrap();
    assert_at(sim.now(), sent + s(5));
    guard.lost().await;
    assert_at(sim.now(), sent + lease(TTL));
}

#[tokio::test(start_paused = true)]
async fn a_failed_renewal_makes_a_lock_suspect_and_a_later_one_mends_it() {
    let sim = Sim::new();
    let client = sim.client();
    client.wire.once(Verb::Renew, Fault::Refused);
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options()).await.unwrap();
    sleep(ms(4_001)).await;
    assert_eq!(guard.state(), HoldState::Suspect);
    assert!(guard.is_held());
    sleep(s(1)).await;
    assert_eq!(guard.state(), HoldState::Held);
    sleep(TTL * 2).await;
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_guard_in_a_log_shows_its_name_token_state_and_remaining_time() {
    let sim = Sim::new();
    let client = sim.client();
    client.wire.always(Verb::Renew, Some(Fault::Refused));
    let guard = client.locks.mutex("a\n").unwrap().acquire_with(&options()).await.unwrap();
    let expected = |state: &str, remaining: Duration| {
        let token = guard.token();
        format!(
            "Guard {{ name: LockName(a\\n), token: FencingToken({token}), state: {state}, remaining: {remaining:?}, .. }}"
        )
    };
    let fresh = guard.remaining();
    assert_eq!(format!("{guard:?}"), expected("Held", fresh));
    sleep(ms(4_001)).await;
    let left = guard.remaining();
    assert!(left > Duration::ZERO && left < fresh, "{left:?}");
    assert_eq!(format!("{guard:?}"), expected("Suspect", left));
    guard.lost().await;
    assert_eq!(format!("{guard:?}"), expected("Lost(Expired)", Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_the_deadline_proves_nothing() {
    let sim = Sim::new();
    let client = sim.client();
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options()).await.unwrap();
    client.wire.always(Verb::Renew, Some(Fault::Refused));
    // The last renewal before the deadline is carried out in time, and answered too late.
    sleep(s(11)).await;
    client.wire.always(Verb::Renew, Some(Fault::Late(ms(1_800))));
    guard.lost().await;
    client.wire.always(Verb::Renew, None);
    sleep(s(3)).await;
    assert_eq!(guard.state(), HoldState::Lost(LostReason::Expired));
    assert_eq!(guard.extend().await.unwrap_err().to_string().split(':').next(), Some("lock `a` was lost"));
}

#[tokio::test(start_paused = true)]
async fn extend_waits_for_no_answer_beyond_the_deadline() {
    let sim = Sim::new();
    let client = sim.client();
    let start = sim.now();
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options().renew(false)).await.unwrap();
    client.wire.always(Verb::Renew, Some(Fault::Lost(s(5))));
    sleep(s(10)).await;
    let error = guard.extend().await.unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::Expired, .. }), "{error:?}");
    assert_at(sim.now(), start + lease(TTL));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_not_renewed_ends_at_its_ttl_and_is_left() {
    let sim = Sim::new();
    let client = sim.client();
    let start = sim.now();
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options().renew(false)).await.unwrap();
    guard.lost().await;
    assert_at(sim.now(), start + lease(TTL));
    assert_eq!(client.wire.sent(Verb::Renew).len(), 0);
    sleep(ms(1)).await;
    assert_eq!(client.wire.sent(Verb::Leave).len(), 1, "a lost lock is left");
}

#[tokio::test(start_paused = true)]
async fn extend_moves_the_deadline_of_a_lock_that_is_not_renewed() {
    let sim = Sim::new();
    let client = sim.client();
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options().renew(false)).await.unwrap();
    sleep(s(8)).await;
    let extended = sim.now();
    assert_eq!(guard.extend().await.unwrap(), lease(TTL));
    guard.lost().await;
    assert_at(sim.now(), extended + lease(TTL));
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_a_lock_exactly_then_and_leaves_it() {
    let sim = Sim::new();
    let client = sim.client();
    let start = sim.now();
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options().max_hold(s(50))).await.unwrap();
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    assert_at(sim.now(), start + s(50));
    sleep(ms(1)).await;
    assert!(sim.rows("a").await.is_empty());
    let last = client.wire.sent(Verb::Renew).into_iter().max().unwrap();
    assert!(last <= start + s(43), "no renewal when it cannot move the end any more");
}

#[tokio::test(start_paused = true)]
async fn extend_does_not_pass_max_hold() {
    let sim = Sim::new();
    let client = sim.client();
    let start = sim.now();
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options().max_hold(s(15))).await.unwrap();
    sleep(s(10)).await;
    assert_eq!(guard.extend().await.unwrap(), s(5));
    guard.lost().await;
    assert_at(sim.now(), start + s(15));
}

/// The store removes an entry at its deadline, too. Which of the two is noticed first does not matter.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_found_gone_after_its_deadline_was_lost_by_the_deadline() {
    let sim = Sim::new();
    let client = sim.client();
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options()).await.unwrap();
    sleep(ms(50)).await;
    client.wire.once(Verb::Renew, Fault::Late(ms(100)));
    client.locks.operator().evict(guard.name(), guard.entry_id()).await.unwrap();
    sleep(ms(10)).await;
    // The answer is the first message after it.
    sim.suspend(TTL);
    sleep(ms(100)).await;
    assert_eq!(guard.state(), HoldState::Lost(LostReason::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_for_one_class_of_leases_never_delays_another() {
    let sim = Sim::new();
    let client = sim.client();
    let long = client.locks.mutex("long").unwrap().acquire_with(&options().ttl(s(60))).await.unwrap();
    sleep(ms(19_401 - 1_000)).await;
    // The renewal of the long lease hangs for 10 s; short leases live 3 s.
    client.wire.once(Verb::Renew, Fault::Late(s(10)));
    sleep(ms(1_100)).await;
    let short = client.locks.mutex("short").unwrap().acquire_with(&options().ttl(s(3))).await.unwrap();
    sleep(s(9)).await;
    assert_eq!(short.state(), HoldState::Held);
    assert!(long.is_held());
}

#[tokio::test(start_paused = true)]
async fn renewals_that_are_due_together_share_a_request() {
    let sim = Sim::new();
    let client = sim.client();
    let mut guards = Vec::new();
    for i in 0..1_000 {
        guards.push(
            client.locks.mutex(format!("{i}")).unwrap().acquire_with(&options().ttl(s(30))).await.unwrap(),
        );
        sleep(ms(1)).await;
    }
    sleep(s(100)).await;
    let (requests, renewed) = (client.wire.sent(Verb::Renew).len(), client.wire.entries(Verb::Renew));
    assert!(guards.iter().all(|guard| guard.state() == HoldState::Held));
    assert!(renewed >= 9_000, "{renewed} renewals");
    assert!(requests <= renewed / 100, "{requests} requests for {renewed} renewals");
}

/// So many locks that their renewal takes many requests, all due together.
async fn take_many(client: &Client) -> Vec<Guard> {
    let mut guards = Vec::new();
    for i in 0..3_000 {
        guards.push(client.locks.mutex(format!("{i}")).unwrap().acquire_with(&options()).await.unwrap());
    }
    guards
}

#[tokio::test(start_paused = true)]
async fn renewals_of_many_locks_are_not_sent_all_at_once() {
    let sim = Sim::new();
    let client = sim.client();
    let guards = take_many(&client).await;
    client.wire.always(Verb::Renew, Some(Fault::Late(ms(100))));
    sleep(TTL * 5).await;
    let sent = client.wire.sent(Verb::Renew);
    assert!(client.wire.entries(Verb::Renew) >= 14 * guards.len(), "{sent:?}");
    for five in sent.windows(5) {
        assert!(five[4].since(five[0]) >= ms(100), "five requests wait for their answers");
    }
    assert!(guards.iter().all(|guard| guard.state() == HoldState::Held));
}

#[tokio::test(start_paused = true)]
async fn requests_without_an_answer_delay_the_others_by_one_try_at_the_most() {
    let sim = Sim::new();
    let client = sim.client();
    let guards = take_many(&client).await;
    (0..4).for_each(|_| client.wire.once(Verb::Renew, Fault::Hangs));
    sleep(TTL * 2 / 3).await;
    let sent = client.wire.sent(Verb::Renew);
    assert_at(sent[4], sent[0] + TTL / 6);
    sleep(TTL * 5).await;
    assert!(guards.iter().all(|guard| guard.state() == HoldState::Held));
}

#[tokio::test(start_paused = true)]
async fn lost_wakes_every_listener_and_late_ones_too() {
    let sim = Sim::new();
    let client = sim.client();
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options().renew(false)).await.unwrap();
    let listeners: Vec<_> = (0..10).map(|_| tokio::spawn(guard.lost())).collect();
    for listener in listeners {
        assert_eq!(listener.await.unwrap(), LostReason::Expired);
    }
    assert_eq!(guard.lost().await, LostReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_renewed_after_a_release() {
    let sim = Sim::new();
    let client = sim.client();
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options()).await.unwrap();
    let lost = guard.lost();
    guard.release().await.unwrap().confirmed().unwrap();
    sleep(TTL * 3).await;
    assert_eq!(client.wire.sent(Verb::Renew).len(), 0);
    assert!(futures_util::FutureExt::now_or_never(lost).is_none(), "a release is not a loss");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_past_a_deadline_knows_and_tells_within_a_second() {
    // PR05
    let sim = Sim::new();
    let client = sim.client();
    client.wire.always(Verb::Renew, Some(Fault::Hangs));
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options().ttl(s(3600))).await.unwrap();
    let lost = tokio::spawn(guard.lost());
    let other = client.locks.mutex("b").unwrap().acquire_with(&options().ttl(s(3600))).await.unwrap();
    sleep(s(1)).await;
    sim.suspend(s(3600));
    assert!(!other.is_held(), "the answer does not depend on what ran meanwhile");
    let woke = tokio::time::Instant::now();
    lost.await.unwrap();
    assert!(woke.elapsed() <= ms(1_002), "{:?}", woke.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_always_slow_but_extends_every_lease_costs_no_lock() {
    let sim = Sim::new();
    let client = sim.client();
    // Longer than a try may take, which is a sixth of the ttl.
    client.wire.always(Verb::Renew, Some(Fault::Late(s(4))));
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options()).await.unwrap();
    sleep(TTL * 10).await;
    assert!(guard.is_held());
}

/// A forged hint tells a waiter that it was admitted, and the store has not admitted it. PR36: renewed is not admitted.
#[tokio::test(start_paused = true)]
async fn who_was_never_admitted_learns_so_from_the_first_renewal() {
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    let held = holder.locks.mutex("a").unwrap().acquire_with(&options()).await.unwrap();
    let waiting = {
        let lock = waiter.locks.mutex("a").unwrap();
        tokio::spawn(async move { lock.acquire_with(&options()).await.unwrap() })
    };
    sleep(ms(1)).await;
    let token = sim.rows("a").await[1].token.unwrap();
    waiter.wire.inject(Hint::Admitted { token });
    let (misled, since) = (waiting.await.unwrap(), sim.now());
    assert_eq!(misled.lost().await, LostReason::Gone);
    assert!(sim.now().since(since) <= TTL / 3 + ms(2), "it was renewed: {:?}", sim.now().since(since));
    assert!(held.is_held());
    sleep(ms(1)).await;
    assert_eq!(sim.rows("a").await.len(), 1, "what is lost leaves the queue");
}
