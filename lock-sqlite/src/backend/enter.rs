//! `enter` in a transaction that has begun: take a place in the queue, or look again from it.

use lock_core::{BackendError, BackendErrorKind, Claim, Entry, FencingToken, Hints, Step, WaitMode};

use crate::{
    error::{Failure, STORE},
    queue::{Queue, Scope},
    store::nanos,
    transaction::Transaction,
};

/// Where an entry stands.
pub(crate) enum EntryState {
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
pub(crate) fn enter(
    transaction: &mut Transaction<'_>,
    entry: &Entry,
    step: Step,
    wait: WaitMode,
) -> Result<EntryState, Failure> {
    loop {
        let mut queue = Queue::load(transaction, &entry.name, Scope::Head)?;
        let found = match step {
            Step::Again(token) => queue.find_token(transaction, token.get().cast_signed())?,
            Step::Create => queue.find(transaction, entry.id)?,
        };
        let place = match found {
            Some(place) if queue.rows[place].entry == entry.id => place,
            None if step == Step::Create && !transaction.tombstones.contains(entry.id) => {
                if let Some(found) = queue.conflicting_claim(entry.claim) {
                    // Who is dead agrees with everybody.
                    if transaction.reap_dead(queue.holders())? {
                        continue;
                    }
                    return Err(mismatch(found));
                }
                if wait == WaitMode::Try && !queue.has_room(entry.claim) {
                    if transaction.reap_dead(queue.holders())? {
                        continue;
                    }
                    queue.settle(transaction, None)?;
                    return Ok(EntryState::Busy);
                }
                queue.push(transaction, entry)?
            }
            _ => {
                queue.settle(transaction, None)?;
                return Ok(EntryState::Gone);
            }
        };
        queue.refresh(transaction, place, transaction.now.saturating_add(nanos(entry.ttl)))?;
        queue.settle(transaction, Some(entry.id))?;
        let token = FencingToken::new(queue.rows[place].token.cast_unsigned());
        if queue.rows[place].admitted {
            return Ok(EntryState::Admitted { token });
        }
        // Before anybody is told to wait: whom for?
        if !transaction.reap_dead(queue.holders())? {
            return waits(transaction, &queue, place, entry, token);
        }
    }
}

fn waits(
    transaction: &Transaction<'_>,
    queue: &Queue,
    place: usize,
    entry: &Entry,
    token: FencingToken,
) -> Result<EntryState, Failure> {
    // C6: nobody else can write, and so admit us, before this is committed.
    let hints = transaction.notifier.waiters.listen(entry.id);
    transaction.notifier.waiters.mark_waiting(entry.id, &entry.name, token);
    let ahead = queue.ahead(transaction, place)?;
    let first_expiry = ahead.first_expiry.unwrap_or(queue.rows[place].expires);
    let look_again = first_expiry.saturating_sub(transaction.now).max(0).unsigned_abs();
    let holder = queue.rows.first().filter(|_| place > 0).and_then(|row| row.label.clone());
    Ok(EntryState::Waiting { token, ahead: ahead.number, holder, look_again, hints })
}

fn mismatch(found: Claim) -> Failure {
    let (found_kind, found_limit) = (found.kind(), found.limit());
    let kind = BackendErrorKind::ClaimMismatch { found_kind, found_limit };
    Failure::Refused(BackendError::new(STORE, kind, format!("the queue is that of {found}")))
}
