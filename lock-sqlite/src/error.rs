//! [`Failure`]s, and the [`BackendError`]s that callers get.

use std::{io, path::Path, time::Duration};

use lock_core::{BackendError, BackendErrorKind as Kind};
use rusqlite::{Error as Sqlite, ErrorCode};

use crate::{config::SqliteConfig, writer::Writer};

/// The name of this store in [`BackendError`]s.
pub(crate) const STORE: &str = "sqlite";

/// Why an operation was not carried out.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of SQLite, or of the file behind it.
    Sqlite(Sqlite),
    /// The request was refused.
    Refused(BackendError),
    /// Something in the file was not written by this library, such as `an entry id`.
    Damaged(&'static str),
    /// The operation takes more time than it may on a caller's thread. Only the executor sees this.
    TakesTime,
}

impl From<Sqlite> for Failure {
    fn from(error: Sqlite) -> Self {
        Self::Sqlite(error)
    }
}

impl Failure {
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Sqlite(error) if is_busy(error))
    }

    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull))
    }

    /// The error for callers, with the path of the file. The transaction was rolled back.
    pub(crate) fn at(self, path: &Path) -> BackendError {
        match self {
            Self::Refused(error) => error,
            Self::Sqlite(error) => of_sqlite(path, error),
            Self::Damaged(what) => {
                let why = format!("{what} in it was not written by this library; see what else writes to it");
                BackendError::new(STORE, Kind::Protocol, format!("{}: {why}", path.display())).advised()
            }
            Self::TakesTime => BackendError::new(STORE, Kind::Unavailable, "it takes time").unsent(),
        }
    }
}

pub(crate) fn is_busy(error: &Sqlite) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// An error of SQLite, about this file.
pub(crate) fn of_sqlite(path: &Path, error: Sqlite) -> BackendError {
    let kind = kind(error.sqlite_error_code(), path);
    let hint = match kind {
        Kind::Protocol => "; it is damaged, or no database of locks: move it away while no process uses it",
        Kind::Unreachable => "; check the path, and that its folder exists",
        Kind::TimedOut => "; it took as long as a command may take: see what else is in the file",
        _ => "",
    };
    let told =
        BackendError::new(STORE, kind, format!("{}: {error}{hint}", path.display())).with_source(error);
    if hint.is_empty() { told } else { told.advised() }
}

fn kind(code: Option<ErrorCode>, path: &Path) -> Kind {
    match code {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            Kind::Unavailable
        }
        Some(ErrorCode::DiskFull | ErrorCode::OutOfMemory) => Kind::OutOfMemory,
        Some(ErrorCode::OperationInterrupted) => Kind::TimedOut,
        Some(ErrorCode::ReadOnly) => Kind::ReadOnly,
        Some(ErrorCode::PermissionDenied) => Kind::Denied,
        // If the shared memory grows, a full disk is reported as an I/O error.
        Some(ErrorCode::SystemIoFailure) if is_full(path) => Kind::OutOfMemory,
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => Kind::Unreachable,
        _ => Kind::Protocol,
    }
}

fn is_full(path: &Path) -> bool {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_bavail < 64)
}

/// An error of the operating system, at `doing` something.
pub(crate) fn of_io(doing: &str, path: &Path, error: io::Error) -> BackendError {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied => Kind::Denied,
        io::ErrorKind::ReadOnlyFilesystem => Kind::ReadOnly,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Kind::OutOfMemory,
        _ => Kind::Unreachable,
    };
    BackendError::new(STORE, kind, format!("{doing} {}: {error}", path.display())).with_source(error)
}

/// The folder of the file is missing.
pub(crate) fn no_folder(database: &Path, folder: &Path, error: io::Error) -> BackendError {
    let remedy = if database == Path::new(SqliteConfig::MACHINE_FILE) {
        "make it as root: `distlock setup-machine --group NAME`"
    } else {
        "make it, or name a file elsewhere"
    };
    let message = format!("there is no folder {}; {remedy}", folder.display());
    BackendError::new(STORE, Kind::Unreachable, message).unsent().advised().with_source(error)
}

/// The file was not free to write to for the whole time limit, so the caller does not retry immediately.
pub(crate) fn busy(path: &Path, patience: Duration, writer: Option<&Writer>) -> BackendError {
    let (path, pid) = (path.display(), writer.map_or(0, Writer::pid));
    let why = match writer {
        Some(writer) if writer.stopped => {
            format!("{writer} writes to it, and is stopped; let it continue (`kill -CONT {pid}`), or end it")
        }
        Some(writer) => {
            format!("{writer} writes to it now; see what delays it, or which process writes all the time")
        }
        None => format!("other processes wrote to it; see which have it open (`fuser {path}`)"),
    };
    let message = format!("{path}: it could not be written to within {patience:?}: {why}");
    BackendError::new(STORE, Kind::TimedOut, message).unsent().advised()
}

/// A file or a file system that cannot keep locks. `why` says what to do.
pub(crate) fn unsupported(path: &Path, why: &str) -> BackendError {
    BackendError::new(STORE, Kind::Unsupported, format!("{}: {why}", path.display())).unsent().advised()
}

/// A file that another user may have put there. `why` says what to do.
pub(crate) fn denied(path: &Path, why: &str) -> BackendError {
    BackendError::new(STORE, Kind::Denied, format!("{}: {why}", path.display())).unsent().advised()
}

/// A state that other processes may still fix.
pub(crate) fn not_ready(path: &Path, why: &str) -> BackendError {
    BackendError::new(STORE, Kind::Unavailable, format!("{}: {why}", path.display())).unsent()
}

/// The file is not a database of locks. `why` says what to do.
pub(crate) fn not_ours(path: &Path, why: &str) -> BackendError {
    BackendError::new(STORE, Kind::Protocol, format!("{}: {why}", path.display())).unsent().advised()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_about_a_damaged_row_is_said_once_and_names_the_file() {
        let error = Failure::Damaged("a claim").at(Path::new("/locks.db"));
        let said = "/locks.db: a claim in it was not written by this library; see what else writes to it";
        let explained = error.explained().to_string();
        assert_eq!(explained, format!("the answer of the store was not understood (sqlite: {said})"));
    }

    /// If it is made by hand, it does not have the mode and the group that it needs.
    #[test]
    fn the_missing_folder_of_the_machine_is_made_by_the_command() {
        let missing = |database: &str, folder: &str| {
            no_folder(Path::new(database), Path::new(folder), io::ErrorKind::NotFound.into()).to_string()
        };
        let machine = missing(SqliteConfig::MACHINE_FILE, "/var/lib/distlock");
        assert!(machine.contains("there is no folder /var/lib/distlock; make it as root: "), "{machine}");
        assert!(machine.contains("`distlock setup-machine --group NAME`"), "{machine}");
        let other = missing("/a/locks.db", "/a");
        assert!(other.contains("there is no folder /a; make it, or name a file elsewhere"), "{other}");
    }

    #[test]
    fn every_trouble_of_a_file_has_a_kind() {
        let here = Path::new("/locks.db");
        for (code, expected) in [
            (ErrorCode::DatabaseBusy, Kind::Unavailable),
            (ErrorCode::DiskFull, Kind::OutOfMemory),
            (ErrorCode::OperationInterrupted, Kind::TimedOut),
            (ErrorCode::ReadOnly, Kind::ReadOnly),
            (ErrorCode::PermissionDenied, Kind::Denied),
            (ErrorCode::CannotOpen, Kind::Unreachable),
            (ErrorCode::SystemIoFailure, Kind::Unreachable),
            (ErrorCode::DatabaseCorrupt, Kind::Protocol),
            (ErrorCode::NotADatabase, Kind::Protocol),
        ] {
            assert_eq!(kind(Some(code), here), expected);
        }
    }
}
