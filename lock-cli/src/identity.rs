//! [`Identity`]: who stands in a queue, written into the label of an entry and read back from it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use distlock::AcquireOptions;

use crate::{exit::Exit, failure::Failure};

/// Who it is. Whatever a label does not say is `None`: it may be that of a service, which writes what it likes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) label: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) pid: Option<u32>,
    /// When it came, in seconds since 1970 on the clock of its machine.
    pub(crate) since: Option<u64>,
}

impl Identity {
    /// This process, now.
    pub(crate) fn own(label: Option<String>) -> Self {
        let host = nix::unistd::gethostname().ok().map(|host| host.to_string_lossy().into_owned());
        let host = host.map(|host| host.replace(char::is_whitespace, "-")).filter(|host| !host.is_empty());
        Self { label, host, pid: Some(std::process::id()), since: Some(seconds_now()) }
    }

    /// As a label of an entry: `nightly host=web-1 pid=4242 since=1795219200`.
    ///
    /// # Errors
    /// If what the user gave is too long for that.
    pub(crate) fn written(&self) -> Result<String, Failure> {
        let fact = |name: &str, value: Option<String>| value.map(|value| format!(" {name}={value}"));
        let facts = [
            fact("host", self.host.clone()),
            fact("pid", self.pid.map(|pid| pid.to_string())),
            fact("since", self.since.map(|since| since.to_string())),
        ];
        let facts: String = facts.into_iter().flatten().collect();
        let label = self.label.as_deref().unwrap_or_default();
        let room = AcquireOptions::MAX_LABEL.saturating_sub(facts.len());
        if label.len() > room {
            let message = format!("--label is too long with its {} bytes; use at most {room}", label.len());
            return Err(Failure::new(Exit::USAGE, message));
        }
        Ok(format!("{label}{facts}").trim_start().to_owned())
    }

    /// What a label says.
    pub(crate) fn read(label: &str) -> Self {
        let whole = || Self { label: Some(label.to_owned()), ..Self::default() };
        let Some((rest, since)) = fact(label, "since") else { return whole() };
        let Some((rest, pid)) = fact(rest, "pid") else { return whole() };
        let Some((rest, host)) = fact(rest, "host") else { return whole() };
        let (Ok(since), Ok(pid)) = (since.parse(), pid.parse()) else { return whole() };
        let label = Some(rest.to_owned()).filter(|rest| !rest.is_empty());
        Self { label, host: Some(host.to_owned()), pid: Some(pid), since: Some(since) }
    }

    /// How long ago it came, as far as the clocks of the machines agree.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.since.map(|since| Duration::from_secs(seconds_now().saturating_sub(since)))
    }

    /// In a sentence: `nightly (web-1, pid 4242)`.
    pub(crate) fn sentence(&self) -> String {
        let place = match (&self.host, self.pid) {
            (Some(host), Some(pid)) => format!("{host}, pid {pid}"),
            _ => String::new(),
        };
        match (self.label.as_deref(), place.is_empty()) {
            (Some(label), true) => label.to_owned(),
            (Some(label), false) => format!("{label} ({place})"),
            (None, true) => "somebody without a label".to_owned(),
            (None, false) => place,
        }
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
        for label in [None, Some("nightly"), Some("two words"), Some("a host=b pid=1"), Some(" ")] {
            let identity = Identity::own(label.map(str::to_owned));
            let read = Identity::read(&identity.written().unwrap());
            assert_eq!((read.pid, read.since, &read.host), (identity.pid, identity.since, &identity.host));
            assert_eq!(read.label.as_deref().map(str::trim), label.map(str::trim).filter(|l| !l.is_empty()));
        }
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

    #[test]
    fn a_label_that_does_not_fit_says_how_many_bytes_do() {
        let failure = Identity::own(Some("x".repeat(256))).written().unwrap_err();
        assert!(failure.to_string().contains("256 bytes; use at most 2"), "{failure}");
    }
}
