//! Users of one group, and their files.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    sync::Arc,
};

use lock_conformance::{audit::LONG, copy_program, ran_nothing};
use lock_core::{AcquireOptions, BackendError, Keeper, Lock, Locks, SystemEntropy};
use lock_sqlite::{ConnectError, Sqlite};

use crate::file::{OwnFile, config};

/// User and group ids that are not in use.
pub(crate) const GROUP: u32 = 54_321;
pub(crate) const ANNA: u32 = 54_001;
pub(crate) const BERT: u32 = 54_002;

pub(crate) fn job(path: &Path) -> Lock {
    let keeper = Keeper::start().unwrap();
    let backend = Arc::new(Sqlite::new(config(path), &keeper).unwrap());
    let locks = Locks::with(backend, keeper, Arc::new(SystemEntropy));
    locks.with_options(AcquireOptions::new().ttl(LONG)).mutex("job").unwrap()
}

pub(crate) async fn refused(path: &Path) -> BackendError {
    match Sqlite::connect(config(path), &Keeper::start().unwrap()).await {
        Err(ConnectError::Store(error)) => error,
        other => panic!("it was not refused: {other:?}"),
    }
}

/// A file made as `docs/backends/sqlite.md` says, with the program of these tests beside it, so that other users may run it.
pub(crate) fn shared(folder_mode: u32) -> (OwnFile, PathBuf) {
    let file = OwnFile::new();
    let folder = file.path().parent().unwrap().to_owned();
    let program = folder.join("program");
    copy_program(std::env::current_exe().unwrap(), &program, 0o755);
    fs::write(file.path(), "").unwrap();
    for (path, mode) in [(file.path(), 0o660), (folder, folder_mode)] {
        chown(&path, None, Some(GROUP)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    (file, program)
}

/// A file that is private to one user.
pub(crate) fn private(user: u32) -> (OwnFile, PathBuf) {
    let (file, program) = shared(0o700);
    for (path, mode) in [(file.path(), 0o600), (file.path().parent().unwrap().to_owned(), 0o700)] {
        chown(&path, Some(user), Some(user)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    (file, program)
}

/// Whether this process may act as any user, which only root may.
pub(crate) fn may_be_anybody(test: &str) -> bool {
    let may = rustix::process::geteuid().is_root();
    if !may {
        ran_nothing(test, "it takes other users");
    }
    may
}

/// The files in the folder of the processes with this extension.
pub(crate) fn processes(file: &OwnFile, extension: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(file.processes()).into_iter().flatten().flatten().map(|found| found.path());
    all.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}
