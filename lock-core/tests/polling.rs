//! How often a waiter looks where the store has no notifications, on simulated time.

mod support;

use std::{sync::Arc, time::Duration};

use lock_core::{AcquireOptions, BackOff, Backend, DistributedLock, Entropy, Locks};
use support::{Sim, Verb, ms, s, sleep};

const POLLS: BackOff = BackOff { least: ms(20), most: ms(500) };

/// Always the same random number, which is enough for one acquisition.
#[derive(Debug)]
struct Draws(u128);

impl Entropy for Draws {
    fn bits(&self) -> u128 {
        self.0
    }
}

fn ttl(ttl: Duration) -> AcquireOptions {
    AcquireOptions::new().ttl(ttl)
}

/// The pauses between the looks that a waiter takes in 10 s behind a holder that stays.
async fn pauses(options: AcquireOptions, draws: u128) -> Vec<Duration> {
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    waiter.wire.polls(POLLS);
    let _held = holder.locks.mutex("a").unwrap().acquire_with(&ttl(s(600))).await.unwrap();
    let store = Arc::clone(&waiter.wire) as Arc<dyn Backend>;
    let locks = Locks::with(store, waiter.keeper.clone(), Arc::new(Draws(draws)));
    let lock = locks.mutex("a").unwrap();
    let waiting = tokio::spawn(async move { lock.acquire_with(&options).await });
    sleep(s(10)).await;
    waiting.abort();
    let sent = waiter.wire.sent(Verb::Enter);
    sent.windows(2).map(|pair| pair[1].since(pair[0])).collect()
}

/// The pause that doubles each time, without its random part.
fn full(number: usize) -> Duration {
    ms(20_u64 << number.min(5)).min(POLLS.most)
}

/// The timers of the runtime tick in milliseconds.
fn is_about(pause: Duration, due: Duration) -> bool {
    pause.abs_diff(due) <= ms(2)
}

#[tokio::test(start_paused = true)]
async fn who_is_told_nothing_looks_ever_more_rarely_up_to_a_bound() {
    let pauses = pauses(ttl(s(60)), 0).await;
    assert!((22..=24).contains(&pauses.len()), "{pauses:?}");
    for (number, pause) in pauses.iter().enumerate() {
        assert!(is_about(*pause, full(number)), "number {number} of {pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_random_part_of_a_half_keeps_those_apart_who_are_told_nothing() {
    let pauses = pauses(ttl(s(60)), u128::MAX).await;
    assert!(pauses.len() > 30, "{pauses:?}");
    for (number, pause) in pauses.iter().enumerate() {
        assert!(is_about(*pause, full(number) / 2), "number {number} of {pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_told_nothing_looks_as_often_as_the_options_and_the_ttl_allow() {
    let seldom = pauses(ttl(s(60)).look_again(s(1), s(60)), 0).await;
    assert!(seldom.len() >= 8 && seldom.iter().all(|pause| is_about(*pause, s(1))), "{seldom:?}");
    let often = pauses(ttl(s(60)).look_again(ms(10), ms(50)), 0).await;
    assert!(often.len() > 150 && often.iter().all(|pause| *pause <= ms(52)), "{often:?}");
    let in_time = pauses(ttl(ms(600)), 0).await;
    assert!(in_time.len() > 40 && in_time.iter().all(|pause| *pause <= ms(202)), "{in_time:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_nobody_is_told_of_is_found_within_the_longest_pause() {
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    waiter.wire.polls(POLLS);
    let held = holder.locks.mutex("a").unwrap().acquire_with(&ttl(s(600))).await.unwrap();
    let lock = waiter.locks.mutex("a").unwrap();
    let waiting = tokio::spawn(async move { lock.acquire_with(&ttl(s(600))).await });
    sleep(s(30)).await;
    let released = sim.now();
    held.release().await.unwrap();
    let _granted = waiting.await.unwrap().unwrap();
    let took = sim.now().since(released);
    assert!(took <= POLLS.most + ms(2), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_lease_is_met_by_who_would_look_later() {
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    waiter.wire.polls(BackOff { least: s(100), most: s(100) });
    let began = sim.now();
    let brief = ttl(s(5)).renew(false);
    let _held = holder.locks.mutex("a").unwrap().acquire_with(&brief).await.unwrap();
    let _granted = waiter.locks.mutex("a").unwrap().acquire_with(&ttl(s(600))).await.unwrap();
    assert!(is_about(sim.now().since(began), s(5)), "{:?}", sim.now().since(began));
}
