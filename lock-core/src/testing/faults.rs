//! [`Faults`]: how often and how badly the network of a client fails.

use std::time::Duration;

use super::{RequestFault, SeededEntropy};

/// What the wire between a client and the store is like.
///
/// Set the fields that matter and take the rest from [`Faults::none`] or [`Faults::at`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// How many of 1000 requests, hints and alarms go wrong, 0 to 1000.
    pub per_mille: u32,
    /// The longest way of a request to the store, and of an answer back, that is not late. Whole milliseconds count. Each
    /// way is drawn evenly from zero to this: one of a day is as good as a network that is cut.
    pub latency: Duration,
    /// How late a request, an answer or a hint can be that goes wrong by being late.
    pub late: Duration,
    /// When a client gives up a request that was not answered: the store's time limit for a command.
    pub limit: Duration,
    /// Whether a request can be carried out twice, as where something on the way repeats it.
    pub repeats: bool,
}

impl Faults {
    /// A good wire: 2 ms each way at the most, and nothing goes wrong. Requests are given up after 1 s.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            per_mille: 0,
            latency: Duration::from_millis(2),
            late: Duration::from_secs(5),
            limit: Duration::from_secs(1),
            repeats: true,
        }
    }

    /// A wire on which so many of 1000 requests and hints go wrong; what is late is late by 5 s at the most.
    #[must_use]
    pub const fn at(per_mille: u32) -> Self {
        Self { per_mille, ..Self::none() }
    }

    /// What happens to the next request: what is drawn, or what is chosen instead.
    pub(super) fn fate(
        &self,
        entropy: &SeededEntropy,
        choose: impl FnOnce(RequestFault) -> RequestFault,
    ) -> Fate {
        let (out, back) = (entropy.up_to(self.latency), entropy.up_to(self.latency));
        let fault = choose(self.draw(entropy));
        let good = Fate { fault, arrives: Some(out), again: None, answered: Some(back), end: End::Limit };
        match fault {
            RequestFault::InTime => good,
            RequestFault::RequestLost => Fate { arrives: None, ..good },
            RequestFault::AnswerLost => Fate { answered: None, ..good },
            RequestFault::Repeated => Fate { again: Some(out + entropy.up_to(self.latency)), ..good },
            RequestFault::RepeatedLate => Fate { again: Some(out + entropy.up_to(self.late)), ..good },
            RequestFault::RequestLate => Fate { arrives: Some(entropy.up_to(self.late)), ..good },
            RequestFault::AnswerLate => Fate { answered: Some(entropy.up_to(self.late)), ..good },
            RequestFault::Refused => Fate { arrives: None, end: End::Refused, ..good },
            RequestFault::NotReady => Fate { arrives: None, end: End::NotReady(out + back), ..good },
            RequestFault::Broken => Fate {
                arrives: Some(entropy.up_to(self.late)),
                answered: None,
                end: End::Broken(out),
                ..good
            },
        }
    }

    fn draw(&self, entropy: &SeededEntropy) -> RequestFault {
        if !entropy.chance(self.per_mille) {
            return RequestFault::InTime;
        }
        match entropy.below(9) {
            0 => RequestFault::RequestLost,
            1 => RequestFault::AnswerLost,
            2 | 3 if !self.repeats => RequestFault::InTime,
            2 => RequestFault::Repeated,
            3 => RequestFault::RepeatedLate,
            4 => RequestFault::RequestLate,
            5 => RequestFault::AnswerLate,
            6 => RequestFault::Refused,
            7 => RequestFault::NotReady,
            _ => RequestFault::Broken,
        }
    }

    /// What happens to the next hint: when it comes, once or twice.
    pub(super) fn deliveries(&self, entropy: &SeededEntropy) -> [Option<Duration>; 2] {
        let at_once = Some(Duration::ZERO);
        if !entropy.chance(self.per_mille) {
            return [at_once, None];
        }
        match entropy.below(3) {
            0 => [None, None],
            1 => [Some(entropy.up_to(self.late)), None],
            _ => [at_once, Some(entropy.up_to(self.late))],
        }
    }
}

/// The fate of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    pub(super) fault: RequestFault,
    /// When it reaches the store, counted from the sending, if it does.
    pub(super) arrives: Option<Duration>,
    /// When it reaches the store once more.
    pub(super) again: Option<Duration>,
    /// How long the answer takes on its way back, if it comes.
    pub(super) answered: Option<Duration>,
    /// How it ends for the client if no answer comes.
    pub(super) end: End,
}

/// How a request without an answer ends for its client.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// It is given up at the time limit.
    Limit,
    /// No connection could be made: it never left.
    Refused,
    /// The store says after this time that it is not ready.
    NotReady(Duration),
    /// The connection breaks after this time.
    Broken(Duration),
}
