//! Connections to the database: to what stands under its very path, and without what SQLite would carry out by itself because somebody
//! who may write to the file has put it there.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags, config::DbConfig, limits::Limit};

use crate::{error::Failure, foreign_files};

/// What a file may not have us do.
const SETTINGS: [(DbConfig, bool); 4] = [
    (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
    (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
    (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
];

/// In bytes: the longest text or row that is read. What we write is shorter by far: a name and a label of some hundred bytes each.
const LONGEST_TEXT: i32 = 1024 * 1024;

/// Opens a file that is there, and reads nothing of it yet. It waits for nobody: we wait in our own way.
///
/// # Errors
/// If it cannot be opened, there is a link in its path, or something beside it that is none of ours.
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
