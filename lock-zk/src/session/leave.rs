//! Taking an entry out of the store.

use std::sync::Arc;

use lock_core::BackendErrorKind as Kind;

use super::{member::Member, pool::Pool, queue::find_own_nodes, reap::confirm_ended, session::Session};
use crate::{
    client::timeout_at,
    error::{Cause, Failure},
};

/// How often a session that is over is asked for in one go. The first finds it, perhaps, and closes it.
const CONFIRM_TRIES: usize = 3;

impl Pool {
    /// Leaves for a member. It is over from here on, whatever the store answers: no answer under way brings it back, and nothing
    /// is created behind it.
    pub(super) async fn remove_entry(&self, member: &Arc<Member>) -> Result<bool, Failure> {
        let (now, limit) = (self.keeper.now(), self.config.command_timeout);
        let (expired, began) = (member.end(now), member.begin_leave(now, limit));
        let session = &member.session;
        if !session.has_ended() {
            let deleted = match began {
                None => self.delete_all(member).await,
                // What broke is asked for once more, in the time that one command may take: who releases does not wait twice as long.
                Some(until) => {
                    let again = timeout_at(&self.keeper, until, self.delete_all(member)).await;
                    again.unwrap_or_else(|| Err(self.too_late()))
                }
            };
            match deleted {
                Ok(was_there) => {
                    self.forget(member);
                    return Ok(was_there && !expired);
                }
                Err(failure) if failure.cause() != Cause::SessionGone => return Err(failure),
                Err(_) => {}
            }
        }
        // Its node goes with the session; a create of it that still is under way finds the session gone. The keeper sees to its end,
        // but may have ended itself.
        let over = timeout_at(&self.keeper, began.unwrap_or(now + limit), self.is_ended(session)).await;
        if over.unwrap_or_else(|| Err(self.too_late()))? {
            self.forget(member);
            return Ok(false);
        }
        let failure = Failure::new(Kind::Unavailable, "the end of a session is not confirmed yet");
        Err(failure.about(&self.config.to_string()))
    }

    /// Whether the ensemble says that a session is over.
    async fn is_ended(&self, session: &Arc<Session>) -> Result<bool, Failure> {
        for _ in 0..CONFIRM_TRIES {
            if *session.end_confirmed.borrow() || confirm_ended(self, session).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn too_late(&self) -> Failure {
        Failure::timed_out("a release", self.config.command_timeout).about(&self.config.to_string())
    }

    /// Deletes a member's node. If a create is in doubt, all that there may be of it: whatever was sent before in a session has been
    /// decided when something that was sent later is answered (PR08).
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

/// Deletes a node of a member, which nobody else ever had or will have. True if it was there.
async fn delete(member: &Member, node: &str) -> Result<bool, Failure> {
    let client = member.session.client()?;
    let deleted = client.delete(&member.sibling_path(node));
    match member.session.write("a release", deleted).await {
        Ok(()) => Ok(true),
        Err(failure) if failure.cause() == Cause::NoNode => Ok(false),
        Err(failure) => Err(failure),
    }
}
