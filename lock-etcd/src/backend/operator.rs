//! The operations for operators and tools.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use async_trait::async_trait;
use etcd_client::{Compare, CompareOp, GetOptions, KeyValue, Txn, TxnOp};
use futures_util::future::try_join_all;
use lock_core::{BackendError, Departure, Diagnosis, EntryId, LockName, Operator, QueueRow, admission};

use crate::{
    Etcd, diagnosis,
    error::Cause,
    keys::{self, EntryKey, Keys, Range},
    queue::{foreign, token_of},
};

/// How many keys are requested at once. Fewer are requested if these are too large for one answer.
const PAGE: i64 = 1_000;

/// How much later than its reported rest a lease is certainly gone. etcd reports the rest of a lease in whole seconds, rounded down, and
/// revokes the lease up to half a second after its end.
const CERTAINLY_GONE: Duration = Duration::from_secs(2);

#[async_trait]
impl Operator for Etcd {
    async fn queue(&self, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        let keys = Keys::new(&self.config.prefix, name);
        let mut found = Vec::new();
        for kv in self.range(keys.all(), false).await? {
            let known = keys.read_entry(kv.key()).zip(keys::read_value(kv.value()));
            let (key, (entry, label)) = known.ok_or_else(|| self.backend_error(foreign(kv.key())))?;
            found.push(FoundEntry { place: kv.create_revision(), key, entry, label });
        }
        found.sort_by_key(|found| found.place);
        let left = self.leases_left(&found).await?;
        found.retain(|found| left.contains_key(&found.key.lease));
        let admitted = admission::admitted(found.iter().map(|found| found.key.claim));
        let rows = found.into_iter().enumerate().map(|(i, found)| QueueRow {
            entry: Some(found.entry),
            claim: found.key.claim,
            admitted: i < admitted,
            token: Some(token_of(found.place)),
            lease_left: left.get(&found.key.lease).copied(),
            label: found.label,
        });
        Ok(rows.collect())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockName>, BackendError> {
        let found = self.range(keys::starting_with(&self.config.prefix, prefix), true).await?;
        let names: BTreeSet<_> =
            found.iter().filter_map(|kv| keys::name_of(&self.config.prefix, kv.key())).collect();
        Ok(names.into_iter().collect())
    }

    async fn evict(&self, name: &LockName, entry: EntryId) -> Result<Departure, BackendError> {
        let keys = Keys::new(&self.config.prefix, name);
        let found = self.range(keys.all(), false).await?;
        let is_it = |kv: &&KeyValue| keys::read_value(kv.value()).is_some_and(|(found, _)| found == entry);
        let Some(kv) = found.iter().filter(|kv| keys.read_entry(kv.key()).is_some()).find(is_it) else {
            return Ok(Departure::Absent);
        };
        let there = Compare::create_revision(kv.key(), CompareOp::Equal, kv.create_revision());
        // This immediately notifies the client that holds or waits.
        let told = TxnOp::put(keys::evictions(&self.config.prefix), entry.to_string(), None);
        let evict = Txn::new().when([there]).and_then([TxnOp::delete(kv.key(), None), told]);
        let sent = self.client.txn(|| evict.clone()).await;
        // If the request was sent twice, the second one does not find what the first one deleted.
        let evicted = sent.answer?.succeeded() || sent.unanswered;
        Ok(if evicted { Departure::Left } else { Departure::Absent })
    }

    async fn diagnose(&self) -> Result<Diagnosis, BackendError> {
        diagnosis::diagnose(self).await
    }
}

/// An entry that stands in a queue.
struct FoundEntry {
    place: i64,
    key: EntryKey,
    entry: EntryId,
    label: Option<String>,
}

impl Etcd {
    async fn range(&self, (mut from, to): Range, keys_only: bool) -> Result<Vec<KeyValue>, BackendError> {
        let mut found: Vec<KeyValue> = Vec::new();
        let mut rows = PAGE;
        loop {
            let mut options = GetOptions::new().with_range(to.clone()).with_limit(rows);
            if keys_only {
                options = options.with_keys_only();
            }
            let page = self.client.call(|channel| {
                let (mut kv, from, options) = (channel.kv.clone(), from.clone(), options.clone());
                async move { kv.get(from, Some(options)).await }
            });
            let mut page = match page.await {
                Err(failure) if failure.cause() == Cause::TooLarge && rows > 1 => {
                    rows = (rows / 10).max(1);
                    continue;
                }
                page => page?,
            };
            let more = page.more();
            found.extend(page.take_kvs());
            let Some(last) = found.last().filter(|_| more) else { return Ok(found) };
            from = [last.key(), &[0]].concat();
        }
    }

    /// The rest of each lease that exists.
    async fn leases_left(&self, found: &[FoundEntry]) -> Result<BTreeMap<i64, Duration>, BackendError> {
        let leases: BTreeSet<i64> = found.iter().map(|found| found.key.lease).collect();
        let asked = leases.into_iter().map(|lease| async move {
            let asked = self.client.call(|channel| {
                let mut leases = channel.lease.clone();
                async move { leases.time_to_live(lease, None).await }
            });
            asked.await.map(|answer| (lease, answer.ttl()))
        });
        let left = try_join_all(asked).await?.into_iter().filter_map(|(lease, seconds)| {
            // A lease that does not exist has -1.
            let seconds = u64::try_from(seconds).ok()?;
            Some((lease, Duration::from_secs(seconds) + CERTAINLY_GONE))
        });
        Ok(left.collect())
    }
}
