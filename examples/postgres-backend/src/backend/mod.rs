//! [`Postgres`]: the verbs.

mod operator;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::{
    Alarms, Backend, BackendError, BackendErrorKind, Clock, Creates, Departure, Entry, EntryId, Guarantees,
    Holder, Keeper, Kind, Lease, LockName, Operator, Renewal, Standing, Step, WaitMode, valid_until,
};
use tokio_postgres::{Config, Row, types::Type};

use crate::{
    client::{Client, Parameter},
    error::{STORE, unexpected},
    guarantees::GUARANTEES,
    reply::{duration, field, label_text, token},
    session::REQUEST_TIMEOUT,
};

/// How long the tombstone of an entry is kept at least, if its create was in doubt when it left: longer than a late create can take to arrive.
const TOMBSTONE_TTL: Duration = Duration::from_secs(60);

/// How many leases one transaction renews: verbs of the same names wait for it.
const RENEWALS_AT_ONCE: usize = 64;

/// Locks in a schema of a PostgreSQL database, version 12 or later. Create one for each process, and share it.
pub struct Postgres {
    pub(crate) client: Client,
    clock: Arc<dyn Clock>,
}

impl Postgres {
    /// A backend that connects when it is first used, and creates the schema if it is missing.
    ///
    /// # Errors
    /// [`BackendError`] if the operating system cannot start one more thread.
    pub fn new(server: Config, schema: &str, keeper: &Keeper) -> Result<Self, BackendError> {
        Ok(Self { client: Client::new(server, schema)?, clock: Arc::clone(keeper.clock()) })
    }

    /// Removes an entry: for its own client, with the time to keep a tombstone if its create is in doubt, or for an operator.
    pub(crate) async fn remove(
        &self,
        name: &LockName,
        entry: EntryId,
        doubt: Option<i64>,
        evicted: bool,
    ) -> Result<Departure, BackendError> {
        let parameters: [Parameter<'_>; 4] = [
            (&name.as_str().as_bytes(), Type::BYTEA),
            (&entry.to_string(), Type::TEXT),
            (&doubt, Type::INT8),
            (&evicted, Type::BOOL),
        ];
        let row = self.client.row("SELECT leave($1, $2, $3, $4)", &parameters, REQUEST_TIMEOUT).await?;
        Ok(if field(&row, 0)? { Departure::Left } else { Departure::Absent })
    }

    async fn renew_some(&self, leases: &[Lease]) -> Result<Vec<bool>, BackendError> {
        let all = |part: fn(&Lease) -> String| leases.iter().map(part).collect::<Vec<_>>();
        let names: Vec<_> = leases.iter().map(|lease| lease.entry.name.as_str().as_bytes()).collect();
        let entries = all(|lease| lease.entry.id.to_string());
        let tokens: Vec<_> = leases.iter().map(|lease| lease.token.get().cast_signed()).collect();
        let ttls: Vec<_> = leases.iter().map(|lease| micros(lease.entry.ttl)).collect();
        let parameters: [Parameter<'_>; 4] = [
            (&names, Type::BYTEA_ARRAY),
            (&entries, Type::TEXT_ARRAY),
            (&tokens, Type::INT8_ARRAY),
            (&ttls, Type::INT8_ARRAY),
        ];
        // The keeper tries again after a sixth of the ttl. By then, a dead connection should have been replaced.
        let doubt = leases.iter().map(|lease| lease.entry.ttl / 6).min().unwrap_or(REQUEST_TIMEOUT);
        let row = self.client.row("SELECT renew($1, $2, $3, $4)", &parameters, doubt).await?;
        let renewed: Vec<bool> = field(&row, 0)?;
        if renewed.len() == leases.len() { Ok(renewed) } else { Err(unexpected("too few answers")) }
    }
}

#[async_trait]
impl Backend for Postgres {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        let again = match step {
            Step::Create => None,
            Step::Again(token) => Some(token.get().cast_signed()),
        };
        let label = entry.label.as_deref().map(str::as_bytes);
        let (ttl, stays) = (micros(entry.ttl), wait == WaitMode::Queue);
        let parameters: [Parameter<'_>; 10] = [
            (&entry.name.as_str().as_bytes(), Type::BYTEA),
            (&entry.id.to_string(), Type::TEXT),
            (&entry.claim.kind().word(), Type::TEXT),
            (&i64::from(entry.claim.permits()), Type::INT8),
            (&i64::from(entry.claim.limit()), Type::INT8),
            (&ttl, Type::INT8),
            (&label, Type::BYTEA),
            (&again, Type::INT8),
            (&stays, Type::BOOL),
            (&self.client.sessions.channel(), Type::TEXT),
        ];
        // C6: hints are live before the standing is judged.
        let hints = self.client.sessions.notifier().listen(entry.id);
        // PR01: a lease is counted from before its request is sent.
        let sent = self.clock.now();
        let enter = "SELECT * FROM enter($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let row = self.client.row(enter, &parameters, REQUEST_TIMEOUT).await?;
        let (ttl, valid_until) = (entry.ttl, valid_until(sent, entry.ttl, entry.ttl));
        match field(&row, "standing")? {
            "admitted" => Ok(Standing::Admitted { token: token(&row)?, ttl, valid_until }),
            "waiting" => Ok(Standing::Waiting {
                token: token(&row)?,
                ttl,
                valid_until,
                ahead: field::<i64>(&row, "ahead")?.unsigned_abs(),
                holder: Some(Holder::Ours { label: label_text(field(&row, "holder")?) }),
                // Counted from now: a look that is too early would have to be repeated.
                look_again: self.clock.now() + duration(field(&row, "look_again")?),
                hints,
            }),
            "busy" => Ok(Standing::Busy),
            "gone" => Ok(Standing::Gone),
            "mismatch" => Err(mismatch(&row)?),
            other => Err(unexpected(&format!("the standing `{other}`"))),
        }
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let sent = self.clock.now();
        let batches = leases.chunks(RENEWALS_AT_ONCE).map(|leases| async move {
            let answer = |(lease, renewed): (&Lease, bool)| {
                let valid_until = valid_until(sent, lease.entry.ttl, lease.entry.ttl);
                Ok(if renewed { Renewal::Renewed { valid_until } } else { Renewal::Lost })
            };
            match self.renew_some(leases).await {
                Ok(renewed) => leases.iter().zip(renewed).map(answer).collect::<Vec<_>>(),
                // The error of the batch is that of each lease in it.
                Err(error) => leases.iter().map(|_| Err(error.clone())).collect(),
            }
        });
        join_all(batches).await.concat()
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        let doubt = (creates == Creates::InDoubt).then(|| micros(entry.ttl.max(TOMBSTONE_TTL)));
        self.remove(&entry.name, entry.id, doubt, false).await
    }

    /// Nothing to do: there are only rows, and connections, which close with the backend.
    async fn give_back(&self) {}

    fn alarms(&self) -> Alarms {
        self.client.sessions.notifier().alarms()
    }

    fn guarantees(&self) -> &Guarantees {
        &GUARANTEES
    }

    fn operator(&self) -> &dyn Operator {
        self
    }
}

fn mismatch(row: &Row) -> Result<BackendError, BackendError> {
    let kind = Kind::from_word(field(row, "found_kind")?);
    let found_limit = field::<i64>(row, "found_size")?.try_into().ok();
    let (Some(found_kind), Some(found_limit)) = (kind, found_limit) else {
        return Err(unexpected("a claim"));
    };
    let message = format!("the queue is that of a {found_kind} with limit {found_limit}");
    Ok(BackendError::new(STORE, BackendErrorKind::ClaimMismatch { found_kind, found_limit }, message))
}

/// 292 000 years fit.
fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("client", &self.client).finish_non_exhaustive()
    }
}
