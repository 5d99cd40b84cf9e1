//! `leave` in a transaction that has begun.

use lock_core::{Departure, EntryId, LockName};

use crate::{
    error::Failure,
    queue::{Queue, Scope},
    transaction::Transaction,
};

/// Leaves the queue, and admits all entries that now fit. Returns the process of the entry, if the entry was there.
///
/// # Errors
/// An error of SQLite.
pub(crate) fn leave(
    transaction: &mut Transaction<'_>,
    name: &LockName,
    entry: EntryId,
) -> Result<(Departure, Option<i64>), Failure> {
    let mut queue = Queue::load(transaction, name, Scope::Head)?;
    let Some(index) = queue.find(transaction, entry)? else {
        queue.settle(transaction, None)?;
        return Ok((Departure::Absent, None));
    };
    let (member, was_next) = (queue.rows[index].member, queue.is_next(index));
    queue.delete(transaction, queue.rows[index].token)?;
    if queue.is_only_entry() {
        return Ok((Departure::Left, Some(member)));
    }
    let mut left = Queue::load(transaction, name, Scope::Head)?;
    if was_next {
        left.mark_moved();
    }
    left.settle(transaction, None)?;
    Ok((Departure::Left, Some(member)))
}
