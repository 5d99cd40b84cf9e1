//! One queue of leased entries.

use std::collections::{BTreeMap, HashMap};

use crate::{BootTime, Claim, Departure, Entry, EntryId, FencingToken, QueueRow, admission, shown_label};

/// The live entries of a name, in the order of their tokens, which is the order in which they came.
#[derive(Default)]
pub(super) struct Queue {
    entries: BTreeMap<FencingToken, QueuedEntry>,
    tokens: HashMap<EntryId, FencingToken>,
}

struct QueuedEntry {
    entry: Entry,
    expires: BootTime,
    admitted: bool,
}

impl QueuedEntry {
    /// The label as it is shown to people.
    fn label(&self) -> Option<String> {
        self.entry.label.as_deref().map(|label| shown_label(label.as_bytes()))
    }
}

/// What a verb finds: where its entry stands.
pub(super) enum Outcome {
    Admitted { token: FencingToken },
    Waiting { token: FencingToken, ahead: u64, holder: Option<String>, look_again: BootTime },
    Busy,
    Gone,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A claim of the kind and limit that all entries have.
    pub(super) fn claim(&self) -> Option<Claim> {
        self.entries.values().next().map(|queued| queued.entry.claim)
    }

    pub(super) fn token(&self, id: EntryId) -> Option<FencingToken> {
        self.tokens.get(&id).copied()
    }

    /// Whether this life of the entry is admitted.
    pub(super) fn holds(&self, id: EntryId, token: FencingToken) -> bool {
        self.token(id) == Some(token) && self.entries.get(&token).is_some_and(|queued| queued.admitted)
    }

    pub(super) fn drop_dead(&mut self, now: BootTime) {
        self.entries.retain(|_, queued| {
            let live = queued.expires > now;
            if !live {
                self.tokens.remove(&queued.entry.id);
            }
            live
        });
    }

    /// Whether one more entry would be admitted immediately.
    pub(super) fn has_room(&self, claim: Claim) -> bool {
        let ahead = self.entries.values().map(|queued| u64::from(queued.entry.claim.permits())).sum();
        admission::fits(ahead, claim)
    }

    pub(super) fn push(&mut self, entry: Entry, token: FencingToken, now: BootTime) {
        self.tokens.insert(entry.id, token);
        let expires = now + entry.ttl;
        self.entries.insert(token, QueuedEntry { entry, expires, admitted: false });
    }

    /// Extends a lease, and never shortens it (PR04).
    pub(super) fn refresh(&mut self, id: EntryId, expires: BootTime) {
        if let Some(queued) = self.tokens.get(&id).and_then(|token| self.entries.get_mut(token)) {
            queued.expires = queued.expires.max(expires);
        }
    }

    pub(super) fn remove(&mut self, id: EntryId) -> Departure {
        match self.tokens.remove(&id).and_then(|token| self.entries.remove(&token)) {
            Some(_) => Departure::Left,
            None => Departure::Absent,
        }
    }

    /// Admits all that fit, and returns those that are newly admitted.
    pub(super) fn admit(&mut self) -> Vec<(EntryId, FencingToken)> {
        let admitted = admission::admitted(self.entries.values().map(|queued| queued.entry.claim));
        let new = self.entries.iter_mut().take(admitted).filter(|(_, queued)| !queued.admitted);
        new.map(|(token, queued)| {
            queued.admitted = true;
            (queued.entry.id, *token)
        })
        .collect()
    }

    /// Admits one entry if it fits, without a notification: its request is being answered.
    pub(super) fn admit_quietly(&mut self, id: EntryId) {
        let admitted = admission::admitted(self.entries.values().map(|queued| queued.entry.claim));
        if let Some(queued) = self.entries.values_mut().take(admitted).find(|queued| queued.entry.id == id) {
            queued.admitted = true;
        }
    }

    pub(super) fn look(&self, id: EntryId) -> Outcome {
        let Some((token, me)) = self.tokens.get(&id).and_then(|token| self.entries.get_key_value(token))
        else {
            return Outcome::Gone;
        };
        let token = *token;
        if me.admitted {
            return Outcome::Admitted { token };
        }
        let ahead: Vec<&QueuedEntry> = self.entries.range(..token).map(|(_, queued)| queued).collect();
        let nearest = ahead.iter().rev().map(|queued| queued.entry.claim);
        let blockers = admission::blockers(me.entry.claim, nearest).unwrap_or(ahead.len());
        let look_again = ahead.iter().rev().take(blockers).map(|queued| queued.expires).min();
        let holder = ahead.first().and_then(|queued| queued.label());
        Outcome::Waiting {
            token,
            ahead: ahead.len() as u64,
            holder,
            look_again: look_again.unwrap_or(me.expires),
        }
    }

    pub(super) fn rows(&self, now: BootTime) -> Vec<QueueRow> {
        let queued = |(token, queued): (&FencingToken, &QueuedEntry)| QueueRow {
            entry: Some(queued.entry.id),
            claim: queued.entry.claim,
            admitted: queued.admitted,
            token: Some(*token),
            lease_left: Some(queued.expires.since(now)),
            label: queued.label(),
        };
        self.entries.iter().map(queued).collect()
    }
}
