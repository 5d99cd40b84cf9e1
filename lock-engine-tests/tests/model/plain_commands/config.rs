//! [`Config`]: who takes part, and which rule is left out.

use crate::types::Ticks;

/// A system to explore.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) clients: u8,
    /// How often each client acquires.
    pub(crate) lives: u8,
    pub(crate) ttl: Ticks,
    pub(crate) mutation: Option<Mutation>,
}

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// A create that has set the key is a grant even if there was a queue.
    IgnoresQueue,
    /// Scripts do not look for a holder that has passed the queue.
    KeepsWhoPassed,
    /// The first waiter leaves no token for the holder, and a repeated create takes a newer one.
    RepeatsWithNewerToken,
    /// The first waiter does not mark the value.
    LeavesUnmarked,
    /// A renewal takes a value that has changed for one that is gone.
    ComparesWholeValue,
    /// A leave does not wait until a create on an earlier connection can no longer arrive.
    LeavesWithoutBarrier,
}

impl Config {
    pub(crate) fn new(clients: u8, lives: u8, ttl: Ticks) -> Self {
        Self { clients, lives, ttl, mutation: None }
    }

    pub(super) fn leaves_out(&self, rule: Mutation) -> bool {
        self.mutation == Some(rule)
    }
}
