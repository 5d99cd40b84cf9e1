//! The verbs, each in a transaction that has begun.

use lock_core::{
    BackendError, BackendErrorKind, Claim, Departure, Entry, EntryId, FencingToken, Lease, LockName, Step,
    WaitMode, admission,
};
use rusqlite::OptionalExtension;

use crate::{
    error::{Fault, STORE},
    queue::{Part, Queue},
    store::nanos,
    verb::Verb,
};

/// Where an entry stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Admitted {
        token: FencingToken,
    },
    Waiting {
        token: FencingToken,
        ahead: u64,
        holder: Option<String>,
        /// In nanoseconds: how long until somebody's lease ends that is in the way.
        look_again: u64,
    },
    Busy,
    Gone,
}

/// Stands in the queue, or looks again. `closed`: the entry may not be created any more.
///
/// # Errors
/// If the name is in use with another claim, or those of SQLite.
pub(crate) fn enter(
    verb: &mut Verb<'_>,
    entry: &Entry,
    step: Step,
    wait: WaitMode,
    closed: bool,
) -> Result<Look, Fault> {
    loop {
        let mut queue = Queue::load(verb, &entry.name, Part::All)?;
        let place = match (step, queue.find(entry.id)) {
            (Step::Again(token), Some(place)) if queue.rows[place].token == token.get().cast_signed() => {
                place
            }
            (Step::Create, Some(place)) => place,
            (Step::Create, None) if !closed => {
                if let Some(found) = queue.disagrees(entry.claim) {
                    // Who is dead agrees with everybody.
                    if verb.bury_dead(queue.holders())? {
                        continue;
                    }
                    return Err(mismatch(found));
                }
                if wait == WaitMode::Try && !queue.has_room(entry.claim) {
                    if verb.bury_dead(queue.holders())? {
                        continue;
                    }
                    queue.settle(verb, None)?;
                    return Ok(Look::Busy);
                }
                queue.push(verb, entry)?
            }
            _ => {
                queue.settle(verb, None)?;
                return Ok(Look::Gone);
            }
        };
        queue.refresh(verb, place, verb.now.saturating_add(nanos(entry.ttl)))?;
        queue.settle(verb, Some(entry.id))?;
        match look(&queue, place, verb.now) {
            // Before anybody is told to wait: whom for?
            Look::Waiting { .. } if verb.bury_dead(queue.holders())? => {}
            look => return Ok(look),
        }
    }
}

fn look(queue: &Queue, place: usize, now: i64) -> Look {
    let (ahead, me) = (&queue.rows[..place], &queue.rows[place]);
    let token = FencingToken::new(me.token.cast_unsigned());
    if me.admitted {
        return Look::Admitted { token };
    }
    // PR15.
    let blockers =
        admission::blockers(me.claim, ahead.iter().rev().map(|row| row.claim)).unwrap_or(ahead.len());
    let first_end = ahead.iter().rev().take(blockers).map(|row| row.expires).min().unwrap_or(me.expires);
    let look_again = first_end.saturating_sub(now).max(0).unsigned_abs();
    let holder = ahead.first().and_then(|row| row.label.clone());
    Look::Waiting { token, ahead: place as u64, holder, look_again }
}

/// Extends one lease. False if it is over, for good.
///
/// # Errors
/// Those of SQLite.
pub(crate) fn renew(verb: &mut Verb<'_>, lease: &Lease) -> Result<bool, Fault> {
    let Lease { entry, token } = lease;
    // PR06: judged by its own end first. PR04: never shorter.
    let renew = "UPDATE entries SET expires = max(expires, ?4) WHERE name = ?1 AND token = ?2 AND entry = ?3 AND expires > ?5";
    let expires = verb.now.saturating_add(nanos(entry.ttl));
    let token = token.get().cast_signed();
    let changed = verb.connection.prepare_cached(renew)?.execute((
        entry.name.as_str(),
        token,
        entry.id.to_string(),
        expires,
        verb.now,
    ))?;
    Queue::load(verb, &entry.name, Part::Head)?.settle(verb, None)?;
    Ok(changed == 1)
}

/// Leaves the queue, and lets all in who now fit.
///
/// # Errors
/// Those of SQLite.
pub(crate) fn leave(
    verb: &mut Verb<'_>,
    name: &LockName,
    entry: EntryId,
) -> Result<(Departure, Option<i64>), Fault> {
    let found = {
        let mut find = verb
            .connection
            .prepare_cached("SELECT token, expires, member FROM entries WHERE name = ?1 AND entry = ?2")?;
        find.query_row((name.as_str(), entry.to_string()), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        })
        .optional()?
    };
    if let Some((token, ..)) = found {
        let mut delete =
            verb.connection.prepare_cached("DELETE FROM entries WHERE name = ?1 AND token = ?2")?;
        delete.execute((name.as_str(), token))?;
    }
    Queue::load(verb, name, Part::Head)?.settle(verb, None)?;
    Ok(match found {
        Some((_, expires, member)) if expires > verb.now => (Departure::Left, Some(member)),
        _ => (Departure::Absent, None),
    })
}

fn mismatch(found: Claim) -> Fault {
    let (found_kind, found_limit) = (found.kind(), found.limit());
    let kind = BackendErrorKind::ClaimMismatch { found_kind, found_limit };
    Fault::Refused(BackendError::new(STORE, kind, format!("the queue is that of a {found}")))
}
