//! Connections to the database at exactly its path, with all features off by which SQLite would execute something that another user wrote
//! into the file.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags, config::DbConfig, limits::Limit};

use crate::{error::Failure, foreign_files};

/// Features that a file could misuse.
const SETTINGS: [(DbConfig, bool); 4] = [
    (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
    (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
    (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
];

/// The longest text or row that is read, in bytes. Ours are far shorter: a name and a label of some hundred bytes each.
const LONGEST_TEXT: i32 = 1024 * 1024;

/// Opens an existing file, and reads nothing from it yet. SQLite's own waiting is off: see [`retry`](crate::retry).
///
/// # Errors
/// If it cannot be opened, if there is a link in its path, or if there is a foreign file beside it.
pub(crate) fn open(path: &Path) -> Result<Connection, Failure> {
    foreign_files::refuse(path)?;
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW,
    )?;
    connection.busy_timeout(Duration::ZERO)?;
    for (setting, on) in SETTINGS {
        connection.set_db_config(setting, on)?;
    }
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_TEXT)?;
    Ok(connection)
}
