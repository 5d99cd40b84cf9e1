//! Removes entries from the store.

use std::sync::Arc;

use lock_core::BackendErrorKind as Kind;

use super::{member::Member, pool::Pool, queue::find_own_nodes, reap::confirm_ended, session::Session};
use crate::error::{Cause, Failure};

/// How often one leave asks the ensemble whether a session has ended. If the first question finds it alive, it closes the session.
const CONFIRM_TRIES: usize = 3;

impl Pool {
    /// Removes a member from the store. The member has ended from here on, whatever the store answers: no answer in flight revives it, and
    /// no create is sent after this.
    pub(super) async fn remove_entry(&self, member: &Arc<Member>) -> Result<bool, Failure> {
        let (now, limit) = (self.keeper.now(), self.config.server.command_timeout);
        let (expired, began) = (member.end(now), member.begin_leave(now, limit));
        let session = &member.session;
        if !session.has_ended() {
            let deleted = match began {
                None => self.delete_all(member).await,
                // A second attempt shares the time limit of the first: a release does not take twice as long.
                Some(until) => {
                    let again = self.keeper.timeout_at(until, self.delete_all(member)).await;
                    again.unwrap_or_else(|| Err(self.too_late()))
                }
            };
            match deleted {
                Ok(was_there) => {
                    self.sessions.forget(member);
                    return Ok(was_there && !expired);
                }
                Err(failure) if failure.cause() != Cause::SessionGone => return Err(failure),
                Err(_) => {}
            }
        }
        // The node goes with the session, and a create in flight finds the session gone. The keeper closes the session, but may have
        // ended itself.
        let over = self.keeper.timeout_at(began.unwrap_or(now + limit), self.is_ended(session)).await;
        if over.unwrap_or_else(|| Err(self.too_late()))? {
            self.sessions.forget(member);
            return Ok(false);
        }
        let failure = Failure::new(Kind::Unavailable, "the end of a session is not confirmed yet");
        Err(failure.about(&self.config.to_string()))
    }

    /// Whether the ensemble says that a session has ended.
    async fn is_ended(&self, session: &Arc<Session>) -> Result<bool, Failure> {
        for _ in 0..CONFIRM_TRIES {
            if *session.end_confirmed.borrow() || confirm_ended(self, session).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn too_late(&self) -> Failure {
        Failure::timed_out("a release", self.config.server.command_timeout).about(&self.config.to_string())
    }

    /// Deletes a member's node. If creates are in doubt, deletes all nodes that they may have made: a request of a session is decided before
    /// a later one is answered (PR08).
    async fn delete_all(&self, member: &Member) -> Result<bool, Failure> {
        let doubts = member.unanswered_creates();
        if doubts == 0 {
            return match member.own_node() {
                Some(own_node) => delete(member, &own_node.name).await,
                None => Ok(false),
            };
        }
        let own_nodes = find_own_nodes(&self.keys, member).await?;
        let mut was_there = false;
        for own_node in &own_nodes {
            was_there |= delete(member, &own_node.name).await?;
        }
        member.settle_creates(doubts, None);
        Ok(was_there)
    }
}

/// Deletes a node of a member. No other entry ever has a node of this name. Returns whether the node existed.
async fn delete(member: &Member, node: &str) -> Result<bool, Failure> {
    let client = member.session.client()?;
    let deleted = client.delete(&member.sibling_path(node));
    match member.session.write("a release", deleted).await {
        Ok(()) => Ok(true),
        Err(failure) if failure.cause() == Cause::NoNode => Ok(false),
        Err(failure) => Err(failure),
    }
}
