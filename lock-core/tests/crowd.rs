//! Thousands of locks that are lost in the same moment, beside somebody who writes a log slowly: in real time, on a keeper with a
//! thread of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use lock_core::{AcquireOptions, DistributedLock, Guard, Keeper, Locks, Lost, Memory, SystemEntropy};
use tracing::{Event, Level, Metadata, Subscriber, span};

const CROWD: usize = 10_000;

/// A line takes so long: a terminal, a pipe, a disk.
const LINE: Duration = Duration::from_micros(200);

/// The most that a busy machine takes for all of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes its time over each line, and counts those that people are to read.
struct Slow(Arc<AtomicUsize>);

impl Subscriber for Slow {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "distlock" && metadata.is_event()
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        thread::sleep(LINE);
        self.0.fetch_add(usize::from(*event.metadata().level() <= Level::INFO), Ordering::Relaxed);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

fn take(locks: &Locks, name: String, options: &AcquireOptions) -> Guard {
    let lock = locks.mutex(name).unwrap();
    lock.acquire_with(options).now_or_never().expect("memory answers at once").unwrap()
}

/// The leases that are kept are short, so that a keeper that is busy for a second loses them: beside others, on a busy machine, that says
/// nothing.
mod alone {
    use super::*;

    /// The only test of this program: a subscriber is that of a whole process.
    #[test]
    fn losses_by_the_thousand_beside_a_slow_log_are_told_and_cost_nobody_else_a_lock() {
        let lines = Arc::new(AtomicUsize::new(0));
        tracing::subscriber::set_global_default(Slow(Arc::clone(&lines))).unwrap();
        let keeper = Keeper::start().unwrap();
        let entropy = Arc::new(SystemEntropy);
        let locks = Locks::with(Arc::new(Memory::new()), keeper.clone(), Arc::clone(&entropy) as _);
        let beside = Locks::with(Arc::new(Memory::new()), keeper, entropy);

        let brief = AcquireOptions::new().ttl(Duration::from_secs(1));
        let kept = [&locks, &locks, &beside, &beside];
        let kept = kept.iter().enumerate().map(|(i, locks)| take(locks, format!("kept/{i}"), &brief));
        let kept: Vec<_> = kept.collect();
        let ending = AcquireOptions::new().ttl(Duration::from_secs(3)).renew(false);
        let crowd: Vec<_> = (0..CROWD)
            .map(|i| {
                let guard = take(&locks, format!("crowd/{i}"), &ending);
                let (mut lost, woken): (Lost, _) = (guard.lost(), Arc::new(Woken::default()));
                let waker = Waker::from(Arc::clone(&woken));
                assert!(lost.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
                (guard, lost, woken)
            })
            .collect();

        let started = Instant::now();
        let mut over_since = None;
        // Until a second after the last, in which what is left of them goes.
        while over_since.is_none_or(|since: Instant| since.elapsed() < Duration::from_secs(1)) {
            assert!(started.elapsed() < PATIENCE, "not all of them were told");
            for guard in &kept {
                assert!(guard.is_held(), "`{}` was lost by others: {:?}", guard.name(), guard.state());
            }
            if over_since.is_none() && crowd.iter().all(|(.., woken)| woken.0.load(Ordering::Acquire)) {
                over_since = Some(Instant::now());
            }
            thread::sleep(Duration::from_millis(10));
        }
        let (told, seconds) = (lines.load(Ordering::Relaxed), started.elapsed().as_secs() as usize + 2);
        assert!((1..=seconds).contains(&told), "{told} lines in {seconds} seconds, all of one cause");
    }
}
