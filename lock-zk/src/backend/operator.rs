//! The operations for operators and tools.

use std::collections::BTreeSet;

use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};
use lock_core::{
    BackendError, BackendErrorKind as Kind, Departure, Diagnosis, EntryId, LockName, Operator, QueueRow,
    admission,
};
use zookeeper_client::{Error, MultiWriteError};

use super::zookeeper::ZooKeeper;
use crate::{
    diagnosis,
    error::{Cause, Failure},
    keys::entry_node::{read_data, token},
    session::{Session, period},
};

/// How many nodes are read at once.
const AT_ONCE: usize = 500;

#[async_trait]
impl Operator for ZooKeeper {
    async fn queue(&self, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        match self.read_queue(name).await {
            Err(error) if is_disconnected(&error) => self.read_queue(name).await,
            answer => answer,
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockName>, BackendError> {
        match self.read_names(prefix).await {
            Err(error) if is_disconnected(&error) => self.read_names(prefix).await,
            answer => answer,
        }
    }

    async fn evict(&self, name: &LockName, entry: EntryId) -> Result<Departure, BackendError> {
        let lock = self.container(name)?;
        let session = self.sessions.any().await?;
        self.catch_up(&session).await?;
        let queue = self.queue_view(&session, &lock).await?;
        let paths: Vec<_> = queue.nodes_of(entry).map(|node| format!("{lock}/{}", node.name)).collect();
        let evicted = try_join_all(paths.iter().map(|path| self.evict_node(&session, path, entry))).await?;
        Ok(if evicted.contains(&true) { Departure::Left } else { Departure::Absent })
    }

    async fn diagnose(&self) -> Result<Diagnosis, BackendError> {
        diagnosis::diagnose(&self.sessions).await
    }
}

/// Whether the connection broke. Then a request that only reads is repeated once, as the verbs are.
fn is_disconnected(error: &BackendError) -> bool {
    *error.kind() == Kind::Unreachable
}

impl ZooKeeper {
    async fn read_queue(&self, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        let lock = self.container(name)?;
        let session = self.sessions.any().await?;
        self.catch_up(&session).await?;
        let queue = self.queue_view(&session, &lock).await?;
        let client = session.client()?;
        let mut found = Vec::new();
        for nodes in queue.nodes().chunks(AT_ONCE) {
            let paths: Vec<_> = nodes.iter().map(|node| format!("{lock}/{}", node.name)).collect();
            let looks = paths.iter().map(|path| session.answer("a look", client.get_data(path)));
            for (node, looked) in nodes.iter().zip(join_all(looks).await) {
                match looked {
                    Ok((data, stat)) => found.push((node, data, stat)),
                    // The entry has left in the meantime.
                    Err(failure) if failure.cause() == Cause::NoNode => {}
                    Err(failure) => return Err(failure.into()),
                }
            }
        }
        let owners = found.iter().map(|(.., stat)| stat.ephemeral_owner).collect();
        let ages = self.sessions.ages(&session, &owners).await?;
        let tick = self.config.tick;
        let admitted = admission::admitted(found.iter().map(|(node, ..)| node.claim));
        let rows = found.into_iter().enumerate().map(|(i, (node, data, stat))| {
            let known = read_data(&data);
            QueueRow {
                entry: Some(node.entry),
                claim: node.claim,
                admitted: i < admitted,
                token: Some(token(stat.czxid)),
                // An upper bound: the servers may have heard from the session until its next heartbeat is due.
                lease_left: known.as_ref().map(|(timeout, _)| {
                    let age = ages.get(&stat.ephemeral_owner).copied().unwrap_or_default();
                    (*timeout + tick + period(tick, *timeout)).saturating_sub(age)
                }),
                label: known.and_then(|(_, label)| label),
            }
        });
        Ok(rows.collect())
    }

    async fn read_names(&self, prefix: &str) -> Result<Vec<LockName>, BackendError> {
        let keys = self.sessions.keys();
        let session = self.sessions.any().await?;
        self.catch_up(&session).await?;
        let client = session.client()?;
        let folder = keys.locks();
        let containers = match session.answer("a list", client.list_children(&folder)).await {
            Ok(containers) => containers,
            // No lock was taken yet, or the node was deleted.
            Err(failure) if failure.cause() == Cause::NoNode => Vec::new(),
            Err(failure) => return Err(failure.into()),
        };
        let found = containers.iter().filter_map(|container| keys.lock_name(container));
        let sorted: BTreeSet<_> = found.filter(|name| name.as_str().starts_with(prefix)).collect();
        let wanted: Vec<_> = sorted.into_iter().collect();
        let mut locks_in_use = Vec::new();
        for some in wanted.chunks(AT_ONCE) {
            let paths = some.iter().map(|name| self.container(name)).collect::<Result<Vec<_>, _>>()?;
            let looks = paths.iter().map(|path| session.answer("a list", client.list_children(path)));
            for (name, children) in some.iter().zip(join_all(looks).await) {
                match children {
                    Ok(children) if children.iter().any(|child| keys.read_entry(child).is_some()) => {
                        locks_in_use.push(name.clone());
                    }
                    Ok(_) => {}
                    Err(failure) if failure.cause() == Cause::NoNode => {}
                    Err(failure) => return Err(failure.into()),
                }
            }
        }
        Ok(locks_in_use)
    }

    /// Makes the next reads include all writes up to now.
    async fn catch_up(&self, session: &Session) -> Result<(), Failure> {
        let client = session.client()?;
        session.answer("catching up", client.sync(&self.sessions.keys().sessions())).await
    }

    /// Deletes a node and notifies all clients of the eviction of its entry, in one step. Returns whether the node existed.
    async fn evict_node(&self, session: &Session, path: &str, entry: EntryId) -> Result<bool, BackendError> {
        let told = self.sessions.keys().evictions();
        for _ in 0..2 {
            let client = session.answer("an eviction", session.client()?.ready()).await?;
            let evicted = async {
                let mut write = client.new_multi_writer();
                write.add_delete(path, None)?;
                write.add_set_data(&told, entry.to_string().as_bytes(), None)?;
                match write.commit().await {
                    Ok(_) => Ok(Ok(())),
                    Err(MultiWriteError::OperationFailed { index, source: Error::NoNode }) => Ok(Err(index)),
                    Err(
                        MultiWriteError::OperationFailed { source, .. }
                        | MultiWriteError::RequestFailed { source },
                    ) => Err(source),
                }
            };
            match session.answer("an eviction", evicted).await? {
                Ok(()) => return Ok(true),
                Err(0) => return Ok(false),
                // The node that announces evictions was deleted.
                Err(_) => self.sessions.make_base_nodes(session).await?,
            }
        }
        Err(self
            .failure(Kind::Unavailable, "the node that announces evictions is deleted again and again")
            .into())
    }
}
