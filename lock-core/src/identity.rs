//! [`Identity`]: the process that an entry in a queue belongs to, as its label says.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Which process stands in a queue, and since when: written into the label of an entry, and read back from it.
///
/// The `distlock` command labels its own entries so, and `distlock show` has columns for what it reads. A service that does the
/// same is shown in the same way:
///
/// ```
/// use lock_core::{AcquireOptions, Identity};
///
/// let options = AcquireOptions::new().label(Identity::of_this_process("nightly"));
/// let label = options.label.unwrap();
/// assert!(label.starts_with("nightly ") && label.contains(&format!(" pid={} ", std::process::id())), "{label}");
///
/// let read = Identity::read(&label);
/// assert_eq!(read.label.as_deref(), Some("nightly"));
/// assert_eq!(read.pid, Some(std::process::id()));
/// ```
///
/// It is for people to read. Any client may write anything into a label, so do not base decisions on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// What the process calls itself.
    pub label: Option<String>,
    /// The name of its host.
    pub host: Option<String>,
    /// Its number on that host.
    pub pid: Option<u32>,
    /// When it came, in seconds since 1970 on the clock of its host.
    pub since: Option<u64>,
}

impl Identity {
    /// This process, now. An empty label counts as none.
    ///
    /// Make one for each acquisition. Otherwise `show` prints the age of the first acquisition.
    #[must_use]
    pub fn of_this_process(label: impl Into<String>) -> Self {
        let host = gethostname::gethostname().to_string_lossy().replace(char::is_whitespace, "-");
        Self {
            label: Some(label.into()).filter(|label| !label.is_empty()),
            host: Some(host),
            pid: Some(std::process::id()),
            since: Some(seconds_now()),
        }
    }

    /// What a label says. Of one that was not written by an `Identity` all is [`label`](Self::label).
    #[must_use]
    pub fn read(label: &str) -> Self {
        let whole = || Self { label: Some(label.to_owned()), ..Self::default() };
        let Some((rest, since)) = fact(label, "since") else { return whole() };
        let Some((rest, pid)) = fact(rest, "pid") else { return whole() };
        let Some((rest, host)) = fact(rest, "host") else { return whole() };
        let (Ok(since), Ok(pid)) = (since.parse(), pid.parse()) else { return whole() };
        let label = Some(rest.to_owned()).filter(|rest| !rest.is_empty());
        Self { label, host: Some(host.to_owned()), pid: Some(pid), since: Some(since) }
    }

    /// How long ago it came, as far as the clocks of the two hosts agree.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.since.map(|since| Duration::from_secs(seconds_now().saturating_sub(since)))
    }
}

/// As the label of an entry: `nightly host=web-1 pid=4242 since=1795219200`.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = [
            self.label.clone(),
            self.host.as_ref().map(|host| format!("host={host}")),
            self.pid.map(|pid| format!("pid={pid}")),
            self.since.map(|since| format!("since={since}")),
        ];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        f.write_str(&facts.join(" "))
    }
}

impl From<Identity> for String {
    fn from(identity: Identity) -> Self {
        identity.to_string()
    }
}

/// The last word of a text, if it is this fact, and what stands before it.
fn fact<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let (rest, last) = text.rsplit_once(' ').unwrap_or(("", text));
    Some((rest, last.strip_prefix(name)?.strip_prefix('=')?))
}

fn seconds_now() -> u64 {
    // A clock before 1970 is as good as none.
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back() {
        for label in ["", "nightly", "two words", "a host=b pid=1", " ", "pid=1 since=2"] {
            let written = Identity::of_this_process(label);
            assert_eq!(Identity::read(&written.to_string()), written, "{label:?}");
        }
    }

    #[test]
    fn an_entry_is_as_old_as_the_time_since_it_came() {
        let come = |since| Identity { since, ..Identity::default() };
        let before = seconds_now();
        let age = come(Some(before - 90)).age().expect("it says since when").as_secs();
        assert!((90..=90 + seconds_now() - before).contains(&age), "{age} s");
        assert_eq!(come(Some(before + 3_600)).age(), Some(Duration::ZERO), "the clock of its host is ahead");
        assert_eq!(come(None).age(), None);
    }

    #[test]
    fn a_label_of_somebody_else_is_a_label_and_nothing_more() {
        for label in
            ["web-1", "", "since=5", "host=a pid=x since=5", "a pid=1 since=2", "a since=1 pid=2 host=3"]
        {
            let read = Identity::read(label);
            assert_eq!(read, Identity { label: Some(label.to_owned()), ..Identity::default() });
        }
    }
}
