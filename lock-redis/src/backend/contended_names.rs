//! [`ContendedNames`]: for which names scripts are sent at once.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use lock_core::{BootTime, LockName};

/// How many names are remembered at most. Two names in the same place forget each other.
const PLACES: usize = 1024;

/// How long a name counts as contended after somebody was found to wait or to hold: longer than a waiter with the default ttl takes to look
/// again.
const CONTENDED_FOR: Duration = Duration::from_secs(15);

/// A unit of time that makes 32 bits last for eight years.
const TICK_MS: u128 = 64;

/// Names for which somebody waited, or had to, a short while ago.
///
/// A free lock without waiters is created and released by less than the scripts that do all other work. Where that turns out not to be
/// enough, the script follows in a second round trip. So names for which it was not enough just now have their script sent at once. A
/// name that is remembered or forgotten by mistake costs time, and nothing else.
pub(super) struct ContendedNames {
    /// Half of the hash of a name, and when it is forgotten, in ticks.
    places: Box<[AtomicU64]>,
}

impl Default for ContendedNames {
    fn default() -> Self {
        Self { places: (0..PLACES).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl ContendedNames {
    pub(super) fn remember(&self, name: &LockName, now: BootTime) {
        let (place, mark) = self.place(name);
        place.store(mark | u64::from(ticks(now + CONTENDED_FOR)), Ordering::Relaxed);
    }

    pub(super) fn contains(&self, name: &LockName, now: BootTime) -> bool {
        let (place, mark) = self.place(name);
        let kept = place.load(Ordering::Relaxed);
        kept & MARK == mark && ticks(now) < (kept & !MARK) as u32
    }

    fn place(&self, name: &LockName) -> (&AtomicU64, u64) {
        let mut hasher = DefaultHasher::new();
        name.as_str().hash(&mut hasher);
        let hash = hasher.finish();
        (&self.places[hash as usize % PLACES], hash & MARK)
    }
}

const MARK: u64 = 0xFFFF_FFFF_0000_0000;

fn ticks(time: BootTime) -> u32 {
    (time.since(BootTime::new(Duration::ZERO)).as_millis() / TICK_MS) as u32
}

impl fmt::Debug for ContendedNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContendedNames").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> BootTime {
        BootTime::new(Duration::from_millis(ms))
    }

    fn name(name: &str) -> LockName {
        LockName::new(name).unwrap()
    }

    #[test]
    fn a_name_is_contended_for_a_quarter_of_a_minute_and_others_are_not() {
        let names = ContendedNames::default();
        assert!(!names.contains(&name("job"), at(0)));
        names.remember(&name("job"), at(5_000));
        assert!(names.contains(&name("job"), at(5_000)) && names.contains(&name("job"), at(19_900)));
        assert!(!names.contains(&name("job"), at(20_000)));
        assert!(!names.contains(&name("page"), at(5_000)));
        names.remember(&name("job"), at(19_900));
        assert!(names.contains(&name("job"), at(34_800)));
    }
}
