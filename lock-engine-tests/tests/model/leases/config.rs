//! [`Config`]: who takes part, what may go wrong, and which rule is left out.

use lock_core::Claim;

use super::Ticks;

/// A system to explore. Everything that is not bounded here is unbounded: acquisitions, renewals, crashes, lost messages.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The claim of each client, which it acquires again and again.
    pub(crate) claims: Vec<Claim>,
    /// The ttl of each client.
    pub(crate) ttls: Vec<Ticks>,
    pub(crate) clocks: Clocks,
    pub(crate) hints: Hinting,
    pub(crate) purging: Purging,
    /// How many requests and answers can be slow at a time.
    pub(crate) wire: usize,
    /// Whether a request still arrives after its client has stopped waiting for the answer.
    pub(crate) late: bool,
    /// Whether a client asks for the lock again while a departure is still pending.
    pub(crate) hurried: bool,
    /// How many departures can be pending at a time.
    pub(crate) pending_leaves: usize,
    /// How many entries of crashed clients there can be at a time.
    pub(crate) crashes: usize,
    /// Whether clients remember the largest token that was returned before they asked.
    pub(crate) history: bool,
    /// The rule that is left out.
    pub(crate) mutation: Option<Mutation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clocks {
    /// The timing assumption: no clock of a client is slower than the store's.
    True,
    /// Any clock of a client may stand still while time goes by.
    Stopping,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hinting {
    /// Any hint can be lost, without notice.
    Lossy,
    /// Hints are lost only when a subscription breaks, which is then renewed.
    Subscribed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purging {
    /// Every verb removes all entries whose lease has ended.
    Eager,
    /// Only a verb that creates an entry does; for other verbs, dead entries just do not count.
    Lazy,
}

/// A rule that is left out, or a bug that is put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// C2: the counter starts over with an empty queue.
    C02,
    /// C6: a hint that comes while a look is in flight is missed.
    C06,
    /// b01: a deadline is counted from the answer.
    B01,
    /// b05: a leave removes the first entry.
    B05,
    /// A grant is taken although the keeper has given up the place.
    GivenUp,
    /// The network repeats a create that was answered.
    Repeats,
    /// A hint is combined with the lease of an `enter` that was not answered.
    Pr02,
    /// Every `enter` may create, and a hint of any life is believed.
    Pr03,
    /// A late renewal sets the end that was intended when it was sent.
    Pr04,
    /// An entry's own end is not judged first.
    Pr06,
    /// Kind and limit are not compared.
    Pr07,
    /// A leave writes no tombstone for a create that is still in flight.
    Pr08,
    /// Only the leave of a holder admits others.
    Pr11,
    /// An `enter` that finds no holder takes the lock, even if others wait.
    Pr12,
    /// A waiter sleeps until its blocker's lease ends, and not at most for a third of its own.
    Pr13,
    /// No waiter looks again on a new subscription.
    Pr14,
    /// The queue lives as long as the lease that was written last.
    Pr19,
}

impl Config {
    /// Clients with these claims and this ttl, and all faults that can occur with correct clocks.
    pub(crate) fn new(claims: impl Into<Vec<Claim>>, ttl: Ticks) -> Self {
        let claims = claims.into();
        Self {
            ttls: vec![ttl; claims.len()],
            claims,
            clocks: Clocks::True,
            hints: Hinting::Lossy,
            purging: Purging::Eager,
            wire: 1,
            late: true,
            hurried: false,
            pending_leaves: 1,
            crashes: 1,
            history: false,
            mutation: None,
        }
    }

    pub(super) fn leaves_out(&self, rule: Mutation) -> bool {
        self.mutation == Some(rule)
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = u8> + use<> {
        0..self.claims.len() as u8
    }

    pub(super) fn claim(&self, client: u8) -> Claim {
        self.claims[usize::from(client)]
    }

    pub(super) fn ttl(&self, client: u8) -> Ticks {
        self.ttls[usize::from(client)]
    }
}
