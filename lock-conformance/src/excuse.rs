//! [`Excuse`]: a failure that counts for nothing, because the machine stood still just then.

use std::{
    env,
    fs::OpenOptions,
    io::Write,
    time::{Duration, Instant, SystemTime},
};

use serde_json::json;

use crate::{
    audit::is_about_safety,
    output::say,
    witness::{Pressure, STALL, Stall, Testimony},
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
        witness: &dyn Testimony,
    ) -> Option<Self> {
        if is_about_safety(message) {
            return None;
        }
        let explains = |stall: &Stall| stall.overlaps(ttl, failed) && stall.lasted() >= STALL.max(ttl / 8);
        let stall = witness.stalls().into_iter().filter(explains).max_by_key(Stall::lasted)?;
        Some(Self { message: message.to_owned(), ttl, failed, stall, pressure: witness.pressure() })
    }

    /// As a line for those who count.
    pub(crate) fn line(&self, test: &str, store: &str) -> String {
        let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        json!({
            "test": test,
            "store": store,
            "when": since_1970.as_secs(),
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
        let line = self.line(test, store);
        say(&format!("excused: {line}"));
        let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) else { return };
        let file = OpenOptions::new().create(true).append(true).open(&path);
        // In one piece, because other processes append to it as well.
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        written.unwrap_or_else(|error| panic!("{VARIABLE}: {}: {error}", path.display()));
    }
}
