//! Taking an entry out of the store.
//!
//! Its key will be somebody else's next. So a delete that comes late, behind one that was sent again, must find nothing:
//! each names the life of the entry that it is for, or the epoch in which it was sent.

use etcd_client::{Compare, CompareOp, KeyValue, PutOptions, ResponseHeader, Txn, TxnOp, TxnOpResponse};
use lock_core::BackendErrorKind as Kind;

use super::{Member, Session, keep};
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

/// What closing the door came to.
enum Closed {
    /// It is closed, and the key is gone: whether it was there.
    Behind(bool),
    /// The session's key had another mod revision: this one, or 0 if it was not there.
    Moved(i64),
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
            Some(place) => delete(wire, &member.key, CompareOp::Equal, place).await,
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
        for _ in 0..TRIES {
            let closed = match self.close(wire, member, Door::Shut).await {
                // There is no space for a put. Without the key, nothing is created either.
                Err(failure) if failure.cause() == Cause::NoSpace => {
                    self.close(wire, member, Door::Removed).await?
                }
                Err(failure) if failure.cause() == Cause::LeaseGone => {
                    self.end();
                    return Ok(false);
                }
                closed => closed?,
            };
            match closed {
                Closed::Behind(was_there) => return Ok(was_there),
                Closed::Moved(0) => self.lost_epoch(),
                Closed::Moved(epoch) => self.saw_epoch(epoch),
            }
        }
        Err(Failure::new(Kind::Unavailable, "others closed the door all the time"))
    }

    async fn close(&self, wire: &Wire, member: &Member, door: Door) -> Result<Closed, Failure> {
        let Some((key, epoch)) = self.epoch() else { return Ok(Closed::Behind(false)) };
        let here = Compare::mod_revision(key, CompareOp::Equal, epoch);
        let mut ops = vec![TxnOp::delete(member.key.clone(), None)];
        match door {
            Door::Shut => {
                let options = PutOptions::new().with_lease(self.lease());
                ops.push(TxnOp::put(key, Vec::new(), Some(options)));
            }
            Door::Removed => ops.push(TxnOp::delete(key, None)),
        }
        let close = Txn::new().when([here]).and_then(ops).or_else([TxnOp::get(key, None)]);
        let answer = wire.txn(close).await.answer?;
        match answer.op_responses().into_iter().next() {
            Some(TxnOpResponse::Delete(deleted)) if answer.succeeded() => {
                match door {
                    Door::Shut => self.saw_epoch(answer.header().map_or(0, ResponseHeader::revision)),
                    Door::Removed => self.lost_epoch(),
                }
                Ok(Closed::Behind(deleted.deleted() > 0))
            }
            Some(TxnOpResponse::Get(found)) => {
                Ok(Closed::Moved(found.kvs().first().map_or(0, KeyValue::mod_revision)))
            }
            _ => Err(Failure::new(Kind::Protocol, "the answer to a delete has another shape")),
        }
    }
}

/// Deletes a key if its create revision is so. True if it was.
pub(crate) async fn delete(wire: &Wire, key: &[u8], when: CompareOp, place: i64) -> Result<bool, Failure> {
    let there = Compare::create_revision(key, when, place);
    let delete = Txn::new().when([there]).and_then([TxnOp::delete(key, None)]);
    let sent = wire.txn(delete).await;
    // What an earlier sending did is not found by a later one (PR10).
    Ok(sent.answer?.succeeded() || sent.unanswered)
}
