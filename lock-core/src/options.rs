//! [`AcquireOptions`]: how long to wait, how long to hold, and what to do when the store is away.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{InputError, MAX_TTL, MIN_TTL, limits};

/// How a lock is waited for and held.
///
/// The defaults suit work of any length: a lease of 30 s that is renewed for as long as the guard lives, and a wait without an end.
///
/// | to | set |
/// |---|---|
/// | give up when the lock stays busy | [`wait`](Self::wait) |
/// | free the lock sooner after a crash | a shorter [`ttl`](Self::ttl) |
/// | keep the lock through longer outages of the store | a longer `ttl` |
/// | take the lock from a holder that is stuck | [`max_hold`](Self::max_hold) |
/// | sit out a store that is away | [`outage`](Self::outage) |
/// | be found in the queue by people | [`label`](Self::label) |
///
/// In files and variables, durations are written as `30s`, `1m 30s` or `250ms`. An option that is left out has its default, and an
/// unknown one is an error.
///
/// ```
/// use std::time::Duration;
/// use lock_core::AcquireOptions;
///
/// let options = AcquireOptions::new().ttl(Duration::from_secs(10)).wait(Duration::from_secs(5)).label("web-1");
/// let same: AcquireOptions = serde_json::from_str(r#"{ "ttl": "10s", "wait": "5s", "label": "web-1" }"#)?;
/// assert_eq!(options, same);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AcquireOptions {
    /// How long the lease lives without being renewed. Default: 30 s; 100 ms to 24 h.
    ///
    /// A crashed holder keeps others waiting for as long as that. An outage of the store costs no lock if it is shorter than about two
    /// thirds of it, because a lease is renewed at a third. It does not bound the work, which may take longer. A store that has no lease so
    /// short grants a longer one, which [`Guard::ttl`](crate::Guard::ttl) shows.
    #[serde(with = "crate::settings::duration")]
    pub ttl: Duration,
    /// How long the place in the queue lives without being refreshed, if that is shorter than [`ttl`](Self::ttl). Default: `ttl`; 100 ms
    /// to 24 h.
    ///
    /// A waiter that was killed is made the holder when its turn comes, and keeps the others waiting for this long, unless the store
    /// notices its end. A short one costs a look at the queue for each third of it, one more request before the lock is granted, which asks
    /// for the lease of `ttl`, and the place when the store is away for longer. Without [`renew`](Self::renew), and where leases are
    /// [shared](crate::Guarantees::shared_leases), it has no effect.
    #[serde(with = "crate::settings::duration::option")]
    pub waiting_ttl: Option<Duration>,
    /// How long to wait for the lock at the most. Default: forever. Zero asks once. Where it ends, the error is
    /// [`Error::WaitTimeout`](crate::Error::WaitTimeout), which names the holders and waiters ahead.
    #[serde(with = "crate::settings::duration::option")]
    pub wait: Option<Duration>,
    /// Whether the keeper renews the lease, at a third of the ttl. Default: yes. Without it the lock ends at its ttl, whatever the holder
    /// does, unless it [extends](crate::Guard::extend) it.
    pub renew: bool,
    /// How long the lock may be held at the most, renewals included. Default: no bound; at least 100 ms. Without it, a holder that hangs is
    /// renewed for as long as its process lives. At its end the lock is lost, and free for others.
    #[serde(with = "crate::settings::duration::option")]
    pub max_hold: Option<Duration>,
    /// What to do when the store is away. Default: [`Outage::Fail`] until the queue was entered, so that a wrong address is an error at
    /// once, and [`Outage::Wait`] from then on, because the place in the queue may still be there. It is about locks: to connect takes a
    /// store that answers.
    pub outage: Option<Outage>,
    /// The pauses between tries while the store is away.
    pub back_off: BackOff,
    /// The least and the most time between two looks at the queue while no hint comes. The defaults suit every store: a hint ends the
    /// pause, and a look is needed only to refresh the lease.
    pub look_again: LookAgain,
    /// A name for people who look at the queue, and in the errors of waiters: at most [`AcquireOptions::MAX_LABEL`] bytes. Default: none.
    /// An [`Identity`](crate::Identity) tells the host and the process, too.
    pub label: Option<String>,
}

/// What to do when the store is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outage {
    /// Return the error. A request that may have been carried out is repeated once before.
    Fail,
    /// Try again, with [`BackOff`], until the store is back or `wait` has passed.
    Wait,
}

/// Pauses that double from `least` to `most`, each shortened by a random part of up to a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BackOff {
    /// The first pause. Default 50 ms; 1 ms to 1 h.
    #[serde(with = "crate::settings::duration")]
    pub least: Duration,
    /// The longest pause. Default 2 s; `least` to 1 h.
    #[serde(with = "crate::settings::duration")]
    pub most: Duration,
}

/// Bounds for the time between two looks at the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LookAgain {
    /// The least. Default 10 ms; 1 ms to 1 h. It bounds the load on a store that has its waiters look again soon. A hint ends the pause at once,
    /// since it may be the hand-off. Each waiter has one request at a time, and one more follows for all hints that came during it.
    #[serde(with = "crate::settings::duration")]
    pub least: Duration,
    /// The most. Default 1 h, so that a third of the ttl decides, which always bounds the pause; a store without notifications has
    /// its waiters look [sooner](crate::Guarantees::polls). `least` to 1 h.
    #[serde(with = "crate::settings::duration")]
    pub most: Duration,
}

const HOUR: Duration = Duration::from_secs(60 * 60);
const LEAST_PAUSE: Duration = Duration::from_millis(1);

/// A stored label, as it is shown to people. One that is longer than [`MAX_LABEL`](AcquireOptions::MAX_LABEL) was not written by this
/// library, and is cut there, between characters, with `…` behind it. Bytes that are not UTF-8 are replaced.
///
/// ```
/// assert_eq!(lock_core::shown_label(b"web-1"), "web-1");
/// assert_eq!(lock_core::shown_label(&[b'x'; 1_000_000]), format!("{}…", "x".repeat(256)));
/// ```
#[must_use]
pub fn shown_label(stored: &[u8]) -> String {
    if stored.len() <= AcquireOptions::MAX_LABEL {
        return String::from_utf8_lossy(stored).into_owned();
    }
    // A character has at most three bytes behind its first one.
    let begins = |at: &usize| stored[*at] & 0b1100_0000 != 0b1000_0000;
    let most = AcquireOptions::MAX_LABEL;
    let cut = (most - 3..=most).rev().find(begins).unwrap_or(most);
    format!("{}…", String::from_utf8_lossy(&stored[..cut]))
}

impl AcquireOptions {
    /// The longest label in bytes.
    pub const MAX_LABEL: usize = limits::MAX_LABEL;

    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`ttl`](Self::ttl).
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets [`waiting_ttl`](Self::waiting_ttl).
    #[must_use]
    pub fn waiting_ttl(mut self, ttl: Duration) -> Self {
        self.waiting_ttl = Some(ttl);
        self
    }

    /// Sets [`wait`](Self::wait).
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets [`renew`](Self::renew).
    #[must_use]
    pub fn renew(mut self, renew: bool) -> Self {
        self.renew = renew;
        self
    }

    /// Sets [`max_hold`](Self::max_hold).
    #[must_use]
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Sets [`outage`](Self::outage).
    #[must_use]
    pub fn outage(mut self, outage: Outage) -> Self {
        self.outage = Some(outage);
        self
    }

    /// Sets [`back_off`](Self::back_off).
    #[must_use]
    pub fn back_off(mut self, least: Duration, most: Duration) -> Self {
        self.back_off = BackOff { least, most };
        self
    }

    /// Sets [`look_again`](Self::look_again).
    #[must_use]
    pub fn look_again(mut self, least: Duration, most: Duration) -> Self {
        self.look_again = LookAgain { least, most };
        self
    }

    /// Sets [`label`](Self::label).
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Checks every option. Every acquisition does that first; a service can do it when it reads its settings, and so refuse them early.
    ///
    /// # Errors
    /// [`InputError`] names the first option that is out of its range, and the range.
    pub fn validate(&self) -> Result<(), InputError> {
        within("ttl", self.ttl, MIN_TTL, MAX_TTL)?;
        if let Some(waiting_ttl) = self.waiting_ttl {
            within("waiting_ttl", waiting_ttl, MIN_TTL, MAX_TTL)?;
        }
        if let Some(max_hold) = self.max_hold {
            within("max_hold", max_hold, MIN_TTL, Duration::MAX)?;
        }
        within("back_off.least", self.back_off.least, LEAST_PAUSE, HOUR)?;
        within("back_off.most", self.back_off.most, self.back_off.least, HOUR)?;
        within("look_again.least", self.look_again.least, LEAST_PAUSE, HOUR)?;
        within("look_again.most", self.look_again.most, self.look_again.least, HOUR)?;
        match &self.label {
            Some(label) if label.len() > Self::MAX_LABEL => Err(InputError::Label { len: label.len() }),
            _ => Ok(()),
        }
    }
}

fn within(option: &'static str, given: Duration, least: Duration, most: Duration) -> Result<(), InputError> {
    if (least..=most).contains(&given) {
        Ok(())
    } else {
        Err(InputError::Duration { option, given, least, most })
    }
}

impl Default for AcquireOptions {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(30),
            waiting_ttl: None,
            wait: None,
            renew: true,
            max_hold: None,
            outage: None,
            back_off: BackOff::default(),
            look_again: LookAgain::default(),
            label: None,
        }
    }
}

impl Default for BackOff {
    fn default() -> Self {
        Self { least: Duration::from_millis(50), most: Duration::from_secs(2) }
    }
}

impl BackOff {
    /// The pause after this number of tries in a row (the first is 1), with `random` bits for the jitter.
    #[must_use]
    pub fn pause(&self, tries: u32, random: u64) -> Duration {
        let doublings = tries.saturating_sub(1).min(31);
        let full = self.least.saturating_mul(1 << doublings).min(self.most);
        // Up to a half less, so that clients which tried together do not come back together.
        let jitter = (full / 2).mul_f64(f64::from((random >> 32) as u32) / f64::from(u32::MAX));
        full.saturating_sub(jitter)
    }
}

impl Default for LookAgain {
    fn default() -> Self {
        Self { least: Duration::from_millis(10), most: HOUR }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_label_that_is_too_long_is_shown_cut_between_characters() {
        let most = AcquireOptions::MAX_LABEL;
        assert_eq!(shown_label("é".repeat(most / 2).as_bytes()), "é".repeat(most / 2));
        for (character, before) in [("x", 0), ("é", 1), ("日", 0), ("日", 2), ("👩", 1), ("👩", 3)] {
            let stored = format!("{}{}", "-".repeat(before), character.repeat(1_000));
            let kept = (most - before) / character.len();
            let cut = format!("{}{}…", "-".repeat(before), character.repeat(kept));
            assert_eq!(shown_label(stored.as_bytes()), cut);
        }
        assert_eq!(shown_label(b"a\xff"), "a\u{fffd}");
        assert_eq!(shown_label(&[0x80; 1_000]).chars().count(), most + 1);
    }

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(AcquireOptions::new().validate(), Ok(()));
    }

    #[test]
    fn an_option_out_of_range_is_named_with_its_range() {
        let error = AcquireOptions::new().ttl(Duration::from_millis(99)).validate().unwrap_err();
        assert_eq!(error.to_string(), "`ttl` cannot be 99ms; use 100ms to 86400s");
        let huge = Duration::MAX;
        for options in [
            AcquireOptions::new().ttl(huge),
            AcquireOptions::new().waiting_ttl(Duration::ZERO),
            AcquireOptions::new().max_hold(Duration::ZERO),
            AcquireOptions::new().back_off(Duration::ZERO, huge),
            AcquireOptions::new().back_off(Duration::from_secs(2), Duration::from_secs(1)),
            AcquireOptions::new().look_again(Duration::ZERO, Duration::from_secs(1)),
            AcquireOptions::new().look_again(Duration::from_secs(1), huge),
        ] {
            assert!(matches!(options.validate(), Err(InputError::Duration { .. })), "{options:?}");
        }
        let label = AcquireOptions::new().label("x".repeat(257));
        assert_eq!(label.validate(), Err(InputError::Label { len: 257 }));
    }

    #[test]
    fn an_unknown_option_and_a_duration_without_a_unit_are_refused() {
        for bad in
            [r#"{ "tll": "10s" }"#, r#"{ "ttl": "10" }"#, r#"{ "ttl": 10 }"#, r#"{ "outage": "maybe" }"#]
        {
            assert!(serde_json::from_str::<AcquireOptions>(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_pause_stays_between_half_of_its_doubling_and_the_most(failures in 0..u32::MAX, random: u64) {
            let back_off = BackOff::default();
            let pause = back_off.pause(failures, random);
            prop_assert!(pause <= back_off.most && pause >= back_off.least / 2);
        }

        #[test]
        fn options_are_read_back_as_they_were_written(ttl in 0..u32::MAX, wait: Option<u32>, renew: bool) {
            let mut options = AcquireOptions::new().ttl(Duration::from_millis(ttl.into())).renew(renew);
            options.wait = wait.map(|ms| Duration::from_millis(ms.into()));
            let text = serde_json::to_string(&options).unwrap();
            prop_assert_eq!(serde_json::from_str::<AcquireOptions>(&text).unwrap(), options);
        }
    }
}
