//! [`Excuse`]: a failure that counts for nothing, because the machine stood still just then; and what else is written down as one.

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

/// Names the file to which each excuse is appended, as a line of JSON. Without it, an excuse is only printed.
const VARIABLE: &str = "DISTLOCK_EXCUSES";

/// A failure of a scenario that holds the machine to a time, and the stall that overlaps it.
#[derive(Clone, Debug)]
pub(crate) struct Excuse {
    message: String,
    ttl: Duration,
    failed: Instant,
    stall: Stall,
    pressure: Option<Pressure>,
}

impl Excuse {
    /// What excuses a failure with that message, if anything does.
    ///
    /// Nothing excuses a broken promise of safety: see [`safety`](crate::audit::safety). Any other failure is excused by a
    /// [`Stall`] of at least an eighth of the ttl of which some lies within one ttl before it: what is renewed thrice in a
    /// ttl and was late only before that has had its time to recover, and what is shorter costs no lease.
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

    /// As a line for those who count.
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

    /// Writes it down, where it is seen in every run.
    ///
    /// # Panics
    /// If it cannot be written: what is not counted is not excused.
    pub(crate) fn record(&self, test: &str, store: &str) {
        write_down(&self.line(test, store));
    }
}

/// Writes down that a test counts for nothing and is repeated, because its store was away for so long that no lock could be kept: for
/// tests that break a cluster, which takes the time that it takes to be whole again. It is a line on standard error and, as the excuses
/// of the suite are, in the file that `DISTLOCK_EXCUSES` names, whose lines the gate counts.
///
/// # Panics
/// If it cannot be written: what is not counted is not excused.
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
