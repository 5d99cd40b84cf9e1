//! The verbs, each in a transaction that has begun.

use lock_core::{
    BackendError, BackendErrorKind, Claim, Departure, Entry, EntryId, FencingToken, Hints, Lease, LockName,
    Step, WaitMode,
};

use crate::{
    error::{Fault, STORE},
    queue::{Part, Queue},
    store::nanos,
    verb::Verb,
};

/// Where an entry stands.
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
        hints: Hints,
    },
    Busy,
    Gone,
}

/// Stands in the queue, or looks again.
///
/// # Errors
/// If the name is in use with another claim, or those of SQLite.
pub(crate) fn enter(verb: &mut Verb<'_>, entry: &Entry, step: Step, wait: WaitMode) -> Result<Look, Fault> {
    loop {
        let mut queue = Queue::load(verb, &entry.name, Part::Head)?;
        let found = match step {
            Step::Again(token) => queue.find_token(verb, token.get().cast_signed())?,
            Step::Create => queue.find(verb, entry.id)?,
        };
        let place = match found {
            Some(place) if queue.rows[place].entry == entry.id => place,
            None if step == Step::Create && !verb.doors.are_closed_to(entry.id) => {
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
        let token = FencingToken::new(queue.rows[place].token.cast_unsigned());
        if queue.rows[place].admitted {
            return Ok(Look::Admitted { token });
        }
        // Before anybody is told to wait: whom for?
        if !verb.bury_dead(queue.holders())? {
            return waits(verb, &queue, place, entry, token);
        }
    }
}

fn waits(
    verb: &Verb<'_>,
    queue: &Queue,
    place: usize,
    entry: &Entry,
    token: FencingToken,
) -> Result<Look, Fault> {
    // C6: nobody else can write, and so admit us, before this is committed.
    let hints = verb.hall.waiters.listen(entry.id);
    verb.hall.waiters.stands(entry.id, &entry.name, token);
    let ahead = queue.ahead(verb, place)?;
    let first_end = ahead.first_end.unwrap_or(queue.rows[place].expires);
    let look_again = first_end.saturating_sub(verb.now).max(0).unsigned_abs();
    let holder = queue.rows.first().filter(|_| place > 0).and_then(|row| row.label.clone());
    Ok(Look::Waiting { token, ahead: ahead.number, holder, look_again, hints })
}

/// Extends the lease of a holder. False if it is over, for good; and for a waiter, who looks again instead: he may take himself for a
/// holder because somebody told him so who is none of us.
///
/// # Errors
/// Those of SQLite.
pub(crate) fn renew(verb: &mut Verb<'_>, lease: &Lease) -> Result<bool, Fault> {
    let Lease { entry, token } = lease;
    // PR06: judged by its own end first. PR04: never shorter.
    let renew = "UPDATE entries SET expires = max(expires, ?4) WHERE name = ?1 AND token = ?2 AND entry = ?3 AND expires > ?5 AND admitted = 1";
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

/// Leaves the queue, and lets all in who now fit. Says whose entry it was, if it was there.
///
/// # Errors
/// Those of SQLite.
pub(crate) fn leave(
    verb: &mut Verb<'_>,
    name: &LockName,
    entry: EntryId,
) -> Result<(Departure, Option<i64>), Fault> {
    let mut queue = Queue::load(verb, name, Part::Head)?;
    let Some(place) = queue.find(verb, entry)? else {
        queue.settle(verb, None)?;
        return Ok((Departure::Absent, None));
    };
    let (member, was_next) = (queue.rows[place].member, queue.is_next(place));
    queue.delete(verb, queue.rows[place].token)?;
    if queue.is_alone() {
        return Ok((Departure::Left, Some(member)));
    }
    let mut left = Queue::load(verb, name, Part::Head)?;
    if was_next {
        left.moves_on();
    }
    left.settle(verb, None)?;
    Ok((Departure::Left, Some(member)))
}

fn mismatch(found: Claim) -> Fault {
    let (found_kind, found_limit) = (found.kind(), found.limit());
    let kind = BackendErrorKind::ClaimMismatch { found_kind, found_limit };
    Fault::Refused(BackendError::new(STORE, kind, format!("the queue is that of {found}")))
}
