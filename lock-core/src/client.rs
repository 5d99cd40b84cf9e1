//! [`Client`]: one backend with the keeper that serves it. What locks, places and guards share.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{
    Backend, Entropy, EntryId, Error, Keeper, LockName,
    keeper::{Cleanup, Renewals},
};

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) keeper: Keeper,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) renewals: Arc<Renewals>,
    pub(crate) cleanup: Arc<Cleanup>,
    closed: AtomicBool,
}

impl Client {
    pub(crate) fn new(backend: Arc<dyn Backend>, keeper: Keeper, entropy: Arc<dyn Entropy>) -> Self {
        let cleanup = Arc::new(Cleanup::new(Arc::clone(&backend), keeper.clone(), Arc::clone(&entropy)));
        let renewals = Renewals::new(Arc::clone(&backend), keeper.clone(), Arc::clone(&cleanup));
        Self { backend, keeper, entropy, renewals, cleanup, closed: AtomicBool::new(false) }
    }

    /// Whether locks can be taken here and now.
    pub(crate) fn check_open(&self, name: &LockName) -> Result<(), Error> {
        self.check_fork(name)?;
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed { name: name.clone() });
        }
        Ok(())
    }

    /// Whether this process is the one that connected.
    pub(crate) fn check_fork(&self, name: &LockName) -> Result<(), Error> {
        if self.keeper.is_forked() { Err(Error::Forked { name: name.clone() }) } else { Ok(()) }
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn fresh_id(&self) -> EntryId {
        EntryId::new(self.entropy.bits())
    }
}
