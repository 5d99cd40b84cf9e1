//! [`Altered`]: a backend whose answers are changed on their way.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use lock_core::{
    Alarms, Backend, BackendError, BackendErrorKind, Creates, Departure, Entry, Guarantees, Lease, Operator,
    Renewal, Standing, Step, WaitMode,
};

use crate::{Client, World};

/// What is changed; everything else is passed on.
pub(super) trait Alter: fmt::Debug + Send + Sync + 'static {
    /// The answer to `enter` that the client gets.
    fn standing(&self, _entry: &Entry, standing: Standing) -> Standing {
        standing
    }

    /// Whether the renewal of this lease is refused with an error. The others of its batch are carried out.
    fn refuses(&self, _lease: &Lease) -> bool {
        false
    }

    /// The answer to `renew` that the client gets.
    fn renewal(&self, _lease: &Lease, renewal: Renewal) -> Renewal {
        renewal
    }
}

/// A client whose backend answers are changed by `alter`.
pub(super) async fn altered(world: &World, alter: Arc<impl Alter>) -> Client {
    world.client_through(|inner| Arc::new(Altered { inner, alter })).await
}

#[derive(Debug)]
struct Altered {
    inner: Arc<dyn Backend>,
    alter: Arc<dyn Alter>,
}

#[async_trait]
impl Backend for Altered {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        let standing = self.inner.enter(entry, step, wait).await?;
        Ok(self.alter.standing(entry, standing))
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let sent: Vec<Lease> = leases.iter().filter(|lease| !self.alter.refuses(lease)).cloned().collect();
        let mut answers = self.inner.renew(&sent).await.into_iter();
        let answer = |lease: &Lease| {
            if self.alter.refuses(lease) {
                return Err(BackendError::new(
                    "altered",
                    BackendErrorKind::Unavailable,
                    "refused as ordered",
                ));
            }
            let renewal = answers.next().expect("renew gives one answer for each lease")?;
            Ok(self.alter.renewal(lease, renewal))
        };
        leases.iter().map(answer).collect()
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        self.inner.leave(entry, creates).await
    }

    fn alarms(&self) -> Alarms {
        self.inner.alarms()
    }

    fn guarantees(&self) -> &Guarantees {
        self.inner.guarantees()
    }

    fn operator(&self) -> &dyn Operator {
        self.inner.operator()
    }
}
