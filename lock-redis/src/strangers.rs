//! [`Strangers`]: who has what we wait for, and has no reason ever to give it back.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use lock_core::{BootTime, Entry, LockName, excerpt};

/// So long somebody else may have a key without expiry before people are told: many a client sets the expiry in a second command.
const PATIENCE: Duration = Duration::from_secs(3);

/// So many names are kept at the most, and people are told of no more of them.
const MOST: usize = 1024;

/// Keys that others have without expiry and that this process waits for. It may be a lock whose owner forgot to say for how long; and it
/// may be no lock at all.
#[derive(Debug, Default)]
pub(crate) struct Strangers(Mutex<HashMap<LockName, Met>>);

#[derive(Debug)]
struct Met {
    first: BootTime,
    last: BootTime,
    told: bool,
}

impl Strangers {
    /// Somebody has waited for such a key, and looked now. People are told once, when that has gone on for some time.
    pub(crate) fn met(&self, prefix: &str, entry: &Entry, now: BootTime) {
        if !self.has_to_be_told(entry, now) {
            return;
        }
        let (key, name) =
            (excerpt(format_args!("{prefix}{}", entry.name)), excerpt(format_args!("{}", entry.name)));
        let advice = if prefix.is_empty() {
            "; if it is no lock, give the locks a prefix of their own (`prefix=distlock:`)"
        } else {
            ""
        };
        tracing::warn!(
            "the redis key `{key}` is not ours and has no expiry, so those who wait for the lock `{name}` wait until somebody deletes it{advice}"
        );
    }

    fn has_to_be_told(&self, entry: &Entry, now: BootTime) -> bool {
        // Nothing panics while it is held, and each change to it is whole.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(&entry.name) {
            if all.len() >= MOST {
                all.retain(|_, met| now.since(met.last) < PATIENCE);
            }
            if all.len() >= MOST {
                return false;
            }
        }
        let met = all.entry(entry.name.clone()).or_insert(Met { first: now, last: now, told: false });
        // Who waits looks within his ttl: nobody has waited since then.
        if now.since(met.last) > entry.ttl {
            *met = Met { first: now, last: now, told: false };
        }
        met.last = met.last.max(now);
        let has_to_be_told = !met.told && now.since(met.first) >= PATIENCE;
        met.told |= has_to_be_told;
        has_to_be_told
    }
}

#[cfg(test)]
mod tests {
    use lock_core::{Claim, EntryId};

    use super::*;

    fn entry(name: &str) -> Entry {
        let name = LockName::new(name).unwrap();
        Entry::new(name, EntryId::new(1), Claim::mutex(), Duration::from_secs(30))
    }

    fn at(seconds: u64) -> BootTime {
        BootTime::new(Duration::from_secs(seconds))
    }

    #[test]
    fn people_are_told_once_of_each_key_and_not_before_some_time_has_passed() {
        let (strangers, entry, other) = (Strangers::default(), entry("a"), entry("b"));
        let told: Vec<_> = (0..60).filter(|&second| strangers.has_to_be_told(&entry, at(second))).collect();
        assert_eq!(told, [3]);
        assert!(!strangers.has_to_be_told(&other, at(60)));
        assert!(strangers.has_to_be_told(&other, at(70)), "who looks seldom has waited, too");
        // Nobody has waited meanwhile: it is another time.
        let told: Vec<_> =
            (600..660).filter(|&second| strangers.has_to_be_told(&entry, at(second))).collect();
        assert_eq!(told, [603]);
    }

    #[test]
    fn very_many_keys_take_no_memory_for_ever() {
        let strangers = Strangers::default();
        for i in 0..10_000 {
            strangers.has_to_be_told(&entry(&i.to_string()), at(i / 100));
        }
        assert!(strangers.0.lock().unwrap().len() <= MOST);
        assert!(!strangers.has_to_be_told(&entry("new"), at(1_000)));
        assert!(strangers.has_to_be_told(&entry("new"), at(1_003)));
    }
}
