//! The queues for people and tools, and the diagnosis of the server.

use async_trait::async_trait;
use lock_core::{BackendError, Claim, Departure, Diagnosis, EntryId, Kind, LockName, Operator, QueueRow};
use tokio_postgres::{Row, types::Type};

use crate::{
    Postgres,
    error::unexpected,
    reply::{duration, field, label_text, token},
    session::REQUEST_TIMEOUT,
};

#[async_trait]
impl Operator for Postgres {
    async fn queue(&self, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        let name = name.as_str().as_bytes();
        let rows =
            self.client.rows("SELECT * FROM show($1)", &[(&name, Type::BYTEA)], REQUEST_TIMEOUT).await?;
        rows.iter().map(queue_row).collect()
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockName>, BackendError> {
        let prefix = prefix.as_bytes();
        let rows = self.client.rows("SELECT list($1)", &[(&prefix, Type::BYTEA)], REQUEST_TIMEOUT).await?;
        rows.iter().map(|row| name(field(row, 0)?)).collect()
    }

    async fn evict(&self, name: &LockName, entry: EntryId) -> Result<Departure, BackendError> {
        self.remove(name, entry, None, true).await
    }

    async fn diagnose(&self) -> Result<Diagnosis, BackendError> {
        let facts = "SELECT current_setting('server_version'), current_setting('synchronous_commit'), \
                     current_setting('fsync'), (SELECT count(*) FROM entries)::text";
        let row = self.client.row(facts, &[], REQUEST_TIMEOUT).await?;
        let mut diagnosis = Diagnosis::default();
        for (i, fact) in ["version", "synchronous_commit", "fsync", "entries"].into_iter().enumerate() {
            diagnosis.facts.push((fact, field::<String>(&row, i)?));
        }
        for (setting, value) in &diagnosis.facts {
            if matches!(*setting, "synchronous_commit" | "fsync") && value == "off" {
                let problem = format!(
                    "`{setting}` is off: a lock that was granted may be forgotten in a crash; set it to on"
                );
                diagnosis.problems.push(problem);
            }
        }
        Ok(diagnosis)
    }
}

fn queue_row(row: &Row) -> Result<QueueRow, BackendError> {
    let number = |column| field::<i64>(row, column).map(|number| u32::try_from(number).unwrap_or(0));
    let kind = Kind::from_word(field(row, "kind")?);
    let (permits, limit) = (number("permits")?, number("size")?);
    let claim =
        kind.and_then(|kind| Claim::from_parts(kind, permits, limit)).ok_or_else(|| unexpected("a claim"))?;
    Ok(QueueRow {
        entry: Some(field::<&str>(row, "entry")?.parse().map_err(|_| unexpected("an entry id"))?),
        claim,
        admitted: field(row, "admitted")?,
        token: Some(token(row)?),
        lease_left: Some(duration(field(row, "lease_left")?)),
        label: label_text(field(row, "label")?),
    })
}

fn name(bytes: &[u8]) -> Result<LockName, BackendError> {
    let name = std::str::from_utf8(bytes).ok().and_then(|name| LockName::new(name).ok());
    name.ok_or_else(|| unexpected("a name"))
}
