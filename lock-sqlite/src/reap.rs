//! Removes dead processes, with all their entries.

use lock_core::LockName;

use crate::{
    error::Failure,
    queue::{Queue, Scope, lock_name},
    transaction::Transaction,
};

/// A check of one process takes as long as reading this many rows.
const A_LOOK: usize = 8;

/// Removes the dead ones among these processes. Returns whether there were any.
///
/// # Errors
/// An error of SQLite, or that a caller has no time for this.
pub(crate) fn reap_dead(
    transaction: &mut Transaction<'_>,
    members: impl IntoIterator<Item = i64>,
) -> Result<bool, Failure> {
    let (me, mut any) = (transaction.me, false);
    for (looked, id) in members.into_iter().filter(|id| *id != me).enumerate() {
        transaction.has_time_for(looked * A_LOOK)?;
        if transaction.is_dead(id)? {
            transaction.has_time_for_more()?;
            reap(transaction, id)?;
            any = true;
        }
    }
    Ok(any)
}

/// Removes a process, and all its entries.
///
/// # Errors
/// An error of SQLite.
pub(crate) fn reap(transaction: &mut Transaction<'_>, member: i64) -> Result<(), Failure> {
    let names: Vec<LockName> = {
        let mut find =
            transaction.connection.prepare_cached("SELECT DISTINCT name FROM entries WHERE member = ?1")?;
        let names = find.query_map([member], |row| row.get::<_, String>(0))?;
        names.map(|name| lock_name(&name?)).collect::<Result<_, _>>()?
    };
    if !names.is_empty() {
        transaction.connection.prepare_cached("DELETE FROM entries WHERE member = ?1")?.execute([member])?;
    }
    transaction.connection.prepare_cached("DELETE FROM members WHERE id = ?1")?.execute([member])?;
    for name in names {
        let mut queue = Queue::load(transaction, &name, Scope::Head)?;
        queue.mark_moved();
        queue.settle(transaction, None)?;
    }
    transaction.effects.reaped.push(member);
    Ok(())
}
