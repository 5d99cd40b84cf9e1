//! What people and tools need from a Redis server.

use std::collections::BTreeSet;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use lock_core::{
    BackendError, BackendErrorKind, Departure, Diagnosis, EntryId, LockName, Operator, QueueRow,
};
use redis::{Cmd, Value};

use crate::{
    Redis,
    backend::text,
    diagnosis,
    error::STORE,
    keys::{self, starting_with},
    reply,
    scripts::{LEAVE, QUEUE},
};

/// How many keys the server looks at before it does something else.
const SCANNED_AT_ONCE: usize = 512;

/// How many queues are asked for at the same time.
const ASKED_AT_ONCE: usize = 64;

#[async_trait]
impl Operator for Redis {
    async fn queue(&self, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        let own = self.keys(name);
        let keys = [own.lock(), own.queue(), own.entries()];
        reply::rows(&self.wire.call(&QUEUE, &keys, &[]).await?)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockName>, BackendError> {
        let locks = [self.prefix(), prefix].concat().into_bytes();
        let queues = keys::queues(self.prefix());
        let mut candidates = BTreeSet::new();
        for start in [locks, queues] {
            self.scan(&starting_with(&start), &mut candidates).await?;
        }
        candidates.retain(|name| name.as_str().starts_with(prefix));
        let candidates: Vec<_> = candidates.into_iter().collect();
        let mut names = Vec::new();
        for some in candidates.chunks(ASKED_AT_ONCE) {
            let live = try_join_all(some.iter().map(|name| self.is_live(name))).await?;
            names.extend(some.iter().zip(live).filter(|(_, live)| *live).map(|(name, _)| name.clone()));
        }
        Ok(names)
    }

    async fn evict(&self, name: &LockName, entry: EntryId) -> Result<Departure, BackendError> {
        let own = self.keys(name);
        let keys = [own.lock(), own.queue(), own.entries()];
        let alarms = self.notifications.eviction_channel().to_vec();
        let args = [text(entry), Vec::new(), self.channel(), Vec::new(), alarms];
        reply::departure(&self.wire.call(&LEAVE, &keys, &args).await?)
    }

    async fn diagnose(&self) -> Result<Diagnosis, BackendError> {
        diagnosis::diagnose(self).await
    }
}

impl Redis {
    /// Collects the names of the locks whose keys match.
    async fn scan(&self, pattern: &[u8], names: &mut BTreeSet<LockName>) -> Result<(), BackendError> {
        let mut cursor = b"0".to_vec();
        loop {
            let mut scan = Cmd::new();
            scan.arg("SCAN").arg(&*cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCANNED_AT_ONCE);
            let answer = self.wire.command(&scan).await?;
            let (next, found) = page(&answer).ok_or_else(|| {
                let message = "SCAN was answered with something else".to_owned();
                BackendError::new(STORE, BackendErrorKind::Protocol, message)
            })?;
            names.extend(found.filter_map(|key| keys::name_of(self.prefix(), key)));
            if next == b"0" {
                return Ok(());
            }
            cursor = next.to_vec();
        }
    }

    /// Whether somebody of ours holds the name or waits for it. Data of others under a name is none of our business here.
    async fn is_live(&self, name: &LockName) -> Result<bool, BackendError> {
        match self.queue(name).await {
            Ok(rows) => Ok(rows.iter().any(|row| row.entry.is_some())),
            Err(error) if *error.kind() == BackendErrorKind::ForeignData => Ok(false),
            Err(error) => Err(error),
        }
    }
}

pub(crate) fn page(answer: &Value) -> Option<(&[u8], impl Iterator<Item = &[u8]>)> {
    let Value::Array(parts) = answer else { return None };
    let [Value::BulkString(cursor), Value::Array(found)] = parts.as_slice() else { return None };
    let keys = found.iter().filter_map(|key| match key {
        Value::BulkString(key) => Some(key.as_slice()),
        _ => None,
    });
    Some((cursor, keys))
}
