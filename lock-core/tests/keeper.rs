//! The timers of the keeper, on simulated time.

mod support;

use std::{
    future::{Future, pending, ready},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use support::{Sim, assert_at, ms, s, sleep};

#[tokio::test(start_paused = true)]
async fn all_who_sleep_until_the_same_instant_wake_then() {
    let sim = Sim::new();
    let keeper = sim.client().keeper;
    let until = sim.now() + s(5);
    let sleepers: Vec<_> = (0..5).map(|_| tokio::spawn(keeper.sleep_until(until))).collect();
    sleep(ms(1)).await;
    // A timer that is dropped does not affect the others.
    sleepers[2].abort();
    for (i, sleeper) in sleepers.into_iter().enumerate() {
        assert_eq!(sleeper.await.is_ok(), i != 2);
        if i != 2 {
            assert_at(sim.now(), until);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sleep_that_is_shorter_than_those_before_it_ends_in_time() {
    let sim = Sim::new();
    let keeper = sim.client().keeper;
    let start = sim.now();
    let long = tokio::spawn(keeper.sleep_until(start + s(60)));
    sleep(ms(300)).await;
    keeper.sleep_until(start + ms(700)).await;
    assert_at(sim.now(), start + ms(700));
    // And a later one, which did not exist when the keeper went to sleep.
    keeper.sleep_until(start + ms(5_400)).await;
    assert_at(sim.now(), start + ms(5_400));
    long.await.unwrap();
    assert_at(sim.now(), start + s(60));
}

#[tokio::test(start_paused = true)]
async fn an_instant_that_is_over_is_not_waited_for() {
    let sim = Sim::new();
    let keeper = sim.client().keeper;
    for until in [sim.now(), sim.now() - s(1)] {
        let mut over = pin!(keeper.sleep_until(until));
        assert_eq!(over.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_gives_an_output_that_is_ready_and_else_ends_in_time() {
    let sim = Sim::new();
    let keeper = sim.client().keeper;
    let start = sim.now();
    assert_eq!(keeper.timeout_at(start - s(1), ready(7)).await, Some(7), "it is ready, however late");
    assert_eq!(keeper.timeout_at(start + s(60), sleep(s(2))).await, Some(()));
    assert_at(sim.now(), start + s(2));
    assert_eq!(keeper.timeout_at(start + s(5), pending::<()>()).await, None);
    assert_at(sim.now(), start + s(5));
    assert_eq!(keeper.timeout_at(start + s(1), pending::<()>()).await, None, "its time is over");
    assert_at(sim.now(), start + s(5));
}

/// Counts how often it is woken.
#[derive(Default)]
struct Counting(AtomicU32);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_wakes_the_task_that_polled_it_last_and_only_that() {
    let sim = Sim::new();
    let keeper = sim.client().keeper;
    let mut timeout = Box::pin(keeper.timeout_at(sim.now() + s(5), pending::<()>()));
    let (first, last) = (Arc::new(Counting::default()), Arc::new(Counting::default()));
    // The last one twice, as if something else had woken its task.
    for task in [&first, &last, &last] {
        let waker = Waker::from(Arc::clone(task));
        assert!(timeout.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        sleep(s(1)).await;
    }
    sleep(s(3)).await;
    assert_eq!((first.0.load(Ordering::Relaxed), last.0.load(Ordering::Relaxed)), (0, 1));
    let over = timeout.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(over, Poll::Ready(None));
}

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

#[tokio::test(start_paused = true)]
async fn a_sleep_that_is_dropped_keeps_hold_of_no_task() {
    let sim = Sim::new();
    let keeper = sim.client().keeper;
    let task = Arc::new(Nobody);
    let mut asleep = Box::pin(keeper.sleep_until(sim.now() + s(60)));
    let waker = Waker::from(Arc::clone(&task));
    assert!(asleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    assert_eq!(Arc::strong_count(&task), 2, "the keeper is to wake it");
    drop(asleep);
    assert_eq!(Arc::strong_count(&task), 1);
}

/// How many threads of keepers there are in this process.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path().join("comm"));
    // A thread may end between the two looks.
    names
        .filter(|name| std::fs::read_to_string(name).is_ok_and(|name| name.trim() == "distlock-keeper"))
        .count()
}

#[test]
#[cfg(target_os = "linux")]
fn the_thread_of_a_keeper_ends_when_it_is_stopped_or_dropped() {
    use std::time::Instant;

    use lock_core::Keeper;

    let ends: [fn(Keeper); 2] = [drop, |keeper| {
        keeper.stop();
        std::mem::forget(keeper);
    }];
    for end in ends {
        let keeper = Keeper::start().unwrap();
        assert_eq!(threads(), 1);
        end(keeper);
        let started = Instant::now();
        while threads() > 0 {
            assert!(started.elapsed() < s(10), "the thread goes on");
            std::thread::sleep(ms(2));
        }
    }
}
