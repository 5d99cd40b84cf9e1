//! [`Files`]: where the file is, who may open it, and what stands beside it.

use std::{
    env,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use lock_core::BackendError;
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

use crate::{
    error::{of_io, unsupported},
    network, presence, schema,
};

/// For nobody else but the user.
const OWN_FILE: u32 = 0o600;
const OWN_FOLDER: u32 = 0o700;

/// A database and the folder of the processes that have it open.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) database: PathBuf,
    pub(crate) processes: PathBuf,
    /// The folder of the default file is ours to make.
    own_folder: bool,
}

impl Files {
    /// # Errors
    /// If there is no path, and no place for a default.
    pub(crate) fn new(path: Option<&Path>) -> Result<Self, BackendError> {
        let (database, own_folder) = match path {
            Some(path) => (path.to_owned(), false),
            None => (default_file()?, true),
        };
        // A process may change its folder later.
        let database =
            std::path::absolute(&database).map_err(|error| of_io("finding", &database, error).unsent())?;
        let mut processes = database.clone().into_os_string();
        processes.push("-processes");
        Ok(Self { database, processes: processes.into(), own_folder })
    }

    /// Makes the file, if it is missing, with the tables in it.
    ///
    /// # Errors
    /// If it cannot be made, or is where locks cannot be kept.
    pub(crate) fn prepare(&self) -> Result<(), BackendError> {
        let folder = self.database.parent().unwrap_or(Path::new("/"));
        if self.own_folder {
            make_own(folder)?;
        }
        let looked = network::refused(folder);
        if let Some(name) = looked.map_err(|error| of_io("looking at", folder, error).unsent())? {
            let why = format!(
                "it is on {name}, where processes do not see each other's locks; use a path on a disk of this machine"
            );
            return Err(unsupported(&self.database, &why));
        }
        if self.identity().is_none() {
            self.make(folder)?;
        }
        Ok(())
    }

    /// Makes the folder of the processes.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn make_processes(&self) -> Result<(), BackendError> {
        let mode = self.mode();
        let searched = mode | (mode & 0o444) >> 2;
        presence::make_folder(&self.processes, searched)
            .map_err(|error| of_io("making", &self.processes, error).unsent())
    }

    /// Makes the file before SQLite sees it, so that nobody else can ever open it, and gives it its name when it is whole. It is
    /// closed before: to close it later would drop the locks that this process may have on it by then.
    fn make(&self, folder: &Path) -> Result<(), BackendError> {
        let failed = |error| of_io("making", &self.database, error).unsent();
        let mut new = self.database.clone().into_os_string();
        new.push(format!("-{:016x}.new", presence::random().map_err(failed)?));
        let new = PathBuf::from(new);
        let named = create(&new).map_err(failed).and_then(|()| {
            schema::fill(&new).map_err(|fault| fault.at(&self.database).unsent())?;
            name(&new, &self.database).map_err(failed)
        });
        if !matches!(named, Ok(true)) {
            // It may not have been made.
            let _ = fs::remove_file(&new);
        }
        if named? {
            // So that the name outlives a loss of power, as the tokens in it do.
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        Ok(())
    }

    /// Who may use the locks is who may write to the database.
    pub(crate) fn mode(&self) -> u32 {
        fs::metadata(&self.database).map_or(OWN_FILE, |found| found.mode() & 0o666)
    }

    /// Which file it is. None if there is none.
    pub(crate) fn identity(&self) -> Option<(u64, u64)> {
        fs::metadata(&self.database).ok().map(|found| (found.dev(), found.ino()))
    }
}

fn create(new: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(OWN_FILE).open(new).map(drop)
}

/// False if somebody else was quicker: then his is the file.
fn name(new: &Path, database: &Path) -> io::Result<bool> {
    File::open(new)?.sync_all()?;
    match renameat_with(CWD, new, CWD, database, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// In the state directory. The runtime directory would be nearer, but what a user runs without a session (cron, a service)
/// does not know of it, and two defaults would be two worlds.
fn default_file() -> Result<PathBuf, BackendError> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    let state = state.ok_or_else(|| {
        unsupported(
            Path::new("the default file"),
            "neither XDG_STATE_HOME nor HOME is set; give a path: sqlite:PATH",
        )
    })?;
    Ok(state.join("distlock").join("locks.db"))
}

/// The folder of the default file: ours alone, or locks would be open to others.
fn make_own(folder: &Path) -> Result<(), BackendError> {
    let made = DirBuilder::new().recursive(true).mode(OWN_FOLDER).create(folder);
    made.map_err(|error| of_io("making", folder, error).unsent())?;
    let found = fs::metadata(folder).map_err(|error| of_io("looking at", folder, error).unsent())?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(of_io("using", folder, io::ErrorKind::PermissionDenied.into()).unsent());
    }
    if found.mode() & 0o077 != 0 {
        let closed = fs::set_permissions(folder, Permissions::from_mode(OWN_FOLDER));
        closed.map_err(|error| of_io("closing to others", folder, error).unsent())?;
    }
    Ok(())
}
