//! Taking an entry out of the store.
//!
//! Its key will be somebody else's next, and a delete may come late: behind one that was sent again, or long after its
//! sender was told that it took too long. So nobody has the key before every request that may delete it was answered, or
//! cannot do so any more. Where it is never known, the key is nobody's for as long as the session lives.

use etcd_client::{Compare, CompareOp, KeyValue, PutOptions, ResponseHeader, Txn, TxnOp, TxnOpResponse};
use lock_core::BackendErrorKind as Kind;

use super::{Member, Session, exit::Leaver, keep};
use crate::{
    connection::Wire,
    error::{Cause, Failure},
};

/// How often the door is tried again that somebody else has closed meanwhile.
const TRIES: usize = 16;

/// How the door is closed to creates that were sent before.
#[derive(Clone, Copy)]
enum Door {
    /// The session's key is put again.
    Shut,
    /// It is deleted.
    Removed,
}

impl Session {
    /// Deletes a member's key, which was created at `place`; 0 if it never was. `None` if a create may still be under way:
    /// then it finds the door closed (PR08). True if the key was there.
    pub(super) async fn take_out(
        &self,
        wire: &Wire,
        member: &Member,
        place: Option<i64>,
    ) -> Result<bool, Failure> {
        let was_there = match place {
            Some(0) => return Ok(false),
            Some(_) => delete_own(wire, member).await,
            None if self.has_ended() || self.is_private() => {
                // Nothing is created under a lease that is gone, and nothing lives on.
                let was_there = delete(wire, &member.key, CompareOp::Greater, 0).await;
                keep::revoke_once(wire, self.lease()).await?;
                was_there
            }
            None => self.close_door_behind(wire, member).await,
        }?;
        Ok(was_there)
    }

    async fn close_door_behind(&self, wire: &Wire, member: &Member) -> Result<bool, Failure> {
        if !member.deletes() {
            return Ok(false);
        }
        let was_there = self.close_door(wire, member).await?;
        // Whatever was sent before, by us or by who took it along, compared an epoch that is over.
        Ok(was_there | member.deleted())
    }

    async fn close_door(&self, wire: &Wire, member: &Member) -> Result<bool, Failure> {
        let leaving = self.exit.join(&member.key);
        for _ in 0..TRIES {
            let closed = match self.close(wire, &leaving.leaver, Door::Shut).await {
                // There is no space for a put. Without the key, nothing is created either.
                Err(failure) if failure.cause() == Cause::NoSpace => {
                    self.close(wire, &leaving.leaver, Door::Removed).await
                }
                closed => closed,
            };
            // It may have been taken along meanwhile.
            if let Some(was_there) = leaving.leaver.gone() {
                return Ok(was_there);
            }
            match closed {
                Err(failure) if failure.cause() == Cause::LeaseGone => {
                    self.end();
                    return Ok(false);
                }
                closed => closed?,
            }
        }
        Err(Failure::new(Kind::Unavailable, "others closed the door all the time"))
    }

    /// Closes the door behind all who are leaving, if nobody else has closed it.
    async fn close(&self, wire: &Wire, leaver: &Leaver, door: Door) -> Result<(), Failure> {
        let Some((key, epoch)) = self.epoch() else { return Ok(()) };
        let here = Compare::mod_revision(key, CompareOp::Equal, epoch);
        // Only now: who was taken along before this epoch is not among them, for its key may be somebody else's.
        let Some(leavers) = self.exit.with(leaver) else { return Ok(()) };
        let mut ops: Vec<_> = leavers.iter().map(|key| TxnOp::delete(key.clone(), None)).collect();
        match door {
            Door::Shut => {
                let options = PutOptions::new().with_lease(self.lease());
                ops.push(TxnOp::put(key, Vec::new(), Some(options)));
            }
            Door::Removed => {
                self.removes_epoch();
                ops.push(TxnOp::delete(key, None));
            }
        }
        let close = Txn::new().when([here]).and_then(ops).or_else([TxnOp::get(key, None)]);
        let sent = wire.txn(|| close.clone()).await;
        if sent.unanswered {
            self.exit.are_perhaps_gone(&leavers);
        }
        let answer = sent.answer?;
        let ops = answer.op_responses();
        if !answer.succeeded() {
            let Some(TxnOpResponse::Get(found)) = ops.first() else {
                return Err(Failure::new(Kind::Protocol, "the answer to a delete has another shape"));
            };
            match found.kvs().first().map_or(0, KeyValue::mod_revision) {
                0 => self.lost_epoch(),
                epoch => self.saw_epoch(epoch),
            }
            return Ok(());
        }
        for (key, deleted) in leavers.iter().zip(&ops) {
            let TxnOpResponse::Delete(deleted) = deleted else {
                return Err(Failure::new(Kind::Protocol, "the answer to a delete has another shape"));
            };
            self.exit.is_gone(key, deleted.deleted() > 0);
        }
        // Last: whoever closes the door in the next epoch must not take them along.
        match door {
            Door::Shut => self.put_epoch(answer.header().map_or(0, ResponseHeader::revision)),
            Door::Removed => self.lost_epoch(),
        }
        Ok(())
    }
}

/// Deletes the key of a member that was created, and is not created any more. Nothing is compared, for nobody else has the
/// key before all such deletes were answered: a compare would be a twentieth of what a lock costs. True if it was there.
async fn delete_own(wire: &Wire, member: &Member) -> Result<bool, Failure> {
    if !member.deletes() {
        return Ok(false);
    }
    let sent = wire.delete(&member.key).await;
    let in_doubt = sent.unanswered || member.deleted();
    // What an earlier sending did is not found by a later one (PR10).
    Ok(sent.answer?.deleted() > 0 || in_doubt)
}

/// Deletes a key if its create revision is so. True if it was.
pub(crate) async fn delete(wire: &Wire, key: &[u8], when: CompareOp, place: i64) -> Result<bool, Failure> {
    let delete = || {
        let there = Compare::create_revision(key, when, place);
        Txn::new().when([there]).and_then([TxnOp::delete(key, None)])
    };
    let sent = wire.txn(delete).await;
    // What an earlier sending did is not found by a later one (PR10).
    Ok(sent.answer?.succeeded() || sent.unanswered)
}
