//! [`Guard`]: a granted lock, which is released when the guard is dropped.

use std::{fmt, mem, pin::pin, sync::Arc, time::Duration};

use crate::{
    Creates, Departure, EntryId, Error, FencingToken, Hold, HoldState, LockName, Lost, LostReason, Released,
    client::Client, keeper::ScheduledLeave, panic_isolation::shielded,
};

/// A lock that was granted. Dropping it releases the lock.
///
/// A guard is a claim with a deadline, not a fact: the keeper renews the lease behind it, and if that fails, the guard
/// says so before another client can be admitted.
///
/// | the work | watches |
/// |---|---|
/// | is one future | nothing: [`run`](crate::DistributedLock::run) stops it |
/// | awaits now and then | [`lost`](Self::lost), in a `select!` |
/// | is a loop without awaits | [`is_held`](Self::is_held), at each turn |
/// | hands a step to a system that cannot be stopped | [`remaining`](Self::remaining), before the step |
/// | writes to a store that can compare numbers | [`token`](Self::token), in that store |
///
/// Only the last is safe from a process that was stopped between the look and the write.
///
/// ```
/// # use lock_core::{DistributedLock, Locks, Memory};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::Error> {
/// # let lock = Locks::new(Memory::new()).mutex("job")?;
/// // Not `let _ = …`, which drops the guard immediately. `_guard` keeps it to the end of the block.
/// let guard = lock.acquire().await?;
/// assert!(lock.try_acquire().await?.is_none());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// The drop hands the release over to the keeper: it needs no runtime, and reports no error. It blocks only where the guard is the last of
/// its [`Locks`](crate::Locks), on a thread without tasks, [for a moment](crate::Locks::with_linger). Use [`release`](Self::release) where
/// the next step relies on the lock being free, or on the work having been protected until its end.
#[must_use = "dropping the guard releases the lock; keep it, as in `let guard = lock.acquire().await?`: `let _ =` drops it at once"]
pub struct Guard {
    client: Arc<Client>,
    hold: Hold,
    creates: Creates,
    released: bool,
}

impl Guard {
    pub(crate) fn new(client: Arc<Client>, hold: Hold, creates: Creates) -> Self {
        Self { client, hold, creates, released: false }
    }

    /// The name of the lock.
    #[must_use]
    pub fn name(&self) -> &LockName {
        self.hold.name()
    }

    /// The fencing token, fixed at the grant. Still there when the lock is lost. See [`FencingToken`] for how to use it.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.hold.token()
    }

    /// The entry that holds the lock, as `queue` shows it.
    #[must_use]
    pub fn entry_id(&self) -> EntryId {
        self.hold.entry_id()
    }

    /// How long the lease lives without being renewed: what was asked for, more where the store has no shorter one, or less where the servers
    /// allow none so long, as `maxSessionTimeout` of ZooKeeper limits it.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.hold.ttl()
    }

    /// Whether the lock is held at this moment. It reads the clock, and so needs no task to have run. See [`Hold::is_held`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// How long the lock may still be relied on if nothing more is heard from the store. Zero once it is lost.
    ///
    /// With renewal it moves between about two thirds of the [`ttl`](Self::ttl) and all of it.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// What is known about the lock at this moment.
    #[must_use]
    pub fn state(&self) -> HoldState {
        self.hold.state()
    }

    /// A future that is ready when the lock is lost: at its deadline at the latest, before another client can be admitted.
    /// Cheap to clone, `'static`, and never ready after a release.
    pub fn lost(&self) -> Lost {
        self.hold.lost()
    }

    /// A view for the tasks that work under the lock: it tells all that the guard tells, and does not keep the lock.
    #[must_use]
    pub fn hold(&self) -> Hold {
        self.hold.clone()
    }

    /// Renews the lease now, whether or not the keeper does, and returns how long it may be relied on.
    ///
    /// The keeper renews every lease in time by itself. Call this before a step that needs a full lease, or where the options say not to
    /// [renew](crate::AcquireOptions::renew).
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock is lost: at its deadline, whether or not the store has answered by then.
    /// [`Error::Forked`] in a fork: the lock is the parent's.
    /// [`Error::Backend`] if the store did not answer: the lock is still held, until [`remaining`](Self::remaining) is over.
    ///
    /// # Cancel safety
    /// Dropping the future does not take the request back. The guard keeps the deadline that it had; if the store extends the lease all the
    /// same, a crash of this process keeps others waiting for longer, and nothing else.
    pub async fn extend(&self) -> Result<Duration, Error> {
        let renewed = if self.is_held() {
            let renewing = pin!(self.client.renewals.renew_now(&self.hold));
            tokio::select! {
                biased;
                renewed = shielded(renewing) => renewed,
                // An answer after the loss changes nothing.
                _ = self.lost() => Ok(()),
            }
        } else {
            Ok(())
        };
        match self.state() {
            HoldState::Lost(reason) => Err(self.lost_error(reason, false)),
            _ => match renewed {
                Ok(()) => Ok(self.remaining()),
                Err(source) => Err(Error::Backend { name: self.name().clone(), source }),
            },
        }
    }

    /// Gives the lock back. `Ok` says that it was held until the release began: what was done under it was protected to the end.
    ///
    /// If the store does not confirm it within its time limit for a command, the answer is [`Released::Pending`], and the keeper
    /// goes on trying.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock was lost before: others may have had it since. The lock of another client is never touched.
    /// [`Error::Forked`] in a fork: the lock is the parent's.
    ///
    /// # Cancel safety
    /// The lock counts as released from the first poll on. Dropping the future leaves the rest to the keeper, which tries until the store
    /// confirms it; what the result would have been is not known then.
    pub async fn release(mut self) -> Result<Released, Error> {
        self.released = true;
        let Some((scheduled, held)) = self.end() else { return Err(self.over()) };
        let (trace, free_by) = (ReleaseTrace { hold: &self.hold, held }, scheduled.free_by());
        match shielded(pin!(scheduled.leave_now())).await {
            Ok(Departure::Left) => Ok(Released::Confirmed),
            // PR10: a leave that was repeated, after a first one in time, says that it left.
            Ok(Departure::Absent) => {
                trace.gone();
                Err(self.lost_error(LostReason::Gone, false))
            }
            Err(cause) => Ok(Released::Pending { free_within: self.client.free_within(free_by), cause }),
        }
    }

    /// Why there is nothing to release.
    fn over(&self) -> Error {
        match self.state() {
            HoldState::Lost(reason) => self.lost_error(reason, false),
            // A hold that has ended was lost: there is one guard for it, and this is its release.
            HoldState::Held | HoldState::Suspect | HoldState::Released => {
                self.lost_error(LostReason::Expired, false)
            }
        }
    }

    /// Ends the hold, and returns the leave that is left to do, and for how long it was held. `None` if it was lost before: then the
    /// keeper leaves for it.
    fn end(&self) -> Option<(ScheduledLeave, Duration)> {
        if self.client.keeper.is_forked() {
            // The lock is the parent's, and so is its keeper.
            return None;
        }
        let lease_end = self.client.keeper.now() + self.ttl();
        // If it was lost before, it may not be registered: then the keeper leaves for it.
        let scheduled = self.client.renewals.schedule_leave(self.hold.entry(), self.creates, lease_end);
        let held = self.hold.end()?;
        let schedule_leave =
            || self.client.cleanup.schedule_leave(Arc::clone(self.hold.entry()), self.creates, lease_end);
        Some((scheduled.unwrap_or_else(schedule_leave), held))
    }

    /// The lock is lost, and the work under it may have been stopped.
    pub(crate) fn lost_error(&self, reason: LostReason, stopped: bool) -> Error {
        let name = self.name().clone();
        match reason {
            LostReason::Forked => Error::Forked { name },
            _ => Error::Lost { name, reason, stopped },
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !mem::replace(&mut self.released, true)
            && let Some((scheduled, held)) = self.end()
        {
            self.hold.trace_released(held);
            drop(scheduled);
        }
    }
}

/// Traces a release when it is dropped, also if that is because the future was. Unless the store says that the lock was gone.
struct ReleaseTrace<'a> {
    hold: &'a Hold,
    held: Duration,
}

impl ReleaseTrace<'_> {
    fn gone(self) {
        self.hold.trace_gone(self.held);
        mem::forget(self);
    }
}

impl Drop for ReleaseTrace<'_> {
    fn drop(&mut self) {
        self.hold.trace_released(self.held);
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", self.name())
            .field("token", &self.token())
            .field("state", &self.state())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
