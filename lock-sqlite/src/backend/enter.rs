//! `enter` in a transaction that has begun: take a place in the queue, or look again from it.

use lock_core::{
    BackendError, BackendErrorKind, Claim, Clock, Entry, FencingToken, Hints, Step, SystemClock, WaitMode,
};

use crate::{
    clock::nanos,
    error::{Failure, STORE},
    queue::{Queue, Scope},
    reap::reap_dead,
    transaction::Transaction,
};

/// The state of an entry after `enter`.
pub(crate) enum EntryState {
    Admitted {
        token: FencingToken,
    },
    Waiting {
        token: FencingToken,
        ahead: u64,
        holder: Option<String>,
        /// In nanoseconds: how long until a lease ends that blocks the entry.
        look_again: u64,
        hints: Hints,
    },
    Busy,
    Gone,
}

/// Takes a place in the queue, or looks again from it.
///
/// # Errors
/// If the name is in use with another claim, or an error of SQLite.
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
        let index = match found {
            Some(index) if queue.rows[index].entry == entry.id => index,
            None if step == Step::Create && !transaction.tombstones.contains(entry.id, SystemClock.now()) => {
                if let Some(found) = queue.conflicting_claim(entry.claim) {
                    // A dead holder cannot conflict.
                    if reap_dead(transaction, queue.holders())? {
                        continue;
                    }
                    return Err(mismatch(found));
                }
                if wait == WaitMode::Try && !queue.has_room(entry.claim) {
                    if reap_dead(transaction, queue.holders())? {
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
        queue.refresh(transaction, index, transaction.now.saturating_add(nanos(entry.ttl)))?;
        queue.settle(transaction, Some(entry.id))?;
        let token = FencingToken::new(queue.rows[index].token.cast_unsigned());
        if queue.rows[index].admitted {
            return Ok(EntryState::Admitted { token });
        }
        // No entry waits for a dead holder.
        if !reap_dead(transaction, queue.holders())? {
            return waits(transaction, &queue, index, entry, token);
        }
    }
}

fn waits(
    transaction: &Transaction<'_>,
    queue: &Queue,
    index: usize,
    entry: &Entry,
    token: FencingToken,
) -> Result<EntryState, Failure> {
    // C6: no other process can write until this is committed, so none can admit the entry before it listens.
    let hints = transaction.notifier.waiters.listen(entry.id);
    transaction.notifier.waiters.mark_waiting(entry.id, &entry.name, token);
    let ahead = queue.ahead(transaction, index)?;
    let first_expiry = ahead.first_expiry.unwrap_or(queue.rows[index].expires);
    let look_again = first_expiry.saturating_sub(transaction.now).max(0).unsigned_abs();
    let holder = queue.rows.first().filter(|_| index > 0).and_then(|row| row.label.clone());
    Ok(EntryState::Waiting { token, ahead: ahead.number, holder, look_again, hints })
}

fn mismatch(found: Claim) -> Failure {
    let (found_kind, found_limit) = (found.kind(), found.limit());
    let kind = BackendErrorKind::ClaimMismatch { found_kind, found_limit };
    Failure::Refused(BackendError::new(STORE, kind, format!("the queue is that of {found}")))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use lock_core::{EntryId, LockName, admission};

    use super::*;
    use crate::{files::Files, notify::notifier::Notifier, store::Store};

    /// The counts that SQL gives for an entry far behind agree with the rule applied to the whole queue, in which some entries are dead.
    #[test]
    fn an_entry_far_behind_is_told_the_same_as_from_the_whole_queue() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(Some(&folder.path().join("locks.db"))).unwrap();
        let give_up = Instant::now() + Duration::from_secs(10);
        let mut store = Store::new(files, Notifier::default(), Duration::from_secs(10));
        let (r, w) = (Claim::reader(), Claim::writer());
        let s = |permits| Claim::semaphore(permits, 3).unwrap();
        for (number, claims) in [
            vec![Claim::mutex(); 9],
            vec![r, r, w, r, r, w, r, r, r, r],
            vec![w, w, r, r, r, w, r],
            vec![s(1), s(1), s(2), s(1), s(3), s(1), s(1), s(1), s(2), s(1)],
        ]
        .into_iter()
        .enumerate()
        {
            for dead in 0..claims.len() {
                let name = LockName::new(format!("{number}/{dead}")).unwrap();
                store.write(give_up, |transaction| look_at(transaction, &name, &claims, dead)).unwrap();
            }
        }
    }

    fn look_at(
        transaction: &mut Transaction<'_>,
        name: &LockName,
        claims: &[Claim],
        dead: usize,
    ) -> Result<(), Failure> {
        let mut queue = Queue::load(transaction, name, Scope::All)?;
        let ids = || (1..).map(EntryId::new);
        for ((id, claim), number) in ids().zip(claims).zip(1..) {
            let index =
                queue.push(transaction, &Entry::new(name.clone(), id, *claim, Duration::from_secs(60)))?;
            // The ends are in another order than the queue.
            let expires = transaction.now + 1 + number * 7 % 11;
            let set = "UPDATE entries SET expires = ?3 WHERE name = ?1 AND token = ?2";
            transaction.connection.execute(set, (name.as_str(), queue.rows[index].token, expires))?;
        }
        let over = "UPDATE entries SET expires = ?3 WHERE name = ?1 AND token = ?2";
        transaction.connection.execute(over, (name.as_str(), queue.rows[dead].token, transaction.now))?;
        let mut told = Vec::new();
        for (id, row) in ids().zip(&queue.rows) {
            let (mut by_id, mut by_token) =
                (Queue::load(transaction, name, Scope::Head)?, Queue::load(transaction, name, Scope::Head)?);
            let found = by_id.find(transaction, id)?;
            assert_eq!(found.is_some(), by_token.find_token(transaction, row.token)?.is_some());
            if let Some(index) = found {
                let ahead = by_id.ahead(transaction, index)?;
                told.push((FencingToken::new(row.token.cast_unsigned()), ahead.number, ahead.first_expiry));
            }
        }
        let whole = Queue::load(transaction, name, Scope::All)?.rows;
        let expected: Vec<_> = (0..whole.len())
            .map(|index| {
                let ahead = &whole[..index];
                let nearest = ahead.iter().rev().map(|row| row.claim);
                let blockers = admission::blockers(whole[index].claim, nearest).unwrap_or(index);
                let first_expiry = ahead.iter().rev().take(blockers).map(|row| row.expires).min();
                (FencingToken::new(whole[index].token.cast_unsigned()), index as u64, first_expiry)
            })
            .collect();
        assert_eq!(told, expected, "{claims:?}, of which {dead} is dead");
        Ok(())
    }

    /// A user who may write to the file has put more rows into it than can be read within the shortest time limit for a command.
    #[test]
    fn a_verb_on_a_huge_queue_ends_when_its_time_is_over() {
        const READERS: &str =
            "WITH RECURSIVE numbers(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM numbers LIMIT 300000)
            INSERT INTO entries SELECT 'job', x, printf('%032x', x), ?1, ?2, ?3, ?4, 1, 0, NULL FROM numbers";
        const PATIENCE: Duration = Duration::from_secs(60);
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(Some(&folder.path().join("locks.db"))).unwrap();
        let mut store = Store::new(files, Notifier::default(), PATIENCE);
        let claim = Claim::reader();
        let written = store.write(Instant::now() + PATIENCE, |transaction| {
            let values = (claim.kind().word(), claim.permits(), claim.limit(), i64::MAX);
            Ok(transaction.connection.execute(READERS, values)?)
        });
        assert_eq!(written.unwrap(), 300_000);

        let name = LockName::new("job").unwrap();
        let entry = Entry::new(name, EntryId::new(u128::MAX), claim, Duration::from_secs(30));
        let enters = |transaction: &mut Transaction<'_>| {
            enter(transaction, &entry, Step::Create, WaitMode::Queue).map(|_| ())
        };
        let error = store.write(Instant::now() + Duration::from_millis(10), enters).unwrap_err();
        assert_eq!(*error.kind(), BackendErrorKind::TimedOut, "{error}");
        assert!(error.to_string().contains("it took as long as a command may take"), "{error}");

        let left = store.write(Instant::now() + PATIENCE, |transaction| {
            let count = "SELECT count(*) FROM entries";
            Ok(transaction.connection.query_row(count, [], |row| row.get::<_, i64>(0))?)
        });
        assert_eq!(left.unwrap(), 300_000, "others can write, and nothing of it was done");
    }
}
