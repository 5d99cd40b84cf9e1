//! [`Client`]: one backend with the keeper that serves it, shared by locks, entries and guards.

mod operator;

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    Backend, BootTime, Entropy, EntryId, Error, Keeper, LockName,
    closing::Closing,
    event_log::EventLog,
    keeper::{Cleanup, Renewals},
    linger,
    panic_isolation::catch_panic,
};

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) keeper: Keeper,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) event_log: Arc<EventLog>,
    pub(crate) closing: Arc<Closing>,
    pub(crate) renewals: Arc<Renewals>,
    pub(crate) cleanup: Arc<Cleanup>,
    /// In milliseconds.
    linger: AtomicU64,
}

impl Client {
    pub(crate) fn new(backend: Arc<dyn Backend>, keeper: Keeper, entropy: Arc<dyn Entropy>) -> Self {
        let (event_log, closing) = (Arc::new(EventLog::new(&keeper)), Arc::new(Closing::default()));
        let cleanup = Arc::new(Cleanup::new(
            Arc::clone(&backend),
            keeper.clone(),
            Arc::clone(&entropy),
            Arc::clone(&event_log),
            Arc::clone(&closing),
        ));
        let renewals = Renewals::new(
            Arc::clone(&backend),
            keeper.clone(),
            Arc::clone(&event_log),
            Arc::clone(&cleanup),
            Arc::clone(&closing),
        );
        let client = Self {
            backend,
            keeper,
            entropy,
            event_log,
            closing,
            renewals,
            cleanup,
            linger: AtomicU64::new(0),
        };
        client.linger_for(linger::DEFAULT);
        client
    }

    /// How long its drop waits for its clean-up.
    pub(crate) fn linger_for(&self, linger: Duration) {
        self.linger.store(u64::try_from(linger.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether locks can be taken here and now.
    pub(crate) fn check_open(&self, name: &LockName) -> Result<(), Error> {
        if self.keeper.is_forked() {
            return Err(Error::Forked { name: name.clone() });
        }
        if self.closing.is_closed() {
            return Err(Error::Closed { name: name.clone() });
        }
        if self.keeper.has_ended() {
            return Err(Error::KeeperEnded { name: name.clone() });
        }
        Ok(())
    }

    /// Takes no more locks, leaves for all waiters, and notifies them. From here on nothing is granted.
    pub(crate) fn begin_to_close(&self) {
        // In a fork it is the parent's, and a mutex may stay locked forever.
        if !self.keeper.is_forked() {
            self.renewals.close();
            self.closing.begin();
        }
    }

    /// Waits until nothing is held and no leave is pending, and then until the store has back what it keeps beside entries; for `within`
    /// at the most.
    pub(crate) async fn drain(&self, within: Duration) {
        self.keeper.timeout_at(self.keeper.now() + within, self.drained()).await;
    }

    async fn drained(&self) {
        loop {
            if self.keeper.is_forked() {
                return;
            }
            // Before the check: what goes after it is not missed.
            let gone = self.closing.gone();
            if self.renewals.is_empty() && self.cleanup.is_empty() {
                break;
            }
            gone.await;
        }
        // What is left after a panic does not block a lock.
        drop(catch_panic(self.backend.guarantees().store, self.backend.give_back()).await);
    }

    /// The longest time until the store frees an entry whose lease ends at `free_by`. `None` where other locks may keep the lease. The
    /// clock of the store may be slower than ours, and it may notice the end late.
    pub(crate) fn free_within(&self, free_by: BootTime) -> Option<Duration> {
        let shared = self.backend.guarantees().shared_leases;
        let left = free_by.since(self.keeper.now());
        (!shared).then(|| left + left / 50 + Duration::from_secs(1))
    }

    pub(crate) fn fresh_id(&self) -> EntryId {
        EntryId::new(self.entropy.bits())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // In a fork it is the parent's. To drop it could lock what stays locked forever, and would close sockets for both.
        if self.keeper.is_forked() {
            mem::forget((Arc::clone(&self.backend), Arc::clone(&self.renewals)));
            return;
        }
        // Guards, entries and locks keep the client, so no lock can be taken any more. The process may be about to end, and with it
        // the keeper.
        let linger = Duration::from_millis(self.linger.load(Ordering::Relaxed));
        if !linger.is_zero() && !self.cleanup.is_empty() && linger::may_block() {
            self.cleanup.wait_until_empty(linger);
        }
    }
}
