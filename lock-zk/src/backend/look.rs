//! Looking at a queue from a place in it.

use std::sync::Arc;

use futures_util::stream;
use lock_core::{
    BackendError, BackendErrorKind as Kind, BootTime, Entry, FencingToken, Hint, Standing, WaitMode,
};

use super::zookeeper::ZooKeeper;
use crate::{
    queue::{EntriesAhead, QueueView, Snapshot},
    session::{self, Member, OwnNode, Session},
};

impl ZooKeeper {
    /// Looks again from a place that was taken.
    pub(crate) async fn look_again(
        &self,
        entry: &Entry,
        token: FencingToken,
    ) -> Result<Standing, BackendError> {
        let now = self.keeper.now();
        let member = self.sessions.find(entry.id).filter(|member| {
            // Another name under the same id is another entry.
            member.is_alive(now) && member.entry.name == entry.name
        });
        let own_node =
            member.as_ref().and_then(|member| member.own_node()).filter(|own_node| own_node.token == token);
        match member.zip(own_node) {
            Some((member, own_node)) => self.look(&member, own_node, WaitMode::Queue).await,
            None => Ok(Standing::Gone),
        }
    }

    /// What a place that was just taken comes to. It is taken, though one cannot look from it, as when the connection breaks in between:
    /// who comes to wait, waits. Nobody is watched for it, so it is told at once to look again (C6, PR14): that waits for the
    /// connection to be back, and watches.
    pub(super) async fn look_or_wait(
        &self,
        member: &Arc<Member>,
        own_node: OwnNode,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let (sent, token) = (self.keeper.now(), own_node.token);
        match self.look(member, own_node, wait).await {
            Err(error) if wait == WaitMode::Queue && error.is_transient() => {
                tracing::debug!(entry = %member.entry.id, "a place is taken, and cannot be seen: {error}");
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

    /// What a place comes to. Where nobody is known to have left, it is enough that those who keep it out are there: so to wait costs the
    /// same however many do.
    async fn look(
        &self,
        member: &Arc<Member>,
        own_node: OwnNode,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        // Who tries does not come in a crowd, and one that waits has the time.
        let _permit = if wait == WaitMode::Queue { Some(member.session.read_permit().await?) } else { None };
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
                // Somebody left between the look and the watches.
                None => queue = self.queue_view(&member.session, &member.lock).await?,
            }
        }
    }

    /// Everybody in the queue.
    pub(crate) async fn queue_view(&self, session: &Session, lock: &str) -> Result<QueueView, BackendError> {
        session::read_queue(self.sessions.keys(), session, lock).await
    }

    /// Why one that asks for another kind of lock, or has another limit, is refused (PR07).
    pub(super) fn mismatch(&self, ahead: &EntriesAhead<'_>) -> Option<BackendError> {
        let first = ahead.mismatched()?;
        let (found_kind, found_limit) = (first.claim.kind(), first.claim.limit());
        let message = format!("the first in the queue is {}", first.claim);
        Some(self.failure(Kind::ClaimMismatch { found_kind, found_limit }, &message).into())
    }
}

/// What a place comes to that is admitted by an answer to a request that was sent at `sent`.
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
