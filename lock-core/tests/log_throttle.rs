//! A repeated event is logged at most once a second, on simulated time.

#[cfg(unix)]
#[path = "support/keeper_end.rs"]
mod keeper_end;
mod support;

use std::sync::{Arc, Mutex};

use lock_core::{BootTime, Keeper, LogThrottle};
use support::{Client, Sim, assert_at, ms, s, sleep};

/// A line: its cause, the number of the last event in it, how many events it stands for, and its time.
type Line = (&'static str, u32, Option<u64>, BootTime);

struct Log {
    sim: Sim,
    client: Client,
    lines: LogThrottle<&'static str>,
    told: Arc<Mutex<Vec<Line>>>,
}

impl Log {
    fn new() -> Self {
        let sim = Sim::new();
        let client = sim.client();
        let lines = LogThrottle::new(&client.keeper);
        Self { sim, client, lines, told: Arc::default() }
    }

    fn note(&self, cause: &'static str, number: u32) {
        let (told, clock) = (Arc::clone(&self.told), Arc::clone(self.client.keeper.clock()));
        self.lines.note(cause, move |times| told.lock().unwrap().push((cause, number, times, clock.now())));
    }

    fn told(&self) -> Vec<Line> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }

    /// The same without the time.
    fn said(&self) -> Vec<(&'static str, u32, Option<u64>)> {
        self.told().into_iter().map(|(cause, number, times, _)| (cause, number, times)).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_cause_is_told_at_once_and_then_once_a_second_with_its_number() {
    let log = Log::new();
    let start = log.sim.now();
    for number in 0..25 {
        log.note("away", number);
        sleep(ms(100)).await;
    }
    sleep(s(5)).await;
    let told = log.told();
    let counts: Vec<_> = told.iter().map(|(_, _, times, _)| times.unwrap_or(1)).collect();
    assert_eq!((counts.len(), counts[0], counts.iter().sum()), (4, 1, 25), "{told:?}");
    assert_eq!(told[0], ("away", 0, None, start));
    // The line has the last counted event.
    assert_eq!(told[3].1, 24);
    for pair in told.windows(2) {
        assert!(pair[1].3.since(pair[0].3) >= s(1), "two lines within a second: {told:?}");
    }
    // After a pause, the next event is logged immediately.
    log.note("away", 25);
    assert_eq!(log.said(), [("away", 25, None)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_counted_is_told_when_the_second_is_over_though_nothing_follows() {
    let log = Log::new();
    let start = log.sim.now();
    for number in 0..50 {
        log.note("away", number);
    }
    assert_eq!(log.said(), [("away", 0, None)]);
    sleep(ms(999)).await;
    assert_eq!(log.said(), []);
    sleep(s(9)).await;
    let told = log.told();
    let [(_, 49, Some(49), at)] = told[..] else { panic!("{told:?}") };
    assert_at(at, start + s(1));
}

#[tokio::test(start_paused = true)]
async fn what_is_counted_is_told_when_the_last_clone_is_dropped() {
    let log = Log::new();
    for number in 0..3 {
        log.note("lost", number);
    }
    let Log { lines, told, .. } = log;
    let last = lines.clone();
    drop(lines);
    sleep(ms(1)).await;
    assert_eq!(told.lock().unwrap().len(), 1, "another line may follow");
    drop(last);
    sleep(ms(1)).await;
    let told = std::mem::take(&mut *told.lock().unwrap());
    assert!(matches!(told[..], [("lost", 0, None, _), ("lost", 2, Some(2), _)]), "{told:?}");
}

#[test]
fn on_a_plain_thread_what_is_counted_is_told_before_the_drop_returns() {
    let (keeper, told) = (Keeper::start().unwrap(), Arc::<Mutex<Vec<_>>>::default());
    let lines = LogThrottle::new(&keeper);
    for number in 1..=2 {
        let told = Arc::clone(&told);
        lines.note("lost", move |times| told.lock().unwrap().push((number, times)));
    }
    drop(lines);
    assert_eq!(*told.lock().unwrap(), [(1, None), (2, None)]);
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_counted_is_told_at_the_drop_though_the_keeper_has_ended() {
    let (keeper, told) = (Keeper::start().unwrap(), Arc::<Mutex<Vec<_>>>::default());
    keeper_end::end(&keeper);
    let lines = LogThrottle::new(&keeper);
    for number in 1..=2 {
        let told = Arc::clone(&told);
        lines.note("lost", move |times| told.lock().unwrap().push((number, times)));
    }
    drop(lines);
    assert_eq!(*told.lock().unwrap(), [(1, None), (2, None)]);
}

#[tokio::test(start_paused = true)]
async fn causes_do_not_wait_for_each_other_and_clones_tell_as_one() {
    let mut log = Log::new();
    log.note("away", 1);
    log.note("back", 2);
    log.lines = log.lines.clone();
    log.note("away", 3);
    assert_eq!(log.said(), [("away", 1, None), ("back", 2, None)]);
    sleep(s(2)).await;
    assert_eq!(log.said(), [("away", 3, None)]);
}

#[tokio::test(start_paused = true)]
async fn a_line_that_panics_costs_no_other_line() {
    let log = Log::new();
    for _ in 0..2 {
        log.lines.note("away", |_| panic!("a subscriber"));
    }
    sleep(s(2)).await;
    log.note("away", 1);
    assert_eq!(log.said(), [("away", 1, None)]);
}

#[tokio::test(start_paused = true)]
async fn what_tells_may_come_back_for_more() {
    let log = Log::new();
    let (lines, told) = (log.lines.clone(), Arc::clone(&log.told));
    let now = log.sim.now();
    log.lines.note("away", move |_| {
        lines.note("away", move |times| told.lock().unwrap().push(("again", 1, times, now)));
    });
    sleep(s(2)).await;
    assert_eq!(log.said(), [("again", 1, None)]);
}
