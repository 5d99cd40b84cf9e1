//! [`Excuse`]: a failure that does not count, because the machine stood still at that time or a cluster was down.

use std::{
    env,
    fs::OpenOptions,
    io::Write,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use serde_json::json;

use crate::{
    audit::is_about_safety,
    output::say,
    stall_detector::{Pressure, STALL, Stall, StallSource},
};

/// Names the file to which excuses are appended as lines of JSON. Without it they are only printed.
const VARIABLE: &str = "DISTLOCK_EXCUSES";

/// A failure of a timing-sensitive scenario, and the stall that explains it.
#[derive(Clone, Debug)]
pub(crate) struct Excuse {
    message: String,
    ttl: Duration,
    failed: Instant,
    stall: Stall,
    pressure: Option<Pressure>,
}

impl Excuse {
    /// The excuse for a failure with that message, if there is one.
    ///
    /// Nothing excuses a broken promise of safety: see [`safety`](crate::audit::safety). Any other failure is excused by a
    /// [`Stall`] of at least an eighth of the ttl that overlaps the last ttl before the failure. A lease is renewed three times in a
    /// ttl, so it has recovered from earlier stalls, and shorter stalls cost no lease.
    pub(crate) fn find(
        message: &str,
        failed: Instant,
        ttl: Duration,
        detector: &dyn StallSource,
    ) -> Option<Self> {
        if is_about_safety(message) {
            return None;
        }
        let explains = |stall: &Stall| stall.overlaps(ttl, failed) && stall.lasted() >= STALL.max(ttl / 8);
        let stall = detector.stalls().into_iter().filter(explains).max_by_key(Stall::lasted)?;
        Some(Self { message: message.to_owned(), ttl, failed, stall, pressure: detector.pressure() })
    }

    /// The line of JSON.
    pub(crate) fn line(&self, test: &str, store: &str) -> String {
        json!({
            "test": test,
            "store": store,
            "when": now(),
            "stall_ms": millis(self.stall.lasted()),
            "ended_ms_before": millis(self.failed.saturating_duration_since(self.stall.until)),
            "ttl_ms": millis(self.ttl),
            "pressure_some_ms": self.pressure.map(|pressure| millis(pressure.some)),
            "pressure_full_ms": self.pressure.map(|pressure| millis(pressure.full)),
            "message": self.message,
        })
        .to_string()
    }

    /// Prints it, and appends it to the file.
    ///
    /// # Panics
    /// If it cannot be written: a failure that is not counted is not excused.
    pub(crate) fn record(&self, test: &str, store: &str) {
        write_down(&self.line(test, store));
    }
}

/// Records that a test is repeated because its store was unavailable for so long that no lock could be kept. It is meant for tests that
/// break a cluster, since the time that an election takes has no bound. Like the excuses of the suite, it is a line on standard error
/// and in the file that `DISTLOCK_EXCUSES` names. The gate counts these lines.
///
/// # Panics
/// If it cannot be written: a failure that is not counted is not excused.
pub fn excused_by_outage(test: &str, store: &str, outage: Duration) {
    write_down(&outage_line(test, store, outage));
}

fn outage_line(test: &str, store: &str, outage: Duration) -> String {
    json!({ "test": test, "store": store, "when": now(), "outage_ms": millis(outage) }).to_string()
}

fn write_down(line: &str) {
    say(&format!("excused: {line}"));
    if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        append(Path::new(&path), line);
    }
}

fn append(path: &Path, line: &str) {
    let file = OpenOptions::new().create(true).append(true).open(path);
    // In one piece, because other processes append to it as well.
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("{VARIABLE}: {}: {error}", path.display()));
}

/// In seconds since 1970.
fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn an_outage_that_excuses_is_one_line_that_says_where_and_how_long() {
        let path = env::temp_dir().join(format!("excuses-{}", std::process::id()));
        for seconds in [6, 7] {
            append(&path, &outage_line("cluster.rs:46", "etcd", Duration::from_secs(seconds)));
        }
        let written = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let lines: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{written}");
        assert_eq!((&lines[1]["test"], &lines[1]["store"]), (&"cluster.rs:46".into(), &"etcd".into()));
        assert_eq!(lines[1]["outage_ms"], 7_000);
    }
}
