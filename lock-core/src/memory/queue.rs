//! One queue of leased entries.

use std::collections::{BTreeMap, HashMap};

use crate::{BootTime, Claim, Departure, Entry, EntryId, FencingToken, QueueRow, admission, shown_label};

/// The live entries of a name, in the order of their tokens, which is the order in which they came.
#[derive(Default)]
pub(super) struct Queue {
    rows: BTreeMap<FencingToken, Row>,
    tokens: HashMap<EntryId, FencingToken>,
}

struct Row {
    entry: Entry,
    expires: BootTime,
    admitted: bool,
}

impl Row {
    /// As people are shown it.
    fn label(&self) -> Option<String> {
        self.entry.label.as_deref().map(|label| shown_label(label.as_bytes()))
    }
}

/// Where an entry stands.
pub(super) enum Look {
    Admitted { token: FencingToken },
    Waiting { token: FencingToken, ahead: u64, holder: Option<String>, look_again: BootTime },
    Busy,
    Gone,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What all entries agree about.
    pub(super) fn claim(&self) -> Option<Claim> {
        self.rows.values().next().map(|row| row.entry.claim)
    }

    pub(super) fn token(&self, id: EntryId) -> Option<FencingToken> {
        self.tokens.get(&id).copied()
    }

    /// Whether this life of the entry is admitted.
    pub(super) fn holds(&self, id: EntryId, token: FencingToken) -> bool {
        self.token(id) == Some(token) && self.rows.get(&token).is_some_and(|row| row.admitted)
    }

    pub(super) fn drop_dead(&mut self, now: BootTime) {
        self.rows.retain(|_, row| {
            let live = row.expires > now;
            if !live {
                self.tokens.remove(&row.entry.id);
            }
            live
        });
    }

    /// Whether one more entry would be admitted at once.
    pub(super) fn has_room(&self, claim: Claim) -> bool {
        let ahead = self.rows.values().map(|row| u64::from(row.entry.claim.permits())).sum();
        admission::fits(ahead, claim)
    }

    pub(super) fn push(&mut self, entry: Entry, token: FencingToken, now: BootTime) {
        self.tokens.insert(entry.id, token);
        let expires = now + entry.ttl;
        self.rows.insert(token, Row { entry, expires, admitted: false });
    }

    /// Extends a lease, and never shortens it (PR04).
    pub(super) fn refresh(&mut self, id: EntryId, expires: BootTime) {
        if let Some(row) = self.tokens.get(&id).and_then(|token| self.rows.get_mut(token)) {
            row.expires = row.expires.max(expires);
        }
    }

    pub(super) fn remove(&mut self, id: EntryId) -> Departure {
        match self.tokens.remove(&id).and_then(|token| self.rows.remove(&token)) {
            Some(_) => Departure::Left,
            None => Departure::Absent,
        }
    }

    /// Admits all who fit, and tells who is new among them.
    pub(super) fn admit(&mut self) -> Vec<(EntryId, FencingToken)> {
        let admitted = admission::admitted(self.rows.values().map(|row| row.entry.claim));
        let new = self.rows.iter_mut().take(admitted).filter(|(_, row)| !row.admitted);
        new.map(|(token, row)| {
            row.admitted = true;
            (row.entry.id, *token)
        })
        .collect()
    }

    /// Admits one entry if it fits, without a word: it is being answered.
    pub(super) fn admit_quietly(&mut self, id: EntryId) {
        let admitted = admission::admitted(self.rows.values().map(|row| row.entry.claim));
        if let Some(row) = self.rows.values_mut().take(admitted).find(|row| row.entry.id == id) {
            row.admitted = true;
        }
    }

    pub(super) fn look(&self, id: EntryId) -> Look {
        let Some((token, me)) = self.tokens.get(&id).and_then(|token| self.rows.get_key_value(token)) else {
            return Look::Gone;
        };
        let token = *token;
        if me.admitted {
            return Look::Admitted { token };
        }
        let ahead: Vec<&Row> = self.rows.range(..token).map(|(_, row)| row).collect();
        let nearest = ahead.iter().rev().map(|row| row.entry.claim);
        let blockers = admission::blockers(me.entry.claim, nearest).unwrap_or(ahead.len());
        let look_again = ahead.iter().rev().take(blockers).map(|row| row.expires).min();
        let holder = ahead.first().and_then(|row| row.label());
        Look::Waiting {
            token,
            ahead: ahead.len() as u64,
            holder,
            look_again: look_again.unwrap_or(me.expires),
        }
    }

    pub(super) fn rows(&self, now: BootTime) -> Vec<QueueRow> {
        let row = |(token, row): (&FencingToken, &Row)| QueueRow {
            entry: Some(row.entry.id),
            claim: row.entry.claim,
            admitted: row.admitted,
            token: Some(*token),
            lease_left: Some(row.expires.since(now)),
            label: row.label(),
        };
        self.rows.iter().map(row).collect()
    }
}
