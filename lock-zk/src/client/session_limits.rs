//! [`SessionLimits`]: the longest session timeout that each server grants.

use std::time::Duration;

use lock_core::sync::{Mutex, MutexGuard};

/// The session timeouts that each server grants, as far as they are known from earlier sessions.
///
/// ### To ensure correctness
/// A server grants no more than its own `maxSessionTimeout`, even to a session that moves to it with a longer timeout. From then on the
/// ensemble uses the shorter timeout, whether or not the answer arrives, while guards rely on the longer one. So a session is attached
/// only to servers that are known to grant its timeout.
#[derive(Debug)]
pub(crate) struct SessionLimits(Mutex<Vec<KnownLimit>>);

#[derive(Clone, Copy, Debug)]
struct KnownLimit {
    /// The server grants at least this, if requested.
    least: Duration,
    /// The server grants at most this.
    most: Duration,
}

impl SessionLimits {
    /// The unknown limits of this many servers.
    pub(crate) fn new(servers: usize) -> Self {
        Self(Mutex::new(vec![KnownLimit { least: Duration::ZERO, most: Duration::MAX }; servers]))
    }

    /// Records that a server was `asked` for a session of this timeout, and granted the `given` one.
    pub(crate) fn record(&self, server: usize, asked: Duration, given: Duration) {
        if let Some(known) = self.lock().get_mut(server) {
            *known = if given < asked {
                KnownLimit { least: given, most: given }
            } else {
                // Its earlier limit may have been raised.
                let most = if known.most < given { Duration::MAX } else { known.most };
                KnownLimit { least: known.least.max(given), most }
            };
        }
    }

    /// Whether a server grants this timeout, if that is known.
    pub(crate) fn grants(&self, server: usize, timeout: Duration) -> Option<bool> {
        let known = *self.lock().get(server)?;
        if timeout <= known.least {
            Some(true)
        } else if timeout > known.most {
            Some(false)
        } else {
            None
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<KnownLimit>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn of_a_server_is_known_what_it_has_shown_and_nothing_of_the_others() {
        let limits = SessionLimits::new(2);
        assert_eq!(limits.grants(0, s(1)), None);
        limits.record(0, s(12), s(12));
        assert_eq!((limits.grants(0, s(12)), limits.grants(0, s(16))), (Some(true), None));
        limits.record(0, s(64), s(40));
        assert_eq!((limits.grants(0, s(40)), limits.grants(0, s(41))), (Some(true), Some(false)));
        assert_eq!((limits.grants(1, s(12)), limits.grants(2, s(12))), (None, None));
    }

    #[test]
    fn a_limit_that_was_lowered_or_raised_is_the_new_one() {
        let limits = SessionLimits::new(1);
        limits.record(0, s(32), s(32));
        limits.record(0, s(32), s(20));
        assert_eq!((limits.grants(0, s(20)), limits.grants(0, s(32))), (Some(true), Some(false)));
        limits.record(0, s(16), s(16));
        assert_eq!(limits.grants(0, s(32)), Some(false), "less says nothing of it");
        limits.record(0, s(32), s(32));
        assert_eq!((limits.grants(0, s(32)), limits.grants(0, s(64))), (Some(true), None));
    }

    /// A server with a `minSessionTimeout` grants no less than that.
    #[test]
    fn a_server_that_gives_more_than_was_asked_for_gives_that_much() {
        let limits = SessionLimits::new(1);
        limits.record(0, s(1), s(4));
        assert_eq!((limits.grants(0, s(4)), limits.grants(0, s(5))), (Some(true), None));
    }
}
