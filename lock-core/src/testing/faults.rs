//! [`Faults`]: how often and how badly the network of a client fails.

use std::time::Duration;

use super::SeededEntropy;

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

    /// What happens to the next request.
    pub(super) fn fate(&self, entropy: &SeededEntropy) -> Fate {
        let (out, back) = (entropy.up_to(self.latency), entropy.up_to(self.latency));
        let good = Fate { arrives: Some(out), again: None, answered: Some(back), end: End::Limit };
        if !entropy.chance(self.per_mille) {
            return good;
        }
        match entropy.below(9) {
            0 => Fate { arrives: None, ..good },
            1 => Fate { answered: None, ..good },
            2 | 3 if !self.repeats => good,
            2 => Fate { again: Some(out + entropy.up_to(self.latency)), ..good },
            3 => Fate { again: Some(out + entropy.up_to(self.late)), ..good },
            4 => Fate { arrives: Some(entropy.up_to(self.late)), ..good },
            5 => Fate { answered: Some(entropy.up_to(self.late)), ..good },
            6 => Fate { arrives: None, end: End::Refused, ..good },
            7 => Fate { arrives: None, end: End::NotReady(out + back), ..good },
            _ => Fate {
                arrives: Some(entropy.up_to(self.late)),
                answered: None,
                end: End::Broken(out),
                ..good
            },
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
