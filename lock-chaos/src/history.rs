//! [`histories`]: what all clients wrote down, as histories that the checkers of the engine read: one for each name.

use std::{collections::BTreeMap, time::Duration};

use lock_core::{BootTime, Claim, LostReason};
use lock_engine_tests::history::{AcquireMode, Event, EventKind, GiveBack, History, Op};

use crate::{
    excuse::Excuses,
    held::{Held, op},
    record::{Line, What, time},
};

/// What one client wrote down, and when it was killed.
#[derive(Clone, Debug)]
pub(crate) struct ClientLog {
    pub(crate) client: usize,
    pub(crate) lines: Vec<Line>,
    pub(crate) killed: Option<BootTime>,
}

/// When nothing went wrong any more, when everything had ended, and whether entries live as long as a session that they share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) calm: BootTime,
    pub(crate) end: BootTime,
    pub(crate) sessions: bool,
}

/// The history of each name. Names have nothing to do with each other, and the checkers compare all with all. What the store may have ended
/// before its deadline is taken away then, as if by an operator.
pub(crate) fn histories(logs: &[ClientLog], frame: Frame, excuses: &Excuses) -> BTreeMap<String, History> {
    let mut names: BTreeMap<String, Vec<Draft>> = BTreeMap::new();
    let mut of_all = vec![Draft { at: frame.calm, what: Drafted::Other(EventKind::Calm) }];
    for log in logs {
        of_all.extend(stalls(log));
        for (name, draft) in acquisitions(log, excuses) {
            names.entry(name).or_default().push(draft);
        }
    }
    let history = |mut drafts: Vec<Draft>| {
        drafts.extend_from_slice(&of_all);
        build(drafts, frame)
    };
    names.into_iter().map(|(name, drafts)| (name, history(drafts))).collect()
}

/// An acquisition, by its client and its number there.
type Key = (usize, u64);

/// An event in which acquisitions have no numbers yet.
#[derive(Clone, Debug)]
struct Draft {
    at: BootTime,
    what: Drafted,
}

#[derive(Clone, Debug)]
enum Drafted {
    /// Of an acquisition.
    Of(Key, What),
    /// A client was killed, while it held these.
    Crashed(usize, Vec<(Key, BootTime)>),
    Other(EventKind),
}

/// When the client stood still.
fn stalls(log: &ClientLog) -> impl Iterator<Item = Draft> {
    let client = log.client;
    let stall = move |line: &Line| match line.what {
        What::Stalled { from } => Some([
            Draft { at: time(from), what: Drafted::Other(EventKind::Blocked { client }) },
            Draft { at: time(line.at), what: Drafted::Other(EventKind::Unblocked { client }) },
        ]),
        _ => None,
    };
    log.lines.iter().filter_map(stall).flatten()
}

/// What the client did with each name, and that it was killed.
fn acquisitions(log: &ClientLog, excuses: &Excuses) -> Vec<(String, Draft)> {
    let (mut drafts, mut held) = (Vec::new(), Held::default());
    for line in &log.lines {
        let Some(op) = op(&line.what) else { continue };
        if let Some((name, at)) = held.note(op, line) {
            drafts.push((name, Draft { at, what: Drafted::Of((log.client, op), line.what.clone()) }));
        }
    }
    for (name, at, (entry, token)) in held.ended_early(excuses) {
        let Ok(entry) = entry.parse() else { continue };
        drafts.push((name, Draft { at, what: Drafted::Other(EventKind::Evicted { entry, token }) }));
    }
    if let Some(killed) = log.killed {
        // What it has written was before that.
        let at = log.lines.iter().map(|line| time(line.at)).fold(killed, BootTime::max);
        for (name, holds) in held.at_the_end() {
            let holds = holds.into_iter().map(|(op, until)| ((log.client, op), until)).collect();
            drafts.push((name, Draft { at, what: Drafted::Crashed(log.client, holds) }));
        }
    }
    drafts
}

/// Puts the events of a name in order, and numbers its acquisitions.
fn build(mut drafts: Vec<Draft>, frame: Frame) -> History {
    // Those of one client keep their order.
    drafts.sort_by_key(|draft| draft.at);
    let mut ops = BTreeMap::new();
    let numbered = |draft: Draft| Some(Event { at: draft.at, what: number(draft.what, &mut ops)? });
    let mut events: Vec<Event> = drafts.into_iter().filter_map(numbered).collect();
    events.push(Event { at: frame.end, what: EventKind::End });
    History {
        events,
        faultless: false,
        sessions: frame.sessions,
        // The longest fault, and what a lease is prolonged by when another server begins to lead, or a clock is set back.
        late: Duration::from_secs(20),
        swift: Duration::from_secs(2),
    }
}

fn number(what: Drafted, ops: &mut BTreeMap<Key, Op>) -> Option<EventKind> {
    let (key, what) = match what {
        Drafted::Other(what) => return Some(what),
        Drafted::Crashed(client, held) => {
            let held = held.into_iter().filter_map(|(key, until)| Some((*ops.get(&key)?, until)));
            return Some(EventKind::Crashed { client, held: held.collect() });
        }
        Drafted::Of(key, what) => (key, what),
    };
    if let What::Asked { name, claim: (kind, permits, limit), ttl, wait, .. } = what {
        let claim = Claim::from_parts(kind, permits, limit)?;
        let op = Op(ops.len());
        ops.insert(key, op);
        let mode = wait.map_or(AcquireMode::Try, AcquireMode::WaitFor);
        let (client, renew, max_hold) = (key.0, true, None);
        return Some(EventKind::Invoked { op, client, name, claim, ttl, mode, renew, max_hold });
    }
    let op = *ops.get(&key)?;
    match what {
        What::Granted { token, entry, .. } => {
            Some(EventKind::Granted { op, token, entry: entry.parse().ok()? })
        }
        What::Refused { .. } => Some(EventKind::Refused { op }),
        What::TimedOut { .. } => Some(EventKind::TimedOut { op }),
        What::Failed { error, .. } => Some(EventKind::Failed { op, error }),
        What::Lost { gone, until, .. } => {
            let reason = if gone { LostReason::Gone } else { LostReason::Expired };
            Some(EventKind::Lost { op, reason, deadline: time(until) })
        }
        What::Returned { dropped, until, .. } => {
            let way = if dropped { GiveBack::Drop } else { GiveBack::Release };
            Some(EventKind::Returned { op, way, deadline: time(until) })
        }
        What::Released { confirmed, .. } => Some(EventKind::Released { op, confirmed }),
        _ => None,
    }
}
