//! [`Place`]: an entry on its way through a queue. Dropping it leaves the queue.

use std::{sync::Arc, time::Duration};

use crate::{
    AcquireOptions, BackendError, BackendErrorKind, BootTime, Claim, Creates, Entry, FencingToken, Guard,
    Hold, LockName, Standing, Step, WaitMode,
    client::Client,
    hold::Grant,
    keeper::{Tenure, guarded},
};

/// What one acquisition has in the store, as far as it knows. Whatever happens to the future that owns it, its drop sees
/// to it that nothing stays behind.
pub(crate) struct Place {
    client: Arc<Client>,
    entry: Arc<Entry>,
    /// The life that was answered last.
    token: Option<FencingToken>,
    /// The ttl that an entry begins with.
    waiting_ttl: Duration,
    /// The ttl that the store granted.
    ttl: Duration,
    /// The keeper knows of the place: it leaves for it when its lease has ended, or its client is closed.
    watched: bool,
    /// A creating request of this entry was not answered, and may still arrive.
    in_doubt: bool,
    /// A request is on its way, or was dropped on its way.
    in_flight: bool,
    /// Until when the entry can be in the store, as counted from the last request.
    free_by: BootTime,
    /// The entry before this one, which may still be in the store.
    former: Option<(Arc<Entry>, Creates)>,
}

impl Place {
    /// `waiting_ttl` is that of its lease until a longer one is [asked for](Self::ask_for).
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
        let free_by = client.keeper.now();
        let client = Arc::clone(client);
        Self {
            client,
            entry: Arc::new(entry),
            token: None,
            waiting_ttl,
            ttl: waiting_ttl,
            watched: false,
            in_doubt: false,
            in_flight: false,
            free_by,
            former: None,
        }
    }

    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// Has the entry ask for a lease of this ttl from its next look on. False if it has asked for no less already.
    pub(crate) fn ask_for(&mut self, ttl: Duration) -> bool {
        let longer = self.entry.ttl < ttl;
        if longer {
            Arc::make_mut(&mut self.entry).ttl = ttl;
        }
        longer
    }

    /// Enters the queue, or looks again from the place taken. Whatever the store says, a place that the keeper gave up
    /// meanwhile is gone.
    ///
    /// # Cancel safety
    /// The request may have been carried out; the drop of the place sees to it.
    pub(crate) async fn enter(&mut self, mode: WaitMode) -> Result<Standing, BackendError> {
        if mode == WaitMode::Try {
            self.leave_former().await?;
        }
        let step = self.token.map_or(Step::Create, Step::Again);
        self.free_by = self.client.keeper.now() + self.ttl.max(self.entry.ttl);
        let backend = &self.client.backend;
        if let Some((creates, until)) = self.watch_before(step) {
            if !self.client.renewals.watch_place(Arc::clone(&self.entry), creates, until, self.watched) {
                // The keeper has left for it, or nothing is taken any more.
                return Ok(Standing::Gone);
            }
            self.watched = true;
        }
        self.in_flight = true;
        let answer = guarded(backend.guarantees().store, backend.enter(&self.entry, step, mode)).await;
        let answer = answer.and_then(|answer| answer);
        self.in_flight = false;
        match &answer {
            Ok(Standing::Admitted { token, ttl, .. }) => (self.token, self.ttl) = (Some(*token), *ttl),
            Ok(Standing::Waiting { token, ttl, valid_until, .. }) => {
                (self.token, self.ttl) = (Some(*token), *ttl);
                let (entry, creates) = (Arc::clone(&self.entry), self.creates());
                let watched = std::mem::replace(&mut self.watched, true);
                if !self.client.renewals.watch_place(entry, creates, *valid_until, watched) {
                    return Ok(Standing::Gone);
                }
            }
            Ok(Standing::Busy | Standing::Gone) => {
                self.forget();
                self.token = None;
            }
            Err(error) => {
                // A mismatch is an answer, and leaves no entry; anything else that was sent may have created one.
                let mismatch = matches!(error.kind(), BackendErrorKind::ClaimMismatch { .. });
                self.in_doubt |= step == Step::Create && !error.is_unsent() && !mismatch;
                if self.token.is_none() && !self.in_doubt {
                    self.forget();
                }
            }
        }
        answer
    }

    /// What the keeper has to know before a request is sent, and until when: of an entry that it may create, and of a lease that it
    /// may make longer.
    fn watch_before(&self, step: Step) -> Option<(Creates, BootTime)> {
        match step {
            // PR09: should this future not be polled again, a session would keep the entry alive for ever.
            Step::Create if self.client.backend.guarantees().shared_leases => {
                Some((Creates::InDoubt, self.free_by))
            }
            Step::Create => Some((Creates::InDoubt, BootTime::FAR_FUTURE)),
            // The answer may come after the end of the shorter lease, and the keeper leaves for what lives as long as the longer one.
            Step::Again(_) if self.waiting_ttl.max(self.ttl) < self.entry.ttl => {
                Some((self.creates(), self.free_by))
            }
            Step::Again(_) => None,
        }
    }

    /// Nothing of it is in the store: there is nothing to leave.
    fn forget(&mut self) {
        if std::mem::take(&mut self.watched) {
            self.client.renewals.end(self.entry.id);
        }
    }

    /// Starts over with an entry of another id, at the end of the queue.
    pub(crate) fn start_over(&mut self) {
        self.former = Some((Arc::clone(&self.entry), self.creates()));
        self.abandon();
        let mut entry = Entry::clone(&self.entry);
        entry.id = self.client.fresh_id();
        entry.ttl = self.waiting_ttl;
        self.entry = Arc::new(entry);
    }

    /// Whoever only tries must not find its own former entry in the way, and call that busy: the store may still have it,
    /// though its session or the keeper has given it up. One that waits is only delayed by it.
    async fn leave_former(&mut self) -> Result<(), BackendError> {
        let Some((entry, creates)) = &self.former else { return Ok(()) };
        let backend = &self.client.backend;
        guarded(backend.guarantees().store, backend.leave(entry, *creates)).await??;
        self.former = None;
        Ok(())
    }

    /// Turns the place into a guard. If its lease has ended nothing is held, and the place comes back; if the keeper gave
    /// it up, as one that starts over.
    pub(crate) fn grant(mut self, valid_until: BootTime, options: &AcquireOptions) -> Result<Guard, Self> {
        let Some(token) = self.token.filter(|_| self.client.keeper.now() < valid_until) else {
            return Err(self);
        };
        let clock = Arc::clone(self.client.keeper.clock());
        let grant = Grant { token, ttl: self.ttl, valid_until };
        let journal = Arc::clone(&self.client.journal);
        let hold = Hold::new(Arc::clone(&self.entry), grant, clock, options.max_hold, journal);
        let tenure = Tenure { hold, creates: self.creates(), renew: options.renew };
        if !self.client.renewals.keep(tenure.clone(), self.watched) {
            self.start_over();
            return Err(self);
        }
        // From here on the guard sees to the departure.
        self.token = None;
        self.in_doubt = false;
        Ok(Guard::new(Arc::clone(&self.client), tenure.hold, tenure.creates))
    }

    fn creates(&self) -> Creates {
        if self.in_doubt || (self.in_flight && self.token.is_none()) {
            Creates::InDoubt
        } else {
            Creates::Answered
        }
    }

    /// Leaves whatever may be in the store to the keeper.
    fn abandon(&mut self) {
        if (self.token.is_some() || self.in_doubt || self.in_flight) && !self.client.keeper.is_forked() {
            let (creates, client) = (self.creates(), &self.client);
            let owed = client.renewals.take_out(&self.entry, creates, self.free_by);
            // Whoever closed the client left for it, and nothing was sent since.
            let left_for = owed.is_none() && self.watched && client.closing.is_closed();
            if owed.is_none() && !left_for {
                drop(client.cleanup.owe(Arc::clone(&self.entry), creates, self.free_by));
            }
        }
        (self.token, self.watched, self.in_doubt, self.in_flight) = (None, false, false, false);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.abandon();
    }
}
