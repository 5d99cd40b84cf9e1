//! Taking an entry out of the store.
//!
//! Its key will be another entry's next, and a delete may come late: behind one that was sent again, or long after its
//! sender was told that it took too long. So no other entry gets the key before every request that may delete it was
//! answered, or cannot do so any more. Where that is never known, no entry gets it as long as the session lives.

use std::sync::Arc;

use etcd_client::{Compare, CompareOp, KeyValue, PutOptions, ResponseHeader, Txn, TxnOp, TxnOpResponse};
use lock_core::BackendErrorKind as Kind;

use super::{member::Member, pool::Pool, revoke::revoke, session::Session};
use crate::{
    client::Client,
    error::{Cause, Failure, misunderstood},
};

impl Pool {
    /// Leaves the queue for a member, which is over from here on, whatever the store answers: no answer under way brings it back.
    pub(super) async fn remove_entry(&self, member: &Arc<Member>, in_doubt: bool) -> Result<bool, Failure> {
        let expired = member.end(self.keeper.now());
        let place = member.certain_revision().filter(|_| !in_doubt);
        let was_there = member.session.remove_entry(&self.client, member, place).await?;
        self.forget(member);
        Ok(was_there && !expired)
    }
}

impl Session {
    /// Deletes a member's key, which was created at `place`; 0 if it never was. `None` if a create may still be under way:
    /// then it finds the tombstone (PR08). True if the key was there.
    async fn remove_entry(
        &self,
        client: &Client,
        member: &Member,
        place: Option<i64>,
    ) -> Result<bool, Failure> {
        let was_there = match place {
            Some(0) => return Ok(false),
            Some(_) => delete_own(client, member).await,
            None if self.has_ended() || self.is_private() => {
                // Nothing is created under a lease that is gone, and nothing lives on.
                let was_there = delete(client, &member.key, CompareOp::Greater, 0).await;
                revoke(client, self.lease()).await?;
                was_there
            }
            None => self.delete_with_tombstone(client, member).await,
        }?;
        Ok(was_there)
    }

    async fn delete_with_tombstone(&self, client: &Client, member: &Member) -> Result<bool, Failure> {
        if !member.begin_delete() {
            return Ok(false);
        }
        let was_there = self.send_delete_with_tombstone(client, member).await?;
        // Whatever was sent before, to create it or to delete it, compared the tombstone as it was.
        Ok(was_there | member.delete_answered())
    }

    /// Deletes a member's key and puts its tombstone, in one step. True if the first one was there.
    async fn send_delete_with_tombstone(&self, client: &Client, member: &Member) -> Result<bool, Failure> {
        // Only one that has a lease of its own has no tombstone.
        let Some((tombstone, set_at)) = member.tombstone_key() else { return Ok(false) };
        let open = Compare::mod_revision(tombstone.clone(), CompareOp::Equal, set_at);
        let lease = PutOptions::new().with_lease(self.lease());
        let ops =
            [TxnOp::delete(member.key.clone(), None), TxnOp::put(tombstone.clone(), Vec::new(), Some(lease))];
        let txn = Txn::new().when([open]).and_then(ops).or_else([TxnOp::get(tombstone, None)]);
        let sent = client.txn(|| txn.clone()).await;
        let answer = match sent.answer {
            Err(failure) if failure.cause() == Cause::NoSpace => {
                // Nor is anything created as long as that is so. What stands there does not wait for the tombstone.
                delete(client, &member.key, CompareOp::Greater, 0).await?;
                return Err(failure);
            }
            Err(failure) if failure.cause() == Cause::LeaseGone => {
                self.end();
                return Ok(false);
            }
            answer => answer?,
        };
        let config = &client.cluster().config;
        let wrong = || misunderstood("a delete").at(config);
        let revision = answer.header().map(ResponseHeader::revision).ok_or_else(wrong)?;
        match (answer.succeeded(), answer.op_responses().first()) {
            (true, Some(TxnOpResponse::Delete(deleted))) => {
                member.mark_tombstone_set(revision);
                Ok(deleted.deleted() > 0)
            }
            (false, Some(TxnOpResponse::Get(found))) => {
                let found = found.kvs().first().map_or(0, KeyValue::mod_revision);
                if found < set_at {
                    self.end();
                    let message = "the tombstone of an entry is gone: its session is over";
                    return Err(Failure::new(Kind::Unavailable, message).at(config));
                }
                member.mark_tombstone_set(found);
                // An earlier sending did it. What that deleted is not found by a later one (PR10).
                Ok(true)
            }
            _ => Err(wrong()),
        }
    }
}

/// Deletes the key of a member that was created, and is not created any more. Nothing is compared, for nobody else has the
/// key before all such deletes were answered, and a compare would be a twentieth of what a lock costs. True if it was there.
async fn delete_own(client: &Client, member: &Member) -> Result<bool, Failure> {
    if !member.begin_delete() {
        return Ok(false);
    }
    let sent = client.delete(&member.key).await;
    let in_doubt = sent.unanswered || member.delete_answered();
    // What an earlier sending did is not found by a later one (PR10).
    Ok(sent.answer?.deleted() > 0 || in_doubt)
}

/// Deletes a key if its create revision is so. True if it was.
pub(crate) async fn delete(
    client: &Client,
    key: &[u8],
    when: CompareOp,
    place: i64,
) -> Result<bool, Failure> {
    let delete = || {
        let there = Compare::create_revision(key, when, place);
        Txn::new().when([there]).and_then([TxnOp::delete(key, None)])
    };
    let sent = client.txn(delete).await;
    // What an earlier sending did is not found by a later one (PR10).
    Ok(sent.answer?.succeeded() || sent.unanswered)
}
