//! [`Heartbeat`]: when the next heartbeat is due.

use std::time::Duration;

use lock_core::BootTime;

use super::liveness::Liveness;

/// The heartbeats of a session: one in each period, and more while answers are late, so that each proof counts as soon as possible.
///
/// A proof counts once a write that was sent a tick after its answer is answered (PR28). If answers come immediately, that write is the next
/// heartbeat, a period later. If they take long, an additional heartbeat is sent: waiting for the next period, or for the answer before,
/// would bring the session's deadline nearer by as much. There is never more than one heartbeat in a tick.
#[derive(Debug)]
pub(super) struct Heartbeat {
    tick: Duration,
    period: Duration,
    /// When the last heartbeat was sent.
    last_sent: BootTime,
    /// When the last answered heartbeat was sent.
    answered_sent: BootTime,
    /// When the last answer came.
    last_answer: BootTime,
}

impl Heartbeat {
    /// The heartbeats of a session with this timeout, which was opened by a request sent at `opened`.
    pub(super) fn new(tick: Duration, timeout: Duration, opened: BootTime) -> Self {
        Self {
            tick,
            period: period(tick, timeout),
            last_sent: opened,
            answered_sent: opened,
            last_answer: opened,
        }
    }

    /// Records that a heartbeat was sent.
    pub(super) fn mark_sent(&mut self, now: BootTime) {
        self.last_sent = now;
    }

    /// Records that the heartbeat that was sent at `sent` was answered.
    pub(super) fn mark_answered(&mut self, sent: BootTime, now: BootTime) {
        self.answered_sent = self.answered_sent.max(sent);
        self.last_answer = self.last_answer.max(now);
    }

    /// When the next heartbeat is due. Other writes do not delay it, because clients derive from its age how long the session will live.
    pub(super) fn next_due(&self, liveness: &Liveness) -> BootTime {
        if self.answered_sent >= self.last_sent {
            // An earlier heartbeat would not confirm the last one.
            return (self.last_sent + self.period).max(self.last_answer + self.tick);
        }
        let next = self.last_sent + self.period;
        let confirming = liveness.unconfirmed_by(self.last_sent).map(|(sent, answered)| {
            (answered + self.tick).max(sent + self.period).max(self.last_sent + self.tick)
        });
        confirming.map_or(next, |confirming| next.min(confirming))
    }
}

/// The time between two heartbeats while answers come immediately: a twelfth of the timeout, but at least a tick, because earlier ones do not
/// confirm one another. The proof that counts is up to two periods old, so periods are short.
pub(crate) fn period(tick: Duration, timeout: Duration) -> Duration {
    tick.max(timeout / 12)
}

#[cfg(test)]
mod tests {
    use lock_core::margin;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const fn at(ms: u64) -> BootTime {
        BootTime::new(Duration::from_millis(ms))
    }

    const STEP: usize = 10;

    /// A session in simulated time whose answers are late from some moment on.
    struct Run {
        tick: u64,
        timeout: u64,
        late_from: u64,
        delay: u64,
    }

    impl Run {
        /// The greatest age of the session's base, and the number of heartbeats.
        fn outcome(&self, end: u64) -> (Duration, usize) {
            let (tick, timeout) = (ms(self.tick), ms(self.timeout));
            let (mut heartbeat, mut liveness) =
                (Heartbeat::new(tick, timeout, at(0)), Liveness::new(tick, timeout, at(0)));
            let (mut under_way, mut oldest, mut beats) = (Vec::new(), Duration::ZERO, 0);
            for now in (0..end).step_by(STEP) {
                under_way.retain(|&(sent, answered)| {
                    if answered <= now {
                        liveness.record(at(sent), at(now));
                        heartbeat.mark_answered(at(sent), at(now));
                    }
                    answered > now
                });
                if at(now) >= heartbeat.next_due(&liveness) {
                    heartbeat.mark_sent(at(now));
                    beats += 1;
                    under_way.push((now, now + if now < self.late_from { STEP as u64 } else { self.delay }));
                }
                oldest =
                    oldest.max((at(now) + timeout).since(liveness.end()).saturating_sub(margin(timeout)));
            }
            (oldest, beats)
        }
    }

    #[test]
    fn prompt_answers_take_one_heartbeat_a_period_that_confirms_the_last() {
        for (tick, timeout) in [(200, 1_200), (200, 2_400), (2_000, 32_000)] {
            let period = tick.max(timeout / 12);
            let (oldest, beats) = Run { tick, timeout, late_from: 0, delay: 10 }.outcome(timeout * 10);
            assert!(oldest <= ms(2 * period + 30), "{oldest:?} at {timeout}");
            let wanted = usize::try_from(timeout * 10 / period).unwrap();
            assert!((wanted * 19 / 20..=wanted).contains(&beats), "{beats} at {timeout}");
        }
    }

    /// A proof that was sent a period after another counts once it was answered, a tick has passed, and a heartbeat that was sent right
    /// then was answered as well, from whatever moment on answers are late.
    #[test]
    fn however_late_answers_are_a_proof_counts_as_soon_as_it_can() {
        for (tick, timeout) in [(200, 1_200), (200, 2_400), (200, 3_200)] {
            let period = tick.max(timeout / 12);
            let soonest = |delay| period + period.max(delay + tick) + delay;
            // With longer delays the session ends.
            let delays = (10..).step_by(70).take_while(|&delay| soonest(delay) + tick < timeout * 99 / 100);
            for delay in delays {
                for late_from in (timeout..timeout + 2 * period).step_by(90) {
                    let (oldest, beats) = Run { tick, timeout, late_from, delay }.outcome(timeout * 5);
                    let soonest = soonest(delay);
                    assert!(
                        oldest <= ms(soonest + tick),
                        "{oldest:?}, not {soonest}, at {timeout} with {delay} from {late_from}"
                    );
                    assert!(beats as u64 <= timeout * 5 / tick + 1, "{beats} at {timeout} with {delay}");
                }
            }
        }
    }

    #[test]
    fn promptly_answered_writes_do_not_move_the_next_heartbeat() {
        let (tick, timeout) = (ms(200), ms(2_400));
        let (mut heartbeat, mut liveness) =
            (Heartbeat::new(tick, timeout, at(0)), Liveness::new(tick, timeout, at(0)));
        heartbeat.mark_sent(at(1_000));
        heartbeat.mark_answered(at(1_000), at(1_002));
        for now in (810..1_202).step_by(7) {
            liveness.record(at(now), at(now + 1));
            assert_eq!(heartbeat.next_due(&liveness), at(1_202));
        }
    }
}
