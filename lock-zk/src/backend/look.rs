//! Looking at a queue on behalf of an entry in it.

use std::sync::Arc;

use futures_util::stream;
use lock_core::{
    BackendError, BackendErrorKind as Kind, BootTime, Entry, FencingToken, Hint, Standing, WaitMode, isolate,
};

use super::zookeeper::ZooKeeper;
use crate::{
    queue::{EntriesAhead, QueueView, Snapshot},
    session::{self, Member, OwnNode, Session},
};

impl ZooKeeper {
    /// Looks again for an entry whose node was created.
    pub(crate) async fn look_again(
        &self,
        entry: &Entry,
        token: FencingToken,
    ) -> Result<Standing, BackendError> {
        let now = self.keeper.now();
        let member = self.sessions.find(entry.id).filter(|member| {
            // The same id under another name is another entry.
            member.is_alive(now) && member.entry.name == entry.name
        });
        let own_node =
            member.as_ref().and_then(|member| member.own_node()).filter(|own_node| own_node.token == token);
        match member.zip(own_node) {
            Some((member, own_node)) => self.look(&member, own_node, WaitMode::Queue).await,
            None => Ok(Standing::Gone),
        }
    }

    /// The standing of an entry whose node was just created. If the look fails, for example because the connection breaks in between, an
    /// entry that wants to wait is waiting nevertheless. It has no watches, so it gets a hint at once (C6, PR14); the next look waits for
    /// a connection and sets watches.
    pub(super) async fn look_or_wait(
        &self,
        member: &Arc<Member>,
        own_node: OwnNode,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let (sent, token) = (self.keeper.now(), own_node.token);
        match self.look(member, own_node, wait).await {
            Err(error) if wait == WaitMode::Queue && error.is_transient() => {
                isolate(|| {
                    tracing::debug!(entry = %member.entry.id, "a place is taken, and cannot be seen: {error}");
                });
                Ok(Standing::Waiting {
                    token,
                    ttl: member.session.granted(),
                    valid_until: member.session.valid_until(sent, member.entry.ttl),
                    ahead: 0,
                    holder: None,
                    look_again: self.keeper.now(),
                    hints: Box::pin(stream::iter([Hint::Changed])),
                })
            }
            answer => answer,
        }
    }

    /// The standing of an entry.
    async fn look(
        &self,
        member: &Arc<Member>,
        own_node: OwnNode,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        // A `Try` does not need a permit, because tries do not come all at once. A waiter has time for one.
        if wait == WaitMode::Try {
            return self.look_now(member, own_node, wait).await;
        }
        let session = &member.session;
        // Nobody waits for a connection with a permit: others would go without one.
        session.answer("a look", session.client()?.ready()).await?;
        let permit = session.read_permit().await?;
        let standing = self.look_now(member, own_node, wait).await;
        if standing.is_ok() {
            permit.mark_answered(self.keeper.now());
        }
        standing
    }

    /// If its snapshot is unchanged, it is enough to look at the watched entries, so the cost of waiting does not grow with the length of
    /// the queue.
    async fn look_now(
        &self,
        member: &Arc<Member>,
        own_node: OwnNode,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let sent = self.keeper.now();
        if wait == WaitMode::Queue
            && let Some(snapshot) = member.snapshot(&own_node)
        {
            if let Some(standing) = self.wait_behind(member, &own_node, snapshot, sent).await? {
                return Ok(standing);
            }
            member.set_snapshot(None);
        }
        let mut queue = self.queue_view(&member.session, &member.lock).await?;
        loop {
            let Some(ahead) = queue.ahead_of(member.entry.id, member.entry.claim) else {
                self.sessions.mark_gone(member);
                return Ok(Standing::Gone);
            };
            if !member.is_checked() {
                if let Some(mismatched) = self.mismatch(&ahead) {
                    self.sessions.remove_entry(member).await?;
                    return Err(mismatched);
                }
                member.mark_accepted();
            }
            if ahead.admits() {
                return Ok(admitted(member, &own_node, sent, self.keeper.now()));
            }
            if wait == WaitMode::Try {
                self.sessions.remove_entry(member).await?;
                return Ok(Standing::Busy);
            }
            let snapshot = Snapshot::new(own_node.token, &ahead, member.entry.claim);
            match self.wait_behind(member, &own_node, snapshot, sent).await? {
                Some(standing) => return Ok(standing),
                // An entry left between the look and the watches.
                None => queue = self.queue_view(&member.session, &member.lock).await?,
            }
        }
    }

    /// The entries of a queue.
    pub(crate) async fn queue_view(&self, session: &Session, lock: &str) -> Result<QueueView, BackendError> {
        session::read_queue(self.sessions.keys(), session, lock).await
    }

    /// The refusal of an entry whose kind of lock or limit differs from that of the first entry (PR07).
    pub(super) fn mismatch(&self, ahead: &EntriesAhead<'_>) -> Option<BackendError> {
        let first = ahead.mismatched()?;
        let (found_kind, found_limit) = (first.claim.kind(), first.claim.limit());
        let message = format!("the first in the queue is {}", first.claim);
        Some(self.failure(Kind::ClaimMismatch { found_kind, found_limit }, &message).into())
    }
}

/// The standing of an entry that is admitted according to the answer to a request that was sent at `sent`.
pub(super) fn admitted(member: &Member, own_node: &OwnNode, sent: BootTime, now: BootTime) -> Standing {
    if !member.refresh(sent) || !member.session.is_alive(now) {
        return Standing::Gone;
    }
    member.mark_admitted();
    Standing::Admitted {
        token: own_node.token,
        ttl: member.session.granted(),
        valid_until: member.session.valid_until(sent, member.entry.ttl),
    }
}
