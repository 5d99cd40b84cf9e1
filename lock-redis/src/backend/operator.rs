//! The operations for operators: look at queues, list locks, evict entries.

use std::collections::BTreeSet;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use lock_core::{
    BackendError, BackendErrorKind, Departure, Diagnosis, EntryId, LockName, Operator, QueueRow,
};
use redis::Cmd;

use super::{arguments::text, redis::Redis};
use crate::{
    diagnosis,
    error::STORE,
    keys::{self, Keys, starting_with},
    reply,
    scripts::{LEAVE, PERHAPS_OURS, QUEUE},
};

/// How many keys the server scans before it serves other clients.
const SCAN_COUNT: usize = 512;

/// How many queues are read at the same time.
const MAX_CONCURRENT_QUEUES: usize = 64;

/// The two ways in which locks are stored.
#[derive(Clone, Copy, Debug)]
enum StoredAs {
    /// As a string.
    Mutexes,
    /// As a sorted set. The queues of all locks, mutexes too, are sorted sets.
    Others,
}

impl StoredAs {
    /// The type name for the `TYPE` option of `SCAN`.
    fn redis_type(self) -> &'static str {
        match self {
            Self::Mutexes => "string",
            Self::Others => "zset",
        }
    }

    fn flag(self) -> Vec<u8> {
        match self {
            Self::Mutexes => b"m".to_vec(),
            Self::Others => Vec::new(),
        }
    }

    /// The key whose value shows whether a lock may be ours.
    fn key(self, lock: &Keys) -> Vec<u8> {
        match self {
            Self::Mutexes => lock.lock(),
            Self::Others => lock.entries(),
        }
    }
}

#[async_trait]
impl Operator for Redis {
    async fn queue(&self, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        let own = self.keys(name);
        let keys = [own.lock(), own.queue(), own.entries()];
        reply::rows(&self.client.call(&QUEUE, &keys, &[]).await?, self.client.server())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockName>, BackendError> {
        let locks = starting_with(&[self.prefix(), prefix].concat().into_bytes());
        let mut found = BTreeSet::new();
        self.scan(StoredAs::Mutexes, &locks, &mut found).await?;
        self.scan(StoredAs::Others, &locks, &mut found).await?;
        if !prefix.is_empty() {
            // Queues are found by their own keys.
            self.scan(StoredAs::Others, &starting_with(&keys::queue_prefix(self.prefix())), &mut found)
                .await?;
        }
        found.retain(|name| name.as_str().starts_with(prefix));
        let found: Vec<_> = found.into_iter().collect();
        let mut names = Vec::new();
        for some in found.chunks(MAX_CONCURRENT_QUEUES) {
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
        reply::departure(&self.client.call(&LEAVE, &keys, &args).await?, self.client.server())
    }

    async fn diagnose(&self) -> Result<Diagnosis, BackendError> {
        diagnosis::diagnose(&self.client, &self.config, &self.notifications).await
    }
}

impl Redis {
    /// Collects the names of locks whose keys match. Most keys of a shared server are not locks: a few bytes of each value show that, and
    /// one command reads the bytes of many keys.
    async fn scan(
        &self,
        stored_as: StoredAs,
        pattern: &[u8],
        found: &mut BTreeSet<LockName>,
    ) -> Result<(), BackendError> {
        let mut cursor = b"0".to_vec();
        loop {
            let mut scan = Cmd::new();
            scan.arg("SCAN").arg(&*cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCAN_COUNT);
            let answer = self.client.command(scan.arg("TYPE").arg(stored_as.redis_type())).await?;
            let (next, keys) = reply::scan_page(&answer).ok_or_else(|| {
                let message = format!("{} sent a malformed answer to SCAN", self.client.server());
                BackendError::new(STORE, BackendErrorKind::Protocol, message)
            })?;
            let (queues, locks): (Vec<_>, Vec<_>) =
                keys.partition(|key| key.starts_with(&keys::queue_prefix(self.prefix())));
            let name = |key: &&[u8]| keys::name_of(self.prefix(), key);
            found.extend(queues.iter().filter_map(name));
            found.extend(self.perhaps_ours(stored_as, locks.iter().filter_map(name).collect()).await?);
            if next == b"0" {
                return Ok(());
            }
            cursor = next.to_vec();
        }
    }

    /// Removes the names whose data is certainly not ours.
    async fn perhaps_ours(
        &self,
        stored_as: StoredAs,
        names: Vec<LockName>,
    ) -> Result<Vec<LockName>, BackendError> {
        if names.is_empty() {
            return Ok(names);
        }
        let keys: Vec<_> = names.iter().map(|name| stored_as.key(&self.keys(name))).collect();
        let answer = self.client.call(&PERHAPS_OURS, &keys, &[stored_as.flag()]).await?;
        let ours = reply::perhaps_ours(&answer, names.len(), self.client.server())?;
        Ok(names.into_iter().zip(ours).filter(|(_, ours)| *ours).map(|(name, _)| name).collect())
    }

    /// Whether an entry holds the lock or waits for it. Foreign data under the name does not count.
    async fn is_live(&self, name: &LockName) -> Result<bool, BackendError> {
        match self.queue(name).await {
            Ok(rows) => Ok(rows.iter().any(|row| row.entry.is_some())),
            Err(error) if *error.kind() == BackendErrorKind::ForeignData => Ok(false),
            Err(error) => Err(error),
        }
    }
}
