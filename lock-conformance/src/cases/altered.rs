//! [`Altered`]: a layer that changes answers of the store.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use lock_core::{Backend, BackendError, BackendErrorKind, Entry, Lease, Renewal, Standing, Step, WaitMode};

use crate::{Client, Layer, TestEnv};

/// The changes. Everything else is passed on.
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
pub(super) async fn altered(env: &TestEnv, alter: Arc<impl Alter>) -> Client {
    env.client_through(&[Arc::new(Altered(alter))]).await
}

#[derive(Debug)]
struct Altered(Arc<dyn Alter>);

#[async_trait]
impl Layer for Altered {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let standing = store.enter(entry, step, wait).await?;
        Ok(self.0.standing(entry, standing))
    }

    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let sent: Vec<Lease> = leases.iter().filter(|lease| !self.0.refuses(lease)).cloned().collect();
        let mut answers = store.renew(&sent).await.into_iter();
        let answer = |lease: &Lease| {
            if self.0.refuses(lease) {
                return Err(BackendError::new(
                    "altered",
                    BackendErrorKind::Unavailable,
                    "refused as ordered",
                ));
            }
            let renewal = answers.next().expect("renew gives one answer for each lease")?;
            Ok(self.0.renewal(lease, renewal))
        };
        leases.iter().map(answer).collect()
    }
}
