//! The tables of the file: created when it is empty, and checked when it is not.

use std::{
    path::Path,
    sync::OnceLock,
    time::{SystemTime, UNIX_EPOCH},
};

use lock_core::BackendError;
use rusqlite::Connection;

use crate::{
    clock_domain, connection,
    error::{Failure, not_ours, unsupported},
};

/// `dlck`, as a number: lets tools identify the file (`file locks.db`).
const APPLICATION: i32 = 0x646C_636B;

/// The version of the format below.
pub(crate) const VERSION: i32 = 1;

/// How many tokens can be minted before a higher ceiling has to be on the disk (PR33).
pub(crate) const TOKEN_BLOCK: i64 = 1 << 20;

/// Times are nanoseconds since the boot, on the clock of `meta.domain`. The order of the entries of one name is that of their tokens.
const TABLES: &str = "
    CREATE TABLE meta (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        domain TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        token INTEGER NOT NULL,
        ceiling INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE members (
        id INTEGER PRIMARY KEY,
        pid INTEGER NOT NULL,
        device INTEGER NOT NULL,
        inode INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE entries (
        name TEXT NOT NULL,
        token INTEGER NOT NULL,
        entry TEXT NOT NULL,
        kind TEXT NOT NULL,
        permits INTEGER NOT NULL,
        size INTEGER NOT NULL,
        expires INTEGER NOT NULL,
        admitted INTEGER NOT NULL,
        member INTEGER NOT NULL,
        label TEXT,
        PRIMARY KEY (name, token)
    ) STRICT, WITHOUT ROWID;
";

/// The state of a database file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseState {
    /// The file is empty.
    Empty,
    /// The file is a database of locks, in the known version.
    Ours,
}

/// Inspects a file in one read transaction, and changes nothing. Another process may create the tables in the meantime: without a
/// transaction, half of them would look like a foreign database.
///
/// # Errors
/// If the file is something else, or has a newer version.
pub(crate) fn inspect_snapshot(connection: &Connection, path: &Path) -> Result<DatabaseState, Failure> {
    let moment = connection.unchecked_transaction()?;
    inspect(&moment, path)
}

/// The same in a transaction that has begun.
///
/// # Errors
/// If the file is something else, or has a newer version.
pub(crate) fn inspect(connection: &Connection, path: &Path) -> Result<DatabaseState, Failure> {
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i32>(0));
    let (application, version) = (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if (application, version, tables) == (0, 0, 0) {
        return Ok(DatabaseState::Empty);
    }
    if application != APPLICATION {
        return Err(Failure::Refused(foreign(path)));
    }
    if version != VERSION {
        return Err(Failure::Refused(other_version(path, version)));
    }
    let (found, ours) = (SchemaObject::all(connection)?, SchemaObject::ours()?);
    // An object that is not ours, or else one that is missing.
    let differs = found.iter().find(|part| !ours.contains(part));
    match differs.or_else(|| ours.iter().find(|part| !found.contains(part))) {
        Some(part) => Err(Failure::Refused(changed(path, part))),
        None => Ok(DatabaseState::Ours),
    }
}

/// A table, or another object of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SchemaObject {
    kind: String,
    name: String,
    sql: Option<String>,
}

impl SchemaObject {
    /// All objects of a file, or the first ones if it has many more than ours.
    fn all(connection: &Connection) -> Result<Vec<Self>, Failure> {
        let mut select = connection.prepare("SELECT type, name, sql FROM sqlite_schema LIMIT 16")?;
        let parts = select
            .query_map([], |row| Ok(Self { kind: row.get(0)?, name: row.get(1)?, sql: row.get(2)? }))?;
        Ok(parts.collect::<Result<_, _>>()?)
    }

    /// The objects of our tables.
    fn ours() -> Result<&'static [Self], Failure> {
        static OURS: OnceLock<Vec<SchemaObject>> = OnceLock::new();
        if let Some(ours) = OURS.get() {
            return Ok(ours);
        }
        let memory = Connection::open_in_memory()?;
        memory.execute_batch(TABLES)?;
        let ours = Self::all(&memory)?;
        Ok(OURS.get_or_init(|| ours))
    }
}

/// Foreign additions could keep all users from the locks: an index or a check is executed with each change.
fn changed(path: &Path, part: &SchemaObject) -> BackendError {
    let SchemaObject { kind, name, .. } = part;
    let (kind, name) = (kind.escape_debug(), name.escape_debug());
    let why = format!(
        "the {kind} `{name}` in it is not as this library creates it: drop what was added, or move the file away while no process uses it"
    );
    not_ours(path, &why)
}

fn foreign(path: &Path) -> BackendError {
    not_ours(path, "this is a database of another program and was left alone; give locks a file of their own")
}

fn other_version(path: &Path, version: i32) -> BackendError {
    let why = format!(
        "its format is {version}, and this version of the library knows {VERSION}; use the same version in all processes"
    );
    unsupported(path, &why)
}

/// Creates the tables in an empty file that no other process sees yet, without waiting for the disk: the caller does that, once.
///
/// # Errors
/// An error of SQLite, or of the files that identify the boot.
pub(crate) fn initialize(path: &Path) -> Result<(), Failure> {
    let mut connection = connection::open(path)?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "journal_mode", "MEMORY")?;
    let transaction = connection.transaction()?;
    create_tables(&transaction, &clock_domain::of_this_process()?)?;
    transaction.commit()?;
    // The header records the mode. No log is written for it.
    Ok(connection.pragma_update(None, "journal_mode", "WAL")?)
}

/// Creates the tables in an empty file. Called in a transaction.
///
/// # Errors
/// An error of SQLite.
pub(crate) fn create_tables(connection: &Connection, domain: &str) -> Result<(), Failure> {
    connection.execute_batch(TABLES)?;
    let token = since_1970();
    connection.execute("INSERT INTO meta VALUES (1, ?1, 1, ?2, ?3)", (domain, token, token + TOKEN_BLOCK))?;
    connection.pragma_update(None, "application_id", APPLICATION)?;
    Ok(connection.pragma_update(None, "user_version", VERSION)?)
}

/// The first token of a new file or log: above those of an earlier one, so that tokens grow even if that one is lost, because minting a
/// token takes longer than a microsecond.
pub(crate) fn since_1970() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

    use super::*;

    /// The reader is stopped between its first query and its second one until the tables exist.
    #[test]
    fn a_file_that_is_filled_while_it_is_read_is_not_taken_for_a_foreign_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let (reader, mut maker) = (Connection::open(&path).unwrap(), Some(Connection::open(&path).unwrap()));
        reader.pragma_update(None, "journal_mode", "wal").unwrap();
        let made = move |context: AuthContext<'_>| {
            if let AuthAction::Pragma { pragma_name: "user_version", .. } = context.action
                && let Some(mut maker) = maker.take()
            {
                let making = maker.transaction().unwrap();
                create_tables(&making, "here").unwrap();
                making.commit().unwrap();
            }
            Authorization::Allow
        };
        reader.authorizer(Some(made)).unwrap();

        assert_eq!(inspect_snapshot(&reader, &path).ok(), Some(DatabaseState::Empty));
        assert_eq!(inspect_snapshot(&reader, &path).ok(), Some(DatabaseState::Ours));
    }
}
