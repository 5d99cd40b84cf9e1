//! The verbs on one Redis server: each one script and one round trip, or plain commands where nobody waits.

mod arguments;
mod contended_names;
mod enter;
mod foreign_holders;
mod leave;
mod operator;
mod plain_grants;
mod redis;
mod renew;

use async_trait::async_trait;
use lock_core::{
    Alarms, Backend, BackendError, Creates, Departure, Entry, Guarantees, Lease, Operator, Renewal, Standing,
    Step, WaitMode,
};

pub use self::redis::Redis;
use crate::guarantees;

#[async_trait]
impl Backend for Redis {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        enter::enter(self, entry, step, wait).await
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        renew::renew(self, leases).await
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        leave::leave(self, entry, creates).await
    }

    /// Nothing to do: the store has only entries, and the connections close when the backend is dropped.
    async fn give_back(&self) {}

    fn alarms(&self) -> Alarms {
        self.notifications.alarms()
    }

    fn guarantees(&self) -> &Guarantees {
        &guarantees::STANDALONE
    }

    fn operator(&self) -> &dyn Operator {
        self
    }
}
