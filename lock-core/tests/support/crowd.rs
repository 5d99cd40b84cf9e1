//! Thousands of locks are lost at the same moment while a slow log subscriber writes: in real time, for the tests of several stores.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, StreamExt, stream};
use lock_core::{AcquireOptions, DistributedLock, Guard, Locks, Lost};
use tracing::{Event, Level, Metadata, Subscriber, span};

const CROWD: usize = 10_000;

/// How long a line takes: a slow terminal, a pipe, a disk. Long enough that a fifth of all lines, 2 s, is well above what the losses take
/// without a log: 0.15 to 0.2 s of a core, so 0.97 s beside servers of Java that start on the same two cores.
const LINE: Duration = Duration::from_millis(1);

/// How late a loss may be reported, and how long an acquisition may take in the meantime: a fifth of the time that one line for each loss takes.
const LATE: Duration = LINE.saturating_mul(CROWD as u32 / 5);

/// The longest that all of it may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How the locks are taken.
pub(crate) struct Crowd {
    /// The locks that are lost.
    pub(crate) ending: AcquireOptions,
    /// The ttl of the locks that are kept: a keeper that is busy for longer loses them.
    pub(crate) kept: Duration,
}

/// One of the locks that are lost.
struct Ending {
    _guard: Guard,
    _lost: Lost,
    woken: Arc<Woken>,
    /// Not before its deadline.
    over: Instant,
}

impl Crowd {
    /// Takes them, and waits until they are lost. `beside` are locks of another store on the same keeper. The subscriber is that of
    /// the whole process.
    pub(crate) async fn is_lost(&self, locks: &Locks, beside: &Locks) {
        let lines = Arc::new(AtomicUsize::new(0));
        tracing::subscriber::set_global_default(Slow(Arc::clone(&lines))).unwrap();
        let brief = AcquireOptions::new().ttl(self.kept);
        let mut kept = Vec::new();
        for (i, locks) in [locks, locks, beside, beside].into_iter().enumerate() {
            kept.push(take(locks, format!("kept/{i}"), &brief).await);
        }
        let crowd = stream::iter(0..CROWD).map(|i| self.take(locks, i)).buffered(200);
        let crowd: Vec<Ending> = crowd.collect().await;

        let (started, mut over_since, mut slowest) = (Instant::now(), None, Duration::ZERO);
        // Until a second after the last loss, in which the rest of them is cleaned up.
        while over_since.is_none_or(|since: Instant| since.elapsed() < Duration::from_secs(1)) {
            assert!(started.elapsed() < PATIENCE, "not all of them were told");
            for guard in &kept {
                assert!(guard.is_held(), "`{}` was lost by others: {:?}", guard.name(), guard.state());
            }
            let asked = Instant::now();
            let probe = take(locks, "probe".to_owned(), &brief).await;
            slowest = slowest.max(asked.elapsed());
            probe.release().await.unwrap();
            if over_since.is_none() && crowd.iter().all(|ending| ending.woken.0.get().is_some()) {
                over_since = Some(Instant::now());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let late =
            |ending: &Ending| ending.woken.0.get().map(|told| told.saturating_duration_since(ending.over));
        let latest = crowd.iter().filter_map(late).max().unwrap();
        println!("the last was told {latest:?} late, an acquisition took {slowest:?} at the most");
        assert!(latest < LATE, "the last of them was told {latest:?} after its deadline");
        assert!(slowest < LATE, "somebody waited {slowest:?} for a free lock");
        let (told, seconds) = (lines.load(Ordering::Relaxed), started.elapsed().as_secs() as usize + 2);
        assert!((1..=seconds).contains(&told), "{told} lines in {seconds} seconds, all of one cause");
    }

    async fn take(&self, locks: &Locks, i: usize) -> Ending {
        let guard = take(locks, format!("crowd/{i}"), &self.ending).await;
        let over = Instant::now() + guard.remaining();
        let (mut lost, woken) = (guard.lost(), Arc::<Woken>::default());
        let waker = Waker::from(Arc::clone(&woken));
        assert!(lost.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
        Ending { _guard: guard, _lost: lost, woken, over }
    }
}

async fn take(locks: &Locks, name: String, options: &AcquireOptions) -> Guard {
    locks.mutex(name).unwrap().acquire_with(options).await.unwrap()
}

/// When it was woken.
#[derive(Default)]
struct Woken(OnceLock<Instant>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.get_or_init(Instant::now);
    }
}

/// Is slow with each line, and counts the lines of the levels that people read.
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
