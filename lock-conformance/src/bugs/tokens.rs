//! Bugs in fencing tokens.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use futures_util::StreamExt;
use lock_core::{
    Backend, BackendError, Entry, EntryId, FencingToken, Hint, Lease, LockName, QueueRow, Renewal, Standing,
    Step, WaitMode, sync::Mutex,
};

use super::hints::change_hints;
use crate::Layer;

/// The token of a grant is the value of the name's counter after the grant (H103).
#[derive(Debug, Default)]
pub(super) struct TokenReadAfterwards(Tokens);

#[async_trait]
impl Layer for TokenReadAfterwards {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let mut standing = store.enter(entry, self.0.real_step(entry.id, step), wait).await?;
        if let Standing::Admitted { token, .. } = &mut standing {
            self.0.remember(entry.id, *token);
            let minted = store.operator().queue(&entry.name).await?.iter().filter_map(|row| row.token).max();
            *token = minted.unwrap_or(*token);
        }
        // A waiter that gets the lock by a hint reads the counter, too.
        change_hints(&mut standing, |told| Box::pin(told.map(|_| Hint::Changed)));
        Ok(standing)
    }

    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let real = |lease: &Lease| Lease {
            entry: Arc::clone(&lease.entry),
            token: self.0.real(lease.entry.id, lease.token),
        };
        let leases: Vec<_> = leases.iter().map(real).collect();
        store.renew(&leases).await
    }
}

/// Tokens are computed and stored as floating-point numbers (H105).
#[derive(Debug, Default)]
pub(super) struct FloatingTokens(Tokens);

/// The token as a Lua number.
fn floating(token: FencingToken) -> FencingToken {
    #[allow(clippy::cast_precision_loss, clippy::cast_sign_loss)] // That is the bug.
    FencingToken::new(token.get() as f64 as u64)
}

impl FloatingTokens {
    /// The token that the store compares: it treats tokens as equal if they are equal as floating-point numbers.
    fn stored(&self, entry: EntryId, token: FencingToken) -> FencingToken {
        let real = self.0.real(entry, token);
        if floating(real) == floating(token) { real } else { token }
    }
}

#[async_trait]
impl Layer for FloatingTokens {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let step = match step {
            Step::Create => Step::Create,
            Step::Again(token) => Step::Again(self.stored(entry.id, token)),
        };
        let mut standing = store.enter(entry, step, wait).await?;
        if let Standing::Admitted { token, .. } | Standing::Waiting { token, .. } = &mut standing {
            self.0.remember(entry.id, *token);
            *token = floating(*token);
        }
        change_hints(&mut standing, |told| {
            Box::pin(told.map(|hint| match hint {
                Hint::Admitted { token } => Hint::Admitted { token: floating(token) },
                Hint::Changed => Hint::Changed,
            }))
        });
        Ok(standing)
    }

    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let stored = |lease: &Lease| Lease {
            entry: Arc::clone(&lease.entry),
            token: self.stored(lease.entry.id, lease.token),
        };
        let leases: Vec<_> = leases.iter().map(stored).collect();
        store.renew(&leases).await
    }

    async fn queue(&self, store: &Arc<dyn Backend>, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        let mut rows = store.operator().queue(name).await?;
        for row in &mut rows {
            row.token = row.token.map(floating);
        }
        Ok(rows)
    }
}

/// The real tokens of the store, if a bug reports other ones.
#[derive(Debug, Default)]
struct Tokens(Mutex<HashMap<EntryId, FencingToken>>);

impl Tokens {
    fn remember(&self, entry: EntryId, token: FencingToken) {
        self.0.lock().insert(entry, token);
    }

    fn real(&self, entry: EntryId, told: FencingToken) -> FencingToken {
        self.0.lock().get(&entry).copied().unwrap_or(told)
    }

    fn real_step(&self, entry: EntryId, step: Step) -> Step {
        match step {
            Step::Create => Step::Create,
            Step::Again(told) => Step::Again(self.real(entry, told)),
        }
    }
}
