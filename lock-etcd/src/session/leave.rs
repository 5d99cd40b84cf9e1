//! Removes entries from the store.
//!
//! The key of an entry is reused for other entries, and a delete may arrive late: after it was sent a second time, or long after its
//! sender got a timeout. So no other entry gets the key before every request that may delete it was answered, or has lost its
//! effect. If that never becomes known, no entry gets the key as long as the session lives.

use std::sync::Arc;

use etcd_client::{Compare, CompareOp, KeyValue, PutOptions, ResponseHeader, Txn, TxnOp, TxnOpResponse};
use lock_core::BackendErrorKind as Kind;

use super::{member::Member, pool::Pool, revoke::revoke, session::Session};
use crate::{
    client::Client,
    error::{Cause, Failure, misunderstood},
};

impl Pool {
    /// Leaves the queue for a member. The member has ended from here on, whatever the store answers, and no answer in flight revives it.
    pub(super) async fn remove_entry(&self, member: &Arc<Member>, in_doubt: bool) -> Result<bool, Failure> {
        let expired = member.end(self.keeper.now());
        let place = member.certain_revision().filter(|_| !in_doubt);
        let was_there = member.session.remove_entry(&self.client, member, place).await?;
        self.forget(member);
        Ok(was_there && !expired)
    }
}

impl Session {
    /// Deletes a member's key, which was created at `place`; 0 if it never was. `None` if a create may still be in flight:
    /// then the create finds the tombstone (PR08). Returns whether the key existed.
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
                // Once the lease is gone, no key can be created under it, and none remains.
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
        // Every earlier create and delete compares the tombstone with its state before this one, and so has no effect any more.
        Ok(was_there | member.delete_answered())
    }

    /// Deletes a member's key and puts its tombstone, in one step. Returns whether the key existed.
    async fn send_delete_with_tombstone(&self, client: &Client, member: &Member) -> Result<bool, Failure> {
        // Only a member with a lease of its own has no tombstone.
        let Some((tombstone, set_at)) = member.tombstone_key() else { return Ok(false) };
        let open = Compare::mod_revision(tombstone.clone(), CompareOp::Equal, set_at);
        let lease = PutOptions::new().with_lease(self.lease());
        let ops =
            [TxnOp::delete(member.key.clone(), None), TxnOp::put(tombstone.clone(), Vec::new(), Some(lease))];
        let txn = Txn::new().when([open]).and_then(ops).or_else([TxnOp::get(tombstone, None)]);
        let sent = client.txn(|| txn.clone()).await;
        let answer = match sent.answer {
            Err(failure) if failure.cause() == Cause::NoSpace => {
                // Without space nothing can be created either. The delete of an existing key does not wait for the tombstone.
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
                // The request was sent before, and then put the tombstone. The second one does not find what the first one deleted (PR10).
                Ok(true)
            }
            _ => Err(wrong()),
        }
    }
}

/// Deletes the key of a member that was created, and whose creates are all answered. This compares nothing, because no other member gets
/// the key before all such deletes were answered, and a compare would be a twentieth of the cost of a lock. Returns whether the key existed.
async fn delete_own(client: &Client, member: &Member) -> Result<bool, Failure> {
    if !member.begin_delete() {
        return Ok(false);
    }
    let sent = client.delete(&member.key).await;
    let in_doubt = sent.unanswered || member.delete_answered();
    // If the request was sent twice, the second one does not find what the first one deleted (PR10).
    Ok(sent.answer?.deleted() > 0 || in_doubt)
}

/// Deletes a key if the comparison of its create revision holds. Returns whether it did.
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
    // If the request was sent twice, the second one does not find what the first one deleted (PR10).
    Ok(sent.answer?.succeeded() || sent.unanswered)
}
