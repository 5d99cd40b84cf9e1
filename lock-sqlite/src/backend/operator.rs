//! The [`Operator`] of a file: operations for operators and tools.

use async_trait::async_trait;
use lock_core::{BackendError, Departure, Diagnosis, EntryId, LockName, Operator, QueueRow};

use crate::{
    Sqlite,
    backend::leave,
    clock::now,
    diagnosis,
    notify::message::Message,
    queue::{Queue, Scope, lock_name},
    reap::reap_dead,
};

#[async_trait]
impl Operator for Sqlite {
    /// Removes dead processes first, so that an entry that is shown as waiting really waits.
    async fn queue(&self, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        let name = name.clone();
        self.call(move |store, give_up| {
            store.write(give_up, |transaction| {
                let mut queue = Queue::load(transaction, &name, Scope::All)?;
                if reap_dead(transaction, queue.holders())? {
                    queue = Queue::load(transaction, &name, Scope::All)?;
                }
                queue.settle(transaction, None)?;
                Ok(queue.to_queue_rows(transaction.now))
            })
        })
        .await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockName>, BackendError> {
        let prefix = prefix.to_owned();
        self.call(move |store, give_up| {
            store.read(give_up, |connection, _| {
                let select =
                    "SELECT DISTINCT name FROM entries WHERE name >= ?1 AND expires > ?2 ORDER BY name";
                let mut select = connection.prepare_cached(select)?;
                let mut rows = select.query((prefix.as_str(), now()))?;
                let mut names = Vec::new();
                while let Some(row) = rows.next()? {
                    let name: String = row.get(0)?;
                    // In byte order, the names with the prefix come first.
                    if !name.starts_with(&prefix) {
                        break;
                    }
                    names.push(lock_name(&name)?);
                }
                Ok(names)
            })
        })
        .await
    }

    async fn evict(&self, name: &LockName, entry: EntryId) -> Result<Departure, BackendError> {
        let name = name.clone();
        self.call(move |store, give_up| {
            store.write(give_up, |transaction| {
                let (departure, member) = leave::leave(transaction, &name, entry)?;
                transaction.effects.messages.extend(member.map(|member| (member, Message::Evicted(entry))));
                Ok(departure)
            })
        })
        .await
    }

    async fn diagnose(&self) -> Result<Diagnosis, BackendError> {
        self.call(diagnosis::diagnose).await
    }
}
