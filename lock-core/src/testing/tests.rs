//! Tests of what a simulation promises.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::StreamExt;

use super::{
    faults::End,
    faulty_hints::{FaultyHints, ListenerCount},
    *,
};
use crate::{
    AcquireOptions, Backend, BackendErrorKind, Claim, Clock, Creates, Departure, DistributedLock, Entry,
    EntryId, FencingToken, Hint, HoldState, LockName, LostReason, Memory, Outage, Standing, Step, WaitMode,
    sync::Mutex,
};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn options() -> AcquireOptions {
    AcquireOptions::new().ttl(Duration::from_secs(3))
}

fn entry(id: u128) -> Entry {
    let name = LockName::new("a").unwrap();
    Entry::new(name, EntryId::new(id), Claim::mutex(), Duration::from_secs(60))
}

#[test]
fn a_blocked_client_renews_nothing_and_knows_of_its_loss_when_it_runs() {
    Simulation::new(1).run(async |sim| {
        let (one, two) = (sim.client(), sim.client());
        let lock = one.locks().mutex("a").unwrap().with_options(options());
        let guard = one.spawn(async move { lock.acquire().await.unwrap() }).await.unwrap();
        one.block();
        let started = sim.now();
        let next = two.locks().mutex("a").unwrap().acquire_with(&options()).await.unwrap();
        assert!(sim.now().since(started) > ms(2_900), "its lease lasts on");
        assert!(!guard.is_held());
        one.unblock();
        assert_eq!(guard.lost().await, LostReason::Expired);
        next.release().await.unwrap();
    });
}

#[test]
fn what_a_crashed_client_held_is_free_at_its_ttl_and_its_tasks_end() {
    Simulation::new(1).run(async |sim| {
        let (one, two) = (sim.client(), sim.client());
        let lock = one.locks().mutex("a").unwrap().with_options(options());
        let task = one.spawn(async move {
            let _guard = lock.acquire().await.unwrap();
            std::future::pending::<()>().await;
        });
        sim.sleep(ms(10)).await;
        one.crash();
        assert!(task.await.unwrap_err().is_cancelled());
        assert!(one.spawn(async {}).await.unwrap_err().is_cancelled());
        let started = sim.now();
        let next = two.locks().mutex("a").unwrap().acquire_with(&options()).await.unwrap();
        let waited = sim.now().since(started);
        assert!(waited > ms(2_900) && waited < ms(3_100), "{waited:?}");
        next.release().await.unwrap();
    });
}

#[test]
fn a_machine_that_slept_past_its_lease_has_lost_its_lock() {
    Simulation::new(1).run(async |sim| {
        let client = sim.client();
        let guard = client.locks().mutex("a").unwrap().acquire_with(&options()).await.unwrap();
        sim.suspend(Duration::from_secs(3));
        assert_eq!(guard.state(), HoldState::Lost(LostReason::Expired));
    });
}

#[test]
fn a_client_with_a_slow_clock_gives_up_before_the_store_does() {
    for fast_by in [-10_000, 0, 10_000] {
        Simulation::new(1).run(async |sim| {
            let client = sim.client_through(fast_by, |backend, _| backend);
            let lock = client.locks().mutex("a").unwrap();
            let guard = lock.acquire_with(&options().renew(false)).await.unwrap();
            let granted = sim.now();
            let deadline = client.deadline(&guard.hold());
            assert!(deadline <= granted + ms(3_000) && deadline > granted + ms(2_900), "{deadline:?}");
            guard.lost().await;
            let lost = sim.now();
            assert!(lost >= deadline && lost.since(deadline) <= ms(13), "{lost:?} for {deadline:?}");
        });
    }
}

#[test]
fn a_seed_gives_the_same_faults_every_time_and_another_gives_others() {
    let run = |seed| {
        Simulation::new(seed).run(async |sim| {
            let client = sim.client();
            client.set_faults(Faults::at(500));
            let lock = client.locks().mutex("a").unwrap();
            let options = options().outage(Outage::Wait);
            let mut times = Vec::new();
            for _ in 0..20 {
                drop(lock.acquire_with(&options).await.unwrap());
                times.push(sim.now());
            }
            times
        })
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn every_fault_comes_at_its_rate_and_none_comes_on_a_good_wire() {
    let entropy = SeededEntropy::new(1);
    let kinds = |faults: Faults| {
        let kinds = (0..2_000).map(|_| {
            let fate = faults.fate(&entropy, std::convert::identity);
            let late = fate.arrives.is_some_and(|at| at > faults.latency);
            let late_answer = fate.answered.is_some_and(|at| at > faults.latency);
            let end = match fate.end {
                End::Limit => 0,
                End::Refused => 1,
                End::NotReady(_) => 2,
                End::Broken(_) => 3,
            };
            (fate.arrives.is_some(), late, fate.again.is_some(), fate.answered.is_some(), late_answer, end)
        });
        kinds.collect::<BTreeSet<_>>()
    };
    assert_eq!(kinds(Faults::none()), BTreeSet::from([(true, false, false, true, false, 0)]));
    assert!(kinds(Faults::at(300)).len() >= 9, "{:?}", kinds(Faults::at(300)));
    let good =
        (0..2_000).filter(|_| Faults::at(300).deliveries(&entropy) == [Some(Duration::ZERO), None]).count();
    assert!((1_300..1_500).contains(&good), "{good} of 2000 hints arrive as they should");
}

#[test]
fn each_fault_loses_what_it_says() {
    let entropy = SeededEntropy::new(3);
    // Whether the request arrives, whether it arrives again, and whether its answer comes back.
    for (fault, arrives, again, answered) in [
        (RequestFault::InTime, true, false, true),
        (RequestFault::RequestLost, false, false, false),
        (RequestFault::AnswerLost, true, false, false),
        (RequestFault::Repeated, true, true, true),
        (RequestFault::RepeatedLate, true, true, true),
        (RequestFault::RequestLate, true, false, true),
        (RequestFault::AnswerLate, true, false, true),
        (RequestFault::Refused, false, false, false),
        (RequestFault::NotReady, false, false, false),
        (RequestFault::Broken, true, false, false),
    ] {
        let fate = Faults::none().fate(&entropy, |_| fault);
        let comes_back = fate.arrives.is_some() && fate.answered.is_some();
        assert_eq!((fate.fault, fate.arrives.is_some()), (fault, arrives));
        assert_eq!((fate.again.is_some(), comes_back), (again, answered), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_future_was_dropped_arrives_all_the_same() {
    let memory = Arc::new(Memory::with_clock(Arc::new(VirtualClock::new()) as Arc<dyn Clock>));
    let wire = RandomFaults::new(memory, SeededEntropy::new(1), Faults { latency: ms(50), ..Faults::none() });
    let one = entry(1);
    drop(tokio::time::timeout(Duration::ZERO, wire.enter(&one, Step::Create, WaitMode::Queue)).await);
    tokio::time::sleep(ms(60)).await;
    let standing = wire.enter(&entry(2), Step::Create, WaitMode::Try).await.unwrap();
    assert!(matches!(standing, Standing::Busy), "{standing:?}");
    wire.leave(&one, Creates::InDoubt).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_come_is_given_up_at_the_limit() {
    let memory = Arc::new(Memory::with_clock(Arc::new(VirtualClock::new()) as Arc<dyn Clock>));
    let never = Faults { latency: Duration::from_secs(9), limit: ms(700), ..Faults::none() };
    let wire = RandomFaults::new(memory, SeededEntropy::new(2), never);
    let started = tokio::time::Instant::now();
    let error = wire.enter(&entry(1), Step::Create, WaitMode::Try).await.unwrap_err();
    assert_eq!((error.kind(), started.elapsed()), (&BackendErrorKind::TimedOut, ms(700)));
    assert!(!error.is_unsent());
}

/// Loses the answer to each create, and remembers what arrives.
#[derive(Debug, Default)]
struct LosesAnswers(Mutex<Vec<Delivery>>);

impl WireProbe for LosesAnswers {
    fn sent(&self, request: Request<'_>, drawn: RequestFault) -> RequestFault {
        match request {
            Request::Enter { step: Step::Create, .. } => RequestFault::AnswerLost,
            _ => drawn,
        }
    }

    fn arrives(&self, delivery: Delivery) {
        self.0.lock().push(delivery);
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_sees_the_requests_and_chooses_what_becomes_of_them() {
    let memory = Arc::new(Memory::with_clock(Arc::new(VirtualClock::new()) as Arc<dyn Clock>));
    let wire = RandomFaults::new(memory, SeededEntropy::new(3), Faults::none());
    let probe = Arc::new(LosesAnswers::default());
    wire.set_probe(Arc::clone(&probe) as _);
    wire.enter(&entry(1), Step::Create, WaitMode::Queue).await.unwrap_err();
    assert_eq!(wire.leave(&entry(1), Creates::InDoubt).await.unwrap(), Departure::Left);
    let arrived = |fault| Delivery { fault, given_up: false };
    let expected = [arrived(RequestFault::AnswerLost), arrived(RequestFault::InTime)];
    assert_eq!(*probe.0.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn every_stream_of_hints_that_is_listened_to_is_counted() {
    let memory = Arc::new(Memory::with_clock(Arc::new(VirtualClock::new()) as Arc<dyn Clock>));
    let wire = RandomFaults::new(memory, SeededEntropy::new(3), Faults::none());
    wire.enter(&entry(1), Step::Create, WaitMode::Queue).await.unwrap();
    let Standing::Waiting { hints, .. } = wire.enter(&entry(2), Step::Create, WaitMode::Queue).await.unwrap()
    else {
        panic!("the lock is held");
    };
    assert_eq!(wire.listeners(), 1);
    drop(hints);
    assert_eq!(wire.listeners(), 0);
}

#[tokio::test(start_paused = true)]
async fn bad_hints_are_lost_late_or_twice_and_the_stream_ends_behind_the_last() {
    let faults = Faults::at(1000);
    let sent = || futures_util::stream::iter(std::iter::repeat_n(Hint::Changed, 300));
    let listening = Arc::default();
    let mut hints =
        FaultyHints::new(Box::pin(sent()), faults, SeededEntropy::new(4), ListenerCount::new(&listening));
    hints.add_stale(Hint::Admitted { token: FencingToken::new(9) });
    let started = tokio::time::Instant::now();
    let (mut at_once, mut late, mut stale) = (0, 0, 0);
    while let Some(hint) = hints.next().await {
        match hint {
            Hint::Admitted { .. } => stale += 1,
            Hint::Changed if started.elapsed().is_zero() => at_once += 1,
            Hint::Changed => late += 1,
        }
    }
    // A third is lost, a third is late, a third comes twice.
    assert!((60..140).contains(&at_once) && (140..260).contains(&late), "{at_once} at once, {late} late");
    assert_eq!(stale, 1);
    assert!(started.elapsed() <= faults.late + ms(1));
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_hints_that_breaks_off_ends_though_the_store_goes_on() {
    let endless = Box::pin(futures_util::stream::pending());
    let faults = Faults::none();
    let mut hints =
        FaultyHints::new(endless, faults, SeededEntropy::new(4), ListenerCount::new(&Arc::default()));
    hints.break_off();
    let started = tokio::time::Instant::now();
    assert_eq!(hints.next().await, None);
    assert!(started.elapsed() <= faults.late + ms(1));
    assert_eq!(hints.next().await, None);
}

#[test]
#[should_panic(expected = "the simulation with seed 5 is stuck")]
fn a_simulation_that_waits_for_what_never_comes_ends_in_a_panic() {
    Simulation::new(5).run(async |_| std::future::pending::<()>().await);
}

#[test]
#[should_panic(expected = "endless loop")]
fn requests_without_end_while_no_time_goes_by_end_in_a_panic() {
    Simulation::new(5).run(async |sim| {
        let client = sim.client();
        client.set_faults(Faults { latency: Duration::ZERO, ..Faults::none() });
        let lock = client.locks().mutex("a").unwrap();
        let _guard = lock.acquire_with(&options()).await.unwrap();
        loop {
            assert!(lock.try_acquire_with(&options()).await.unwrap().is_none());
        }
    });
}
