//! [`Guarantees`]: what a store promises, as data.

use std::fmt;

use crate::BackOff;

/// A row of the guarantees table: what holds on a store, and what breaks it.
///
/// Every text is half a sentence for people. `Display` writes the row in Markdown, as `docs/guarantees.md` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarantees {
    /// The store and its topology.
    pub store: &'static str,
    /// Two valid guards never overlap while …
    pub exclusive_while: &'static str,
    /// … and may overlap when …
    pub overlap_when: &'static str,
    /// What the order of tokens survives, and what it does not.
    pub tokens: &'static str,
    /// When a lock is free again after its holder died.
    pub freed_after_death: &'static str,
    /// Who comes next.
    pub fairness: &'static str,
    /// What clients of other libraries can expect on the same name.
    pub foreign_clients: &'static str,
    /// Whether an entry can outlive its own ttl because its lease or session is shared with others: then the keeper
    /// goes on cleaning up until the store confirms it, and otherwise only until the ttl must have ended, also that of a create that arrives
    /// late. Nor can its lease become longer: it waits with the ttl with which it will hold the lock.
    pub shared_leases: bool,
    /// For a store without notifications, neither hints nor alarms: the pauses between two looks of a waiter. They grow with the time
    /// waited, and a lock may stay free for the longest of them while others wait. The option
    /// [`look_again`](crate::AcquireOptions::look_again) and a third of the ttl bound them. `None` where waiters are notified.
    pub polls: Option<BackOff>,
}

impl fmt::Display for Guarantees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            store,
            exclusive_while,
            overlap_when,
            tokens,
            freed_after_death,
            fairness,
            foreign_clients,
            ..
        } = self;
        write!(f, "| **{store}** | {exclusive_while} | {overlap_when} | {tokens} | ")?;
        write!(f, "{freed_after_death} | {fairness} | {foreign_clients} |")
    }
}
