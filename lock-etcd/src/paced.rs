//! [`Paced`]: what is said at most once in a second.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use lock_core::BootTime;

/// How long nothing more is said of a cause after a line.
const PAUSE: Duration = Duration::from_secs(1);

/// What many sessions and streams meet at once, or one again and again, is said in one line. Those that come within a second after a
/// line are counted, and said with the next one.
#[derive(Debug, Default)]
pub(crate) struct Paced(Mutex<BTreeMap<&'static str, Said>>);

#[derive(Debug)]
struct Said {
    at: BootTime,
    /// How often it came since.
    more: u64,
}

impl Paced {
    /// Whether to say that something of this cause has happened, and how often it did since that was last said.
    pub(crate) fn times(&self, cause: &'static str, now: BootTime) -> Option<u64> {
        // Nothing panics while it is held.
        let mut causes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(said) = causes.get_mut(cause) else {
            causes.insert(cause, Said { at: now, more: 0 });
            return Some(1);
        };
        said.more += 1;
        if now < said.at + PAUSE {
            return None;
        }
        said.at = now;
        Some(std::mem::take(&mut said.more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_cause_there_is_a_line_in_a_second_with_the_count_of_the_others() {
        let paced = Paced::default();
        let at = |ms: u64| BootTime::new(Duration::from_millis(10_000 + ms));
        assert_eq!(paced.times("one", at(0)), Some(1));
        assert_eq!([1, 500, 999].map(|ms| paced.times("one", at(ms))), [None; 3]);
        assert_eq!(paced.times("other", at(999)), Some(1));
        assert_eq!(paced.times("one", at(1_000)), Some(4));
        assert_eq!(paced.times("one", at(1_999)), None);
        assert_eq!(paced.times("one", at(9_000)), Some(2));
    }
}
