//! How often a waiter looks, what its progress reports, and after which errors it asks again, on simulated time.

mod support;

use lock_core::{AcquireOptions, AcquireProgress, DistributedLock, Error, Hint, Outage};
use support::{Client, Fault, Sim, Verb, ms, s, sleep};

fn ttl(secs: u64) -> AcquireOptions {
    AcquireOptions::new().ttl(s(secs))
}

/// How many looks a waiter takes in 10 s behind a holder that stays.
async fn looks(options: AcquireOptions, prepare: impl FnOnce(&Client)) -> usize {
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    let _held = holder.locks.mutex("a").unwrap().acquire_with(&ttl(600)).await.unwrap();
    prepare(&waiter);
    let lock = waiter.locks.mutex("a").unwrap();
    let waiting = tokio::spawn(async move { lock.acquire_with(&options).await });
    sleep(s(10)).await;
    waiting.abort();
    waiter.wire.sent(Verb::Enter).len()
}

#[tokio::test(start_paused = true)]
async fn a_store_that_says_to_look_at_once_is_asked_as_the_options_allow() {
    let often = looks(ttl(60), |waiter| waiter.wire.hurry()).await;
    assert!((700..=1_001).contains(&often), "{often} looks, at one every 10 ms");
    let seldom = looks(ttl(60).look_again(s(1), s(60)), |waiter| waiter.wire.hurry()).await;
    assert!((9..=11).contains(&seldom), "{seldom} looks, at one every second");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_says_nothing_is_looked_at_as_often_as_the_options_say() {
    let silent = |waiter: &Client| waiter.wire.silence();
    let often = looks(ttl(60).look_again(ms(10), ms(500)), silent).await;
    assert!((19..=21).contains(&often), "{often} looks, at one every 500 ms");
    assert_eq!(looks(ttl(60), silent).await, 1, "a third of the ttl has not gone by");
}

/// A pause between hints would delay a hand-off.
#[tokio::test(start_paused = true)]
async fn a_hint_is_followed_at_once_however_long_the_least_pause_is() {
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    let _held = holder.locks.mutex("a").unwrap().acquire_with(&ttl(600)).await.unwrap();
    let (lock, options) = (waiter.locks.mutex("a").unwrap(), ttl(600).look_again(s(60), s(60)));
    let waiting = tokio::spawn(async move { lock.acquire_with(&options).await });
    sleep(ms(1)).await;
    for looks in 1..=10 {
        assert_eq!(waiter.wire.sent(Verb::Enter).len(), looks);
        // They come together, and one look answers all.
        for _ in 0..5 {
            waiter.wire.inject(Hint::Changed);
        }
        sleep(ms(2)).await;
    }
    waiting.abort();
}

/// Whether an acquisition fails, and after how many requests.
async fn requests(options: &AcquireOptions, tries: bool, fault: Fault) -> (bool, usize) {
    let sim = Sim::new();
    let client = sim.client();
    client.wire.once(Verb::Enter, fault);
    client.wire.once(Verb::Enter, fault);
    let lock = client.locks.mutex("a").unwrap();
    let failed = if tries {
        lock.try_acquire_with(options).await.is_err()
    } else {
        lock.acquire_with(options).await.is_err()
    };
    (failed, client.wire.sent(Verb::Enter).len())
}

#[tokio::test(start_paused = true)]
async fn only_what_may_have_been_carried_out_is_sent_once_more() {
    for tries in [true, false] {
        let fails = Outage::Fail;
        let options = ttl(30).outage(fails);
        assert_eq!(requests(&options, tries, Fault::ReplyLost).await, (true, 2), "once more, tries: {tries}");
        assert_eq!(
            requests(&options, tries, Fault::Lost(ms(500))).await,
            (true, 1),
            "it had its time: {tries}"
        );
        assert_eq!(requests(&options, tries, Fault::Refused).await, (true, 1), "it never left: {tries}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_patient_waits_for_the_store_and_who_only_tries_does_not() {
    let options = ttl(30).outage(Outage::Wait);
    for fault in [Fault::ReplyLost, Fault::Lost(ms(500)), Fault::Refused] {
        assert_eq!(requests(&options, false, fault).await, (false, 3), "{fault:?}");
    }
    assert_eq!(requests(&options, true, Fault::Refused).await, (true, 1));
    assert_eq!(requests(&options, true, Fault::Lost(ms(500))).await, (true, 1));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_what_will_not_mend_itself() {
    let sim = Sim::new();
    let client = sim.client();
    let _held = client.locks.mutex("a").unwrap().acquire_with(&ttl(30)).await.unwrap();
    let before = client.wire.sent(Verb::Enter).len();
    let started = sim.now();
    let read = client.locks.rwlock("a").unwrap().read();
    for outage in [Outage::Fail, Outage::Wait] {
        let error = read.acquire_with(&ttl(30).outage(outage)).await.unwrap_err();
        assert!(matches!(error, Error::ClaimMismatch { .. }), "{error:?}");
    }
    assert_eq!(client.wire.sent(Verb::Enter).len() - before, 2);
    assert_eq!(sim.now(), started);
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_zero_is_one_question_and_any_other_stands_in_the_queue() {
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    let held = holder.locks.mutex("a").unwrap().acquire_with(&ttl(30)).await.unwrap();
    let lock = waiter.locks.mutex("a").unwrap();
    let error = lock.acquire_with(&ttl(30).wait(s(0))).await.unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { waited, ahead: None, .. } if waited == s(0)), "{error:?}");
    let asked = sim.now();
    let error = lock.acquire_with(&ttl(30).wait(s(3))).await.unwrap_err();
    let took = sim.now().since(asked);
    let Error::WaitTimeout { waited, ahead, .. } = error else { panic!("{error:?}") };
    // It reports the time that was asked for, even if the timers fire later.
    assert_eq!((waited, ahead), (s(3), Some(1)));
    assert!(took >= s(3) && took <= s(3) + ms(2), "{took:?}");
    // The keeper gives up the place.
    sleep(ms(1)).await;
    held.release().await.unwrap();
    lock.acquire_with(&ttl(30).wait(s(0))).await.unwrap().release().await.unwrap();
}

/// The looks of a waiter fail for longer than its lease lasts, and another waiter has joined the queue.
#[tokio::test(start_paused = true)]
async fn a_place_that_was_lost_and_taken_again_is_told_as_another_one() {
    let sim = Sim::new();
    let (holder, waiter, next) = (sim.client(), sim.client(), sim.client());
    let held = holder.locks.mutex("a").unwrap().acquire_with(&ttl(600)).await.unwrap();
    let progress = AcquireProgress::new();
    let (lock, told) = (waiter.locks.mutex("a").unwrap(), progress.clone());
    let waiting = tokio::spawn(async move { lock.acquire_observed(&ttl(6), &told).await });
    sleep(ms(1)).await;
    let first = progress.entry();
    assert_eq!((first, progress.ahead()), (sim.rows("a").await[1].entry, Some(1)));
    let lock = next.locks.mutex("a").unwrap();
    let next = tokio::spawn(async move { lock.acquire_with(&ttl(600)).await });
    sleep(ms(1)).await;

    waiter.wire.always(Verb::Enter, Some(Fault::Refused));
    sleep(s(10)).await;
    assert_eq!((progress.entry(), progress.ahead()), (first, Some(1)), "the last look is what is known");
    waiter.wire.always(Verb::Enter, None);
    sleep(s(10)).await;
    assert_ne!(progress.entry(), first);
    assert_eq!((progress.entry(), progress.ahead()), (sim.rows("a").await[2].entry, Some(2)));

    held.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(progress.entry(), Some(guard.entry_id()));
}
