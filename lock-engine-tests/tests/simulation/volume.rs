//! Runs ranges of seeds on all cores, and continues a range that was interrupted.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use lock_engine_tests::simulation;

use crate::totals::Totals;

/// After so many seeds the progress is written.
const BATCH: u64 = 10_000;

/// The range of seeds in the environment: `SEEDS=n` stands for n seeds, which begin with `FROM`, or with 0; `SEEDS=from..to` for a range. The
/// first 500 without it.
pub(crate) fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("SEEDS") else { return 0..500 };
    let number = |text: &str| {
        text.trim()
            .parse()
            .unwrap_or_else(|_| panic!("SEEDS is n or from..to, and FROM a number, not {text:?}"))
    };
    if let Some((from, to)) = text.split_once("..") {
        return number(from)..number(to);
    }
    let from: u64 = std::env::var("FROM").map_or(0, |from| number(&from));
    from..from + number(&text)
}

/// Runs a range of seeds. A seed that breaks a promise ends it with a panic. A long range that was interrupted goes on where it was.
pub(crate) fn run_all(seeds: &Range<u64>) -> Totals {
    if seeds.end.saturating_sub(seeds.start) <= BATCH {
        return run_batch(seeds);
    }
    go_on(seeds, BATCH, &folder())
}

/// Runs the seeds of a range that this program has not run yet.
fn go_on(seeds: &Range<u64>, batch: u64, folder: &Path) -> Totals {
    let mut progress = Progress::read(folder, seeds);
    let (first, started) = (progress.next, Instant::now());
    while progress.next < seeds.end {
        let end = (progress.next + batch).min(seeds.end);
        progress.totals.add(&run_batch(&(progress.next..end)));
        progress.next = end;
        progress.write(seeds);
    }
    let ran = seeds.end - first;
    // The numbers of seeds are far below 2^52.
    #[allow(clippy::cast_precision_loss, reason = "they are shown to people")]
    let speed = ran as f64 / started.elapsed().as_secs_f64();
    println!("{ran} seeds from {first} on, {speed:.0} a second");
    progress.totals
}

/// Where the progress of this program is kept. One that was built from other source begins anew.
fn folder() -> PathBuf {
    let program = std::env::current_exe().and_then(fs::read).expect("a program can read its own file");
    let mut hasher = DefaultHasher::new();
    program.hash(&mut hasher);
    let name = format!("simulation/{:016x}", hasher.finish());
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name(name)
}

fn run_batch(seeds: &Range<u64>) -> Totals {
    let next = AtomicU64::new(seeds.start);
    let threads = thread::available_parallelism().map_or(1, Into::into);
    let mut all = Totals::default();
    thread::scope(|scope| {
        let runners: Vec<_> = (0..threads).map(|_| scope.spawn(|| run_next(&next, seeds.end))).collect();
        for runner in runners {
            all.add(&runner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    all
}

fn run_next(next: &AtomicU64, end: u64) -> Totals {
    let mut totals = Totals::default();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return totals;
        }
        let named = Named(seed);
        let report = simulation::run(seed);
        drop(named);
        if !report.violations.is_empty() {
            // The other threads need not continue.
            next.store(end, Ordering::Relaxed);
            panic!("the events of the run, in their order:\n{report}");
        }
        totals.add_report(&report);
    }
}

/// Prints the seed of a run that panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("that was seed {0}; alone: SEEDS={0}..{1}", self.0, self.0 + 1);
        }
    }
}

/// How far a range of seeds is run.
#[derive(Debug)]
struct Progress {
    file: PathBuf,
    /// The first seed that is not run yet.
    next: u64,
    totals: Totals,
}

impl Progress {
    fn read(folder: &Path, seeds: &Range<u64>) -> Self {
        let file = folder.join(format!("{}-{}", seeds.start, seeds.end));
        let Ok(text) = fs::read_to_string(&file) else {
            return Self { file, next: seeds.start, totals: Totals::default() };
        };
        let lines: Vec<_> = text.lines().collect();
        let read = match lines[..] {
            [next, events, aims, coverage] => {
                next.parse::<u64>().ok().zip(Totals::from_lines(events, aims, coverage))
            }
            _ => None,
        };
        let (next, totals) = read.unwrap_or_else(|| panic!("delete {}: it is no progress", file.display()));
        Self { file, next, totals }
    }

    /// Keeps the progress until the last seed was run.
    fn write(&self, seeds: &Range<u64>) {
        if self.next >= seeds.end {
            // There is none if the range was run in one batch.
            let _ = fs::remove_file(&self.file);
            return;
        }
        let new = self.file.with_extension("new");
        let folder = self.file.parent().expect("the file is in a folder");
        fs::create_dir_all(folder).expect("the folder of the target can be written to");
        fs::write(&new, format!("{}\n{}", self.next, self.totals.to_lines()))
            .expect("the progress is written");
        fs::rename(&new, &self.file).expect("the progress is put in place");
    }
}

#[test]
fn a_range_that_was_interrupted_goes_on_with_the_same_totals() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interrupted");
    // What a run that failed has left.
    let _ = fs::remove_dir_all(&folder);
    let seeds = 0..9;
    let mut progress = Progress::read(&folder, &seeds);
    progress.totals.add(&run_batch(&(0..6)));
    progress.next = 6;
    progress.write(&seeds);
    let again = Progress::read(&folder, &seeds);
    assert_eq!((again.next, &again.totals), (6, &progress.totals));
    assert_eq!(go_on(&seeds, 2, &folder), run_batch(&seeds));
    assert_eq!(Progress::read(&folder, &seeds).next, 0, "the file is gone at the end");
}
