//! `renew` in a transaction that has begun.

use lock_core::Lease;

use crate::{
    clock::nanos,
    error::Failure,
    queue::{Queue, Scope},
    transaction::Transaction,
};

/// Extends the lease of a holder. Returns false if the lease has ended, and for a waiter, which looks again instead: a forged
/// message may have made it believe that it was admitted.
///
/// # Errors
/// An error of SQLite.
pub(crate) fn renew(transaction: &mut Transaction<'_>, lease: &Lease) -> Result<bool, Failure> {
    let Lease { entry, token } = lease;
    // PR06: the lease's own end is judged first. PR04: a lease never shrinks.
    let renew = "UPDATE entries SET expires = max(expires, ?4) WHERE name = ?1 AND token = ?2 AND entry = ?3 AND expires > ?5 AND admitted = 1";
    let expires = transaction.now.saturating_add(nanos(entry.ttl));
    let token = token.get().cast_signed();
    let changed = transaction.connection.prepare_cached(renew)?.execute((
        entry.name.as_str(),
        token,
        entry.id.to_string(),
        expires,
        transaction.now,
    ))?;
    Queue::load(transaction, &entry.name, Scope::Head)?.settle(transaction, None)?;
    Ok(changed == 1)
}
