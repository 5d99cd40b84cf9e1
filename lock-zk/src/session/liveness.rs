//! [`Liveness`]: until when a session is certainly alive.

use std::{collections::VecDeque, time::Duration};

use lock_core::{BootTime, margin};

/// The maximum number of answered writes that are remembered.
const REMEMBERED: usize = 64;

/// What the answered writes of a session prove.
///
/// ### To ensure correctness
/// A write that was carried out shows that the session was alive, but does not extend it. The leader extends a session only when a server
/// answers the leader's ping, every half tick, and names the clients that it has heard from since (PR28). So a request extends the session
/// only through the ping after it. There has been such a ping when a *later* write, sent a whole tick after the answer to the first, was
/// answered as well. The end counts from the sending of the first.
#[derive(Debug)]
pub(super) struct Liveness {
    /// A tick, in which the leader pings its servers twice.
    tick: Duration,
    timeout: Duration,
    /// The session lives at least for its timeout from here.
    base: BootTime,
    /// Answered writes that no later one has confirmed yet: when each was sent, and answered.
    waiting: VecDeque<(BootTime, BootTime)>,
}

impl Liveness {
    /// The liveness of a session that a request sent at `sent` opened or attached to.
    pub(super) fn new(tick: Duration, timeout: Duration, sent: BootTime) -> Self {
        Self { tick, timeout, base: sent, waiting: VecDeque::new() }
    }

    /// Records a write that was sent at `sent` and answered at `answered`. An answer after the end does not revive the session, because
    /// other tasks already know that it has ended.
    pub(super) fn record(&mut self, sent: BootTime, answered: BootTime) {
        if answered >= self.end() {
            return;
        }
        let confirmed = self.waiting.iter().take_while(|(_, before)| *before + self.tick <= sent).count();
        // Answers come in the order of sending. If one does not, the latest sending still counts.
        if let Some((from, _)) = self.waiting.drain(..confirmed).max_by_key(|(from, _)| *from) {
            self.base = self.base.max(from);
        }
        // Of many writes in a short time, the first is confirmed first, and the last determines the next heartbeat.
        if self.waiting.len() == REMEMBERED {
            self.waiting.pop_back();
        }
        if self.waiting.back().is_none_or(|(before, _)| *before <= sent) {
            self.waiting.push_back((sent, answered));
        }
    }

    /// Until when the session certainly lives, less the margin.
    pub(super) fn end(&self) -> BootTime {
        self.base + self.timeout.saturating_sub(margin(self.timeout))
    }

    /// The first answered write that a write sent at `sent` does not confirm: when it was sent, and when answered.
    pub(super) fn unconfirmed_by(&self, sent: BootTime) -> Option<(BootTime, BootTime)> {
        self.waiting.iter().find(|(_, answered)| *answered + self.tick > sent).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(200);
    const TIMEOUT: Duration = Duration::from_secs(2);

    const fn at(ms: u64) -> BootTime {
        BootTime::new(Duration::from_millis(ms))
    }

    fn liveness(sent: BootTime) -> Liveness {
        Liveness::new(TICK, TIMEOUT, sent)
    }

    #[test]
    fn the_last_proof_but_one_counts_and_never_the_last() {
        let mut liveness = liveness(at(1_000));
        liveness.record(at(1_010), at(1_020));
        assert_eq!(liveness.base, at(1_000));
        liveness.record(at(1_220), at(1_230));
        assert_eq!(liveness.base, at(1_010));
        liveness.record(at(1_440), at(1_900));
        assert_eq!(liveness.base, at(1_220));
    }

    #[test]
    fn proofs_in_quick_succession_do_not_confirm_one_another() {
        let mut liveness = liveness(at(0));
        for ms in (10..200).step_by(10) {
            liveness.record(at(ms), at(ms + 5));
        }
        assert_eq!(liveness.base, at(0), "the leader may not have asked in all this time");
        liveness.record(at(219), at(230));
        assert_eq!(liveness.base, at(10), "answered at 15, a tick and more before 219");
        liveness.record(at(400), at(401));
        assert_eq!(liveness.base, at(190));
    }

    #[test]
    fn a_tick_is_counted_from_the_answer_and_not_from_the_sending() {
        let mut liveness = liveness(at(0));
        liveness.record(at(10), at(500));
        liveness.record(at(600), at(601));
        assert_eq!(liveness.base, at(0));
        liveness.record(at(700), at(701));
        assert_eq!(liveness.base, at(10));
    }

    #[test]
    fn however_many_there_are_few_are_remembered_and_the_base_moves_on() {
        let mut liveness = liveness(at(0));
        for ms in 1..10_000 {
            liveness.record(at(ms), at(ms));
            assert!(liveness.waiting.len() <= REMEMBERED);
            assert!(at(ms).since(liveness.base) <= TICK * 2 + Duration::from_millis(2), "at {ms}");
        }
    }

    #[test]
    fn what_is_answered_after_the_end_proves_nothing() {
        let mut in_time = liveness(at(0));
        in_time.record(at(10), at(20));
        in_time.record(at(300), at(1_979));
        assert_eq!((in_time.base, in_time.end()), (at(10), at(1_990)));
        let mut late = liveness(at(0));
        late.record(at(10), at(20));
        late.record(at(300), at(1_980));
        assert_eq!((late.base, late.end()), (at(0), at(1_980)), "a hundredth less than the timeout");
    }
}
