//! [`ForeignHolders`]: warns of foreign keys without expiry, for which a waiter may wait forever.

use std::{collections::HashMap, time::Duration};

use lock_core::{BootTime, Entry, LockName, excerpt, isolate, sync::Mutex};

/// How long a foreign key may be without expiry before that is logged: some clients set the expiry in a second command.
const WARN_AFTER: Duration = Duration::from_secs(3);

/// The maximum number of names kept. Keys of further names are not logged.
const MAX_NAMES: usize = 1024;

/// Foreign keys without expiry that this process waits for. Such a key may be a lock whose owner set no expiry, or no lock at all.
#[derive(Debug, Default)]
pub(crate) struct ForeignHolders(Mutex<HashMap<LockName, Sighting>>);

#[derive(Debug)]
struct Sighting {
    first: BootTime,
    last: BootTime,
    warned: bool,
}

impl ForeignHolders {
    /// Records that a waiter has found such a key again. Logs each key once, after [`WARN_AFTER`].
    pub(crate) fn observe(&self, prefix: &str, entry: &Entry, now: BootTime) {
        if !self.record_sighting(entry, now) {
            return;
        }
        let (key, name) =
            (excerpt(format_args!("{prefix}{}", entry.name)), excerpt(format_args!("{}", entry.name)));
        let advice = if prefix.is_empty() {
            "; if it is no lock, give the locks a prefix of their own (`prefix=distlock:`)"
        } else {
            ""
        };
        isolate(|| {
            tracing::warn!(
                "the redis key `{key}` is not ours and has no expiry, so those who wait for the lock `{name}` wait until somebody deletes it{advice}"
            );
        });
    }

    /// Whether it is time to log.
    fn record_sighting(&self, entry: &Entry, now: BootTime) -> bool {
        let mut holders = self.0.lock();
        if !holders.contains_key(&entry.name) {
            if holders.len() >= MAX_NAMES {
                holders.retain(|_, sighting| now.since(sighting.last) < WARN_AFTER);
            }
            if holders.len() >= MAX_NAMES {
                return false;
            }
        }
        let sighting =
            holders.entry(entry.name.clone()).or_insert(Sighting { first: now, last: now, warned: false });
        // A waiter looks again within its ttl, so no waiter was left since then.
        if now.since(sighting.last) > entry.ttl {
            *sighting = Sighting { first: now, last: now, warned: false };
        }
        sighting.last = sighting.last.max(now);
        let should_warn = !sighting.warned && now.since(sighting.first) >= WARN_AFTER;
        sighting.warned |= should_warn;
        should_warn
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
        let (foreign, entry, other) = (ForeignHolders::default(), entry("a"), entry("b"));
        let told: Vec<_> = (0..60).filter(|&second| foreign.record_sighting(&entry, at(second))).collect();
        assert_eq!(told, [3]);
        assert!(!foreign.record_sighting(&other, at(60)));
        assert!(foreign.record_sighting(&other, at(70)), "a waiter that looks seldom has waited, too");
        // There was no waiter in between, so the time starts again.
        let told: Vec<_> = (600..660).filter(|&second| foreign.record_sighting(&entry, at(second))).collect();
        assert_eq!(told, [603]);
    }

    #[test]
    fn very_many_keys_take_no_memory_for_ever() {
        let foreign = ForeignHolders::default();
        for i in 0..10_000 {
            foreign.record_sighting(&entry(&i.to_string()), at(i / 100));
        }
        assert!(foreign.0.lock().len() <= MAX_NAMES);
        assert!(!foreign.record_sighting(&entry("new"), at(1_000)));
        assert!(foreign.record_sighting(&entry("new"), at(1_003)));
    }
}
