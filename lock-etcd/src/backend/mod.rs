//! The verbs on an etcd cluster.

mod contention;
mod creation;
mod enter;
mod etcd;
mod held;
mod operator;
mod renew;

use async_trait::async_trait;
use lock_core::{
    Alarms, Backend, BackendError, Creates, Departure, Entry, Guarantees, Keeper, Lease, Operator, Renewal,
    Standing, Step, WaitMode,
};

pub use self::{etcd::Etcd, held::HeldKey};
use crate::{ConnectError, EtcdConfig, diagnosis, guarantees};

impl Etcd {
    /// Like [`new`](Self::new), and also connects to check that a member can be used with our permissions.
    ///
    /// # Errors
    /// [`ConnectError`] if the configuration is wrong, no member answers within the time limits, the user may not read
    /// and write under the prefix, or the version is older than 3.4.
    ///
    /// # Cancel safety
    /// Safe to drop: nothing is written.
    pub async fn connect(config: EtcdConfig, keeper: &Keeper) -> Result<Self, ConnectError> {
        let etcd = Self::new(config, keeper)?;
        diagnosis::check(&etcd).await.map_err(ConnectError::Store)?;
        Ok(etcd)
    }
}

#[async_trait]
impl Backend for Etcd {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        let standing = match step {
            Step::Create => self.create(entry, wait).await,
            // Boxed, so that the future of an acquisition that does not wait is small.
            Step::Again(token) => Box::pin(self.look_again(entry, token)).await,
        };
        if matches!(standing, Ok(Standing::Gone)) {
            self.sessions.mark_told_gone(entry.id);
        }
        standing
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        self.renew_all(leases).await
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        let was_there = self.sessions.leave(entry, creates == Creates::InDoubt).await?;
        Ok(if was_there { Departure::Left } else { Departure::Absent })
    }

    async fn give_back(&self) {
        self.sessions.give_back().await;
    }

    fn alarms(&self) -> Alarms {
        self.watches.alarms()
    }

    fn operator(&self) -> &dyn Operator {
        self
    }

    fn guarantees(&self) -> &Guarantees {
        &guarantees::ETCD
    }
}
