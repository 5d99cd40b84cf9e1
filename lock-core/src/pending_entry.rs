//! [`PendingEntry`]: an entry that is not granted yet. Dropping it leaves the queue.

use std::{sync::Arc, time::Duration};

use crate::{
    AcquireOptions, BackendError, BackendErrorKind, BootTime, Claim, Creates, Entry, FencingToken, Guard,
    Hold, LockName, Standing, Step, WaitMode, client::Client, hold::Grant, keeper::HeldLease,
    panic_isolation::catch_panic,
};

/// The entry of one acquisition, and what is known of it in the store. However its future ends, dropping it leaves the queue of what may be
/// in the store.
pub(crate) struct PendingEntry {
    client: Arc<Client>,
    entry: Arc<Entry>,
    /// The token that the store answered last.
    token: Option<FencingToken>,
    /// The ttl that an entry begins with.
    waiting_ttl: Duration,
    /// The ttl that the store granted.
    ttl: Duration,
    /// Whether the keeper has a record of the entry: it leaves for it when its lease has ended, or its client is closed.
    registered: bool,
    /// Whether every creating request of the entry was answered. One that is under way is not, also when its future was dropped.
    creates: Creates,
    /// When its lease ends in the store, as counted from the last request.
    lease_end: BootTime,
    /// Whether the last answer was one to a create, and came when the keeper had given the entry up.
    create_was_late: bool,
    /// The entry before this one, which may still be in the store.
    former: Option<(Arc<Entry>, Creates)>,
}

impl PendingEntry {
    /// `waiting_ttl` is the ttl of its lease until a longer one is [requested](Self::request_ttl).
    pub(crate) fn new(
        client: &Arc<Client>,
        name: &LockName,
        claim: Claim,
        options: &AcquireOptions,
        waiting_ttl: Duration,
    ) -> Self {
        let entry = Entry::new(name.clone(), client.fresh_id(), claim, waiting_ttl)
            .with_label(options.label.clone())
            .with_renew(options.renew);
        let lease_end = client.keeper.now();
        let client = Arc::clone(client);
        Self {
            client,
            entry: Arc::new(entry),
            token: None,
            waiting_ttl,
            ttl: waiting_ttl,
            registered: false,
            creates: Creates::Answered,
            lease_end,
            create_was_late: false,
            former: None,
        }
    }

    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// Whether the lease of the entry had ended when its create was answered. So the keeper had given it up, and the entry is gone.
    pub(crate) fn create_was_late(&self) -> bool {
        self.create_was_late
    }

    /// Asks for a lease of this ttl from the next request on. False if the entry has asked for one as long already.
    pub(crate) fn request_ttl(&mut self, ttl: Duration) -> bool {
        let longer = self.entry.ttl < ttl;
        if longer {
            Arc::make_mut(&mut self.entry).ttl = ttl;
        }
        longer
    }

    /// Enters the queue, or looks again from the place taken. Whatever the store answers, an entry that the keeper gave up meanwhile is
    /// gone.
    ///
    /// # Cancel safety
    /// The request may have been carried out; the drop of the entry leaves for it.
    pub(crate) async fn enter(&mut self, mode: WaitMode) -> Result<Standing, BackendError> {
        if mode == WaitMode::Try {
            self.leave_former().await?;
        }
        self.create_was_late = false;
        let step = self.token.map_or(Step::Create, Step::Again);
        self.lease_end = self.client.keeper.now() + self.ttl.max(self.entry.ttl);
        let backend = &self.client.backend;
        if let Some((creates, until)) = self.registration(step) {
            let (entry, doubtful) = (Arc::clone(&self.entry), step == Step::Create);
            if !self.client.renewals.register_waiting(entry, creates, doubtful, until, self.registered) {
                // The keeper has left for it, or nothing is taken any more.
                return Ok(Standing::Gone);
            }
            self.registered = true;
        }
        let creates = self.creates;
        if step == Step::Create {
            self.creates = Creates::InDoubt;
        }
        let answer = catch_panic(backend.guarantees().store, backend.enter(&self.entry, step, mode)).await;
        let answer = answer.and_then(|answer| answer);
        if !answer.as_ref().is_err_and(may_be_carried_out) {
            self.creates = creates;
        }
        match &answer {
            Ok(Standing::Admitted { token, ttl, .. }) => (self.token, self.ttl) = (Some(*token), *ttl),
            Ok(Standing::Waiting { token, ttl, valid_until, .. }) => {
                (self.token, self.ttl) = (Some(*token), *ttl);
                let (entry, creates) = (Arc::clone(&self.entry), self.creates);
                let registered = std::mem::replace(&mut self.registered, true);
                if !self.client.renewals.register_waiting(entry, creates, false, *valid_until, registered) {
                    self.create_was_late = step == Step::Create;
                    return Ok(Standing::Gone);
                }
            }
            Ok(Standing::Busy | Standing::Gone) => {
                self.create_was_late = !self.forget() && step == Step::Create;
                self.token = None;
            }
            Err(_) if self.token.is_none() && self.creates == Creates::Answered => {
                self.forget();
            }
            Err(_) => {}
        }
        answer
    }

    /// What the keeper has to know before a request is sent, and until when: an entry that it may create, or a lease that it may make
    /// longer.
    fn registration(&self, step: Step) -> Option<(Creates, BootTime)> {
        match step {
            // PR09: should this future not be polled again, a session would keep the entry alive forever.
            Step::Create if self.client.backend.guarantees().shared_leases => {
                Some((Creates::InDoubt, self.lease_end))
            }
            Step::Create => Some((Creates::InDoubt, BootTime::FAR_FUTURE)),
            // The answer may come after the end of the shorter lease, and the keeper leaves for what lives as long as the longer one.
            Step::Again(_) if self.waiting_ttl.max(self.ttl) < self.entry.ttl => {
                Some((self.creates, self.lease_end))
            }
            Step::Again(_) => None,
        }
    }

    /// Nothing of the entry is in the store: there is nothing to leave. False if the keeper had given it up before.
    fn forget(&mut self) -> bool {
        !std::mem::take(&mut self.registered) || self.client.renewals.forget(self.entry.id)
    }

    /// Starts over with an entry of another id, at the end of the queue.
    pub(crate) fn start_over(&mut self) {
        self.former = Some((Arc::clone(&self.entry), self.creates));
        self.abandon();
        let mut entry = Entry::clone(&self.entry);
        entry.id = self.client.fresh_id();
        entry.ttl = self.waiting_ttl;
        self.entry = Arc::new(entry);
    }

    /// A try must not find its own former entry in the way, and call that busy: the store may still have it, though its session or the
    /// keeper has given it up. A waiter is only delayed by it.
    async fn leave_former(&mut self) -> Result<(), BackendError> {
        let Some((entry, creates)) = &self.former else { return Ok(()) };
        let backend = &self.client.backend;
        catch_panic(backend.guarantees().store, backend.leave(entry, *creates)).await??;
        self.former = None;
        Ok(())
    }

    /// Turns the entry into a guard. If its lease has ended nothing is held, and the entry comes back; if the keeper gave it up, as one
    /// that starts over.
    pub(crate) fn grant(mut self, valid_until: BootTime, options: &AcquireOptions) -> Result<Guard, Self> {
        let Some(token) = self.token.filter(|_| self.client.keeper.now() < valid_until) else {
            return Err(self);
        };
        let clock = Arc::clone(self.client.keeper.clock());
        let grant = Grant { token, ttl: self.ttl, valid_until };
        let event_log = Arc::clone(&self.client.event_log);
        let hold = Hold::new(Arc::clone(&self.entry), grant, clock, options.max_hold, event_log);
        let lease = HeldLease { hold, creates: self.creates, renew: options.renew };
        if !self.client.renewals.register_held(lease.clone(), self.registered) {
            self.start_over();
            return Err(self);
        }
        // From here on the guard leaves.
        self.token = None;
        self.creates = Creates::Answered;
        Ok(Guard::new(Arc::clone(&self.client), lease.hold, lease.creates))
    }

    /// Leaves what may be in the store to the keeper.
    fn abandon(&mut self) {
        let may_be_there = self.token.is_some() || self.creates == Creates::InDoubt;
        if may_be_there && !self.client.keeper.is_forked() {
            let (creates, client) = (self.creates, &self.client);
            let scheduled = match client.renewals.schedule_leave(&self.entry, creates, self.lease_end) {
                // The close of the client left for it, and nothing was sent since.
                None if self.registered && client.closing.is_closed() => None,
                None => Some(client.cleanup.schedule_leave(Arc::clone(&self.entry), creates, self.lease_end)),
                scheduled => scheduled,
            };
            let known = self.token.is_some();
            drop(scheduled.map(|leave| if known { leave } else { leave.doubtful() }));
        }
        (self.token, self.registered, self.creates) = (None, false, Creates::Answered);
    }
}

impl Drop for PendingEntry {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Whether a request that failed so may have been carried out. A mismatch is an answer, and leaves no entry.
fn may_be_carried_out(error: &BackendError) -> bool {
    !error.is_unsent() && !matches!(error.kind(), BackendErrorKind::ClaimMismatch { .. })
}
