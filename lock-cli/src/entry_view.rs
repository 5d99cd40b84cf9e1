//! [`EntryView`]: an entry of a queue, for people and as JSON.

use distlock::{Claim, Identity, Kind, QueueRow, escape_unprintable};
use serde::Serialize;

use crate::render;

/// A holder or a waiter.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EntryView {
    pub(crate) state: EntryState,
    /// Its place among the waiters: 1 is next.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<usize>,
    label: Option<String>,
    host: Option<String>,
    pid: Option<u32>,
    /// Text, because JSON loses bits of numbers past 2^53.
    pub(crate) token: Option<String>,
    age_seconds: Option<u64>,
    lease_left_ms: Option<u64>,
    /// `None` for a writer.
    permits: Option<u32>,
    pub(crate) entry: Option<String>,
    #[serde(skip)]
    identity: Identity,
    #[serde(skip)]
    claim: Claim,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EntryState {
    Holding,
    Waiting,
}

/// The entries of a queue, with their places.
pub(crate) fn entry_views(queue: &[QueueRow]) -> Vec<EntryView> {
    let mut waiting = 0;
    let row = |row: &QueueRow| {
        waiting += usize::from(!row.admitted);
        let identity = row.label.as_deref().map(Identity::read).unwrap_or_default();
        EntryView {
            state: if row.admitted { EntryState::Holding } else { EntryState::Waiting },
            place: (!row.admitted).then_some(waiting),
            label: identity.label.clone(),
            host: identity.host.clone(),
            pid: identity.pid,
            token: row.token.map(|token| token.to_string()),
            age_seconds: identity.age().map(|age| age.as_secs()),
            lease_left_ms: row.lease_left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            permits: (!is_writer(row.claim)).then(|| row.claim.permits()),
            entry: row.entry.map(|entry| entry.to_string()),
            identity,
            claim: row.claim,
        }
    };
    queue.iter().map(row).collect()
}

impl EntryView {
    /// The holder or waiter, in a sentence.
    pub(crate) fn who(&self) -> String {
        if self.entry.is_none() {
            return "a client of another library".to_owned();
        }
        escape_unprintable(&sentence(&self.identity))
    }

    fn cells(&self) -> Vec<String> {
        let or_dash =
            |cell: Option<String>| cell.filter(|cell| !cell.is_empty()).unwrap_or_else(|| "-".to_owned());
        let ends_not = || if self.entry.is_none() { "forever".to_owned() } else { "-".to_owned() };
        let left = self.lease_left_ms.map(std::time::Duration::from_millis);
        vec![
            self.place.map_or_else(|| "holds".to_owned(), |place| format!("waits {place}")),
            or_dash(self.label.as_deref().map(escape_unprintable)),
            or_dash(self.host.as_deref().map(escape_unprintable)),
            or_dash(self.pid.map(|pid| pid.to_string())),
            side(self.claim),
            or_dash(self.token.clone()),
            or_dash(self.identity.age().map(render::duration)),
            left.map_or_else(ends_not, render::duration),
            or_dash(self.entry.clone()),
        ]
    }
}

/// A table of the entries, with a head.
pub(crate) fn entry_table(rows: &[EntryView]) -> String {
    let head = ["", "LABEL", "HOST", "PID", "ASKS FOR", "TOKEN", "AGE", "LEASE LEFT", "ENTRY"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(EntryView::cells));
    render::table(&lines)
}

/// As in `nightly (web-1, pid 4242)`.
fn sentence(identity: &Identity) -> String {
    let place = match (&identity.host, identity.pid) {
        (Some(host), Some(pid)) => format!("{host}, pid {pid}"),
        _ => String::new(),
    };
    match (identity.label.as_deref(), place.is_empty()) {
        (Some(label), true) => label.to_owned(),
        (Some(label), false) => format!("{label} ({place})"),
        (None, true) => "a client without a label".to_owned(),
        (None, false) => place,
    }
}

/// What an entry asks for, in a queue whose kind is known.
fn side(claim: Claim) -> String {
    match claim.kind() {
        Kind::Mutex => "all".to_owned(),
        Kind::RwLock if is_writer(claim) => "exclusive".to_owned(),
        Kind::RwLock => "shared".to_owned(),
        Kind::Semaphore => format!("{} of {}", claim.permits(), claim.limit()),
    }
}

fn is_writer(claim: Claim) -> bool {
    claim.kind() == Kind::RwLock && claim.permits() == claim.limit()
}
