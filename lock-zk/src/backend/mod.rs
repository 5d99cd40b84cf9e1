//! The verbs on a ZooKeeper ensemble.

mod enter;
mod held;
mod look;
mod operator;
mod renew;
mod wait;
mod zookeeper;

use async_trait::async_trait;
use lock_core::{
    Alarms, Backend, BackendError, Creates, Departure, Entry, Guarantees, Lease, Operator, Renewal, Standing,
    Step, WaitMode,
};

pub use self::{held::HeldNode, zookeeper::ZooKeeper};
use crate::guarantees;

#[async_trait]
impl Backend for ZooKeeper {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        match step {
            Step::Create => self.create(entry, wait).await,
            Step::Again(token) => self.look_again(entry, token).await,
        }
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        self.renew_all(leases).await
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        let was_there = self.sessions.leave(entry, creates == Creates::InDoubt).await?;
        Ok(if was_there { Departure::Left } else { Departure::Absent })
    }

    /// Begins to close idle sessions and does not wait: the ZooKeeper client does not tell when a session is closed.
    async fn give_back(&self) {
        self.sessions.close_idle();
    }

    fn alarms(&self) -> Alarms {
        self.sessions.notifier().alarms()
    }

    fn operator(&self) -> &dyn Operator {
        self
    }

    fn guarantees(&self) -> &Guarantees {
        &guarantees::ZOOKEEPER
    }
}
