//! [`StallDetector`]: measures whether the machine stood still, independently of any lock.

use std::{
    fs,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use lock_core::sync::Mutex;

/// How long the detector sleeps at a time.
const SLICE: Duration = Duration::from_millis(10);

/// How late a sleep has to end to count as a [`Stall`].
pub(crate) const STALL: Duration = Duration::from_millis(250);

/// Where Linux reports how much time tasks have waited for a core.
const PRESSURE: &str = "/proc/pressure/cpu";

/// A source of stalls of this machine.
pub(crate) trait StallSource: Sync {
    /// All stalls so far, a current one included.
    fn stalls(&self) -> Vec<Stall>;

    /// The kernel's figures since the detector was started. They are reported, but decide nothing.
    fn pressure(&self) -> Option<Pressure>;
}

/// A thread that sleeps in slices and notes how late each of them ends. It uses no store, no runtime, no lock that other threads hold,
/// and no code of the library, so none of these can make it late.
#[derive(Debug)]
pub(crate) struct StallDetector {
    notes: Arc<Mutex<Notes>>,
    pressure: Option<Pressure>,
}

/// A time in which a thread was due to wake up, and did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// When it should have woken.
    pub(crate) from: Instant,
    /// When it did.
    pub(crate) until: Instant,
}

/// The kernel's pressure figures: for how long at least one task waited for a core (`some`), and all runnable tasks (`full`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pressure {
    pub(crate) some: Duration,
    pub(crate) full: Duration,
}

#[derive(Debug)]
struct Notes {
    /// When the current sleep should end.
    due: Instant,
    stalls: Vec<Stall>,
}

impl StallDetector {
    /// Starts the thread, which ends soon after the detector is dropped.
    pub(crate) fn start() -> Self {
        let notes = Arc::new(Mutex::new(Notes { due: Instant::now() + SLICE, stalls: Vec::new() }));
        let (ours, pressure) = (Arc::downgrade(&notes), Pressure::now());
        thread::spawn(move || {
            loop {
                thread::sleep(SLICE);
                let Some(notes) = ours.upgrade() else { break };
                notes.lock().woke(Instant::now());
            }
        });
        Self { notes, pressure }
    }
}

impl StallSource for StallDetector {
    fn stalls(&self) -> Vec<Stall> {
        self.notes.lock().until(Instant::now())
    }

    fn pressure(&self) -> Option<Pressure> {
        let (before, now) = (self.pressure?, Pressure::now()?);
        let since = |now: Duration, before| now.saturating_sub(before);
        Some(Pressure { some: since(now.some, before.some), full: since(now.full, before.full) })
    }
}

impl Notes {
    fn woke(&mut self, now: Instant) {
        self.stalls = self.until(now);
        // Counted from this reading of the clock, so that no time is left out.
        self.due = now + SLICE;
    }

    fn until(&self, now: Instant) -> Vec<Stall> {
        let pending = Stall { from: self.due, until: now };
        let counts = pending.lasted() >= STALL;
        self.stalls.iter().copied().chain(counts.then_some(pending)).collect()
    }
}

impl Stall {
    pub(crate) fn lasted(&self) -> Duration {
        self.until.saturating_duration_since(self.from)
    }

    /// Whether any of it lies in the time that ends at `end` and began `window` before.
    pub(crate) fn overlaps(&self, window: Duration, end: Instant) -> bool {
        self.from <= end && self.until + window >= end
    }
}

impl Pressure {
    /// Since boot. `None` where the kernel does not report it.
    fn now() -> Option<Self> {
        Self::read(&fs::read_to_string(PRESSURE).ok()?)
    }

    /// Some kernels have no line for `full`.
    fn read(text: &str) -> Option<Self> {
        let total = |kind: &str| {
            let line = text.lines().find(|line| line.split(' ').next() == Some(kind))?;
            let (_, micros) = line.rsplit_once("total=")?;
            Some(Duration::from_micros(micros.trim().parse().ok()?))
        };
        Some(Self { some: total("some")?, full: total("full").unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_sleep_that_ends_late_is_a_stall_also_before_it_has_ended() {
        let began = Instant::now();
        let mut notes = Notes { due: began, stalls: Vec::new() };
        notes.woke(began + ms(249));
        assert_eq!(notes.stalls, [], "that is not late enough");
        let due = began + ms(249) + SLICE;
        let stall = |lasted| Stall { from: due, until: due + ms(lasted) };
        assert_eq!(notes.until(due + ms(250)), [stall(250)]);
        assert_eq!(notes.until(due + ms(300)), [stall(300)], "one that goes on is one");
        notes.woke(due + ms(400));
        notes.woke(due + ms(410));
        assert_eq!(notes.until(due + ms(420)), [stall(400)]);
    }

    #[test]
    fn a_stall_overlaps_what_it_begins_before_and_ends_within() {
        let end = Instant::now() + ms(10_000);
        let before = |millis| end.checked_sub(ms(millis)).expect("it is ten seconds from now");
        let stall = |from: u64, until: u64| Stall { from: before(from), until: before(until) };
        for within in [stall(1500, 900), stall(600, 300), stall(300, 0), stall(5000, 1000)] {
            assert!(within.overlaps(ms(1000), end), "{within:?}");
        }
        assert!(!stall(1500, 1001).overlaps(ms(1000), end), "it was over before");
        let later = Stall { from: end + ms(1), until: end + ms(500) };
        assert!(!later.overlaps(ms(1000), end), "it came afterwards");
    }

    #[test]
    fn the_figures_of_the_kernel_are_read_as_it_writes_them() {
        let some = "some avg10=0.64 avg60=1.20 avg300=0.91 total=1500000\n";
        let full = "full avg10=0.00 avg60=0.00 avg300=0.00 total=250\n";
        let read = Pressure::read(&(some.to_owned() + full));
        assert_eq!(read, Some(Pressure { some: ms(1500), full: Duration::from_micros(250) }));
        assert_eq!(Pressure::read(some), Some(Pressure { some: ms(1500), full: Duration::ZERO }));
        assert_eq!(Pressure::read(""), None);
    }

    /// To its threads, a paused process looks like a machine that stands still.
    #[cfg(unix)]
    #[test]
    fn a_process_that_stood_still_is_told_so_by_its_witness() {
        use std::{
            env,
            io::{BufRead, BufReader},
            process::{Command, Stdio},
        };

        use crate::signals;

        const VARIABLE: &str = "DISTLOCK_STALL_DETECTOR";
        if env::var_os(VARIABLE).is_some() {
            let detector = StallDetector::start();
            println!("@detector looks");
            loop {
                let longest = detector.stalls().iter().map(Stall::lasted).max().unwrap_or_default();
                if longest >= STALL {
                    return println!("@detector {}", longest.as_millis());
                }
                thread::sleep(SLICE);
            }
        }
        let this_test = thread::current().name().expect("tests have names").to_owned();
        let mut child = Command::new(env::current_exe().unwrap())
            .args([&this_test, "--exact", "--nocapture"])
            .env(VARIABLE, "")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut says = || {
            let line = lines
                .find_map(|line| line.unwrap().split_once("@detector ").map(|(_, said)| said.to_owned()));
            line.expect("it says more before it ends")
        };
        assert_eq!(says(), "looks");
        signals::pause(child.id());
        thread::sleep(STALL * 2);
        assert!(signals::resume(child.id()));
        let told = says().parse().unwrap();
        assert!(Duration::from_millis(told) >= STALL, "{told} ms");
        assert!(child.wait().unwrap().success());
    }
}
