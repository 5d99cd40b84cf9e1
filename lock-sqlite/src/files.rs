//! [`Files`]: the paths of the database and of the files beside it.

use std::{
    env,
    fs::{self, DirBuilder, File, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use lock_core::BackendError;

use crate::{
    access::Access,
    error::{denied, no_folder, of_io, unsupported},
    file_id::{FileId, file_id},
    network_filesystem, symlinks,
};

/// The mode of a folder for the user alone.
const OWN_FOLDER: u32 = 0o700;

/// The paths of a database and of the files beside it.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    /// The path in the settings. A link in it may lead elsewhere later.
    given: PathBuf,
    /// The same path without links, as of the last time it was opened. All users of the file agree on this path.
    pub(crate) database: PathBuf,
    /// The folder with the files of the processes that use the database.
    pub(crate) processes: PathBuf,
    pub(crate) wal: PathBuf,
    pub(crate) shm: PathBuf,
    /// Whether this is the default file, whose folder is created if it is missing.
    own_folder: bool,
}

impl Files {
    /// # Errors
    /// If there is no path, and no place for a default.
    pub(crate) fn new(path: Option<&Path>) -> Result<Self, BackendError> {
        let (database, own_folder) = match path {
            Some(path) => (from_home(path, absolute("HOME"))?, false),
            None => (default_file()?, true),
        };
        // A process may change its working directory later.
        let database =
            std::path::absolute(&database).map_err(|error| of_io("finding", &database, error).unsent())?;
        Ok(Self::at(database.clone(), database, own_folder))
    }

    fn at(given: PathBuf, database: PathBuf, own_folder: bool) -> Self {
        let beside = |suffix: &str| {
            let mut path = database.clone().into_os_string();
            path.push(suffix);
            PathBuf::from(path)
        };
        let (processes, wal, shm) = (beside("-processes"), beside("-wal"), beside("-shm"));
        Self { given, database, processes, wal, shm, own_folder }
    }

    /// The path in the settings.
    pub(crate) fn given(&self) -> &Path {
        &self.given
    }

    /// Whether the settings have no path.
    pub(crate) fn is_default(&self) -> bool {
        self.own_folder
    }

    /// Follows the links in the path. The file may be missing if its folder is there.
    fn resolve(&mut self) -> Result<(), BackendError> {
        let followed = symlinks::follow(&self.given);
        let path = followed.map_err(|error| of_io("following", &self.given, error).unsent())?;
        let folder = path.parent().and_then(|folder| fs::canonicalize(folder).ok());
        if let Some(database) = folder.zip(path.file_name()).map(|(folder, name)| folder.join(name)) {
            *self = Self::at(std::mem::take(&mut self.given), database, self.own_folder);
        }
        Ok(())
    }

    /// Finds out where the file is, or has to be created.
    ///
    /// # Errors
    /// If its folder is missing, or is on a file system on which locks cannot be kept.
    pub(crate) fn locate(&mut self) -> Result<(), BackendError> {
        if self.own_folder {
            make_own(self.given.parent().unwrap_or(Path::new("/")))?;
        }
        self.resolve()?;
        let folder = self.folder();
        let looked = network_filesystem::refused(folder).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => no_folder(&self.given, folder, error),
            _ => of_io("looking at", folder, error).unsent(),
        });
        if let Some(name) = looked? {
            let why = format!(
                "it is on {name}, where processes do not see each other's locks; use a path on a disk of this machine"
            );
            return Err(unsupported(&self.database, &why));
        }
        Ok(())
    }

    /// The folder of the database.
    pub(crate) fn folder(&self) -> &Path {
        self.database.parent().unwrap_or(Path::new("/"))
    }

    /// The access rights of the files beside the database: users who may write to the database may use its locks.
    ///
    /// # Errors
    /// If the file cannot be looked at.
    pub(crate) fn access(&self) -> Result<Access, BackendError> {
        let found = fs::symlink_metadata(&self.database);
        let found = found.map_err(|error| of_io("looking at", &self.database, error).unsent())?;
        if !found.is_file() {
            return Err(denied(&self.database, "it is not a regular file; remove it"));
        }
        Ok(Access::of(&found))
    }

    /// Gives users who may write to the database access to the log and the shared memory: SQLite creates them with the mode of the database,
    /// but with the group of the process that creates them.
    ///
    /// # Errors
    /// If they cannot be looked at.
    pub(crate) fn share(&self) -> Result<(), BackendError> {
        let access = self.access()?;
        for path in [&self.wal, &self.shm] {
            access.apply_group(path).map_err(|error| of_io("looking at", path, error).unsent())?;
        }
        Ok(())
    }

    /// The id of the file that has the path now. None if there is no file, or a link that must not be followed.
    pub(crate) fn identity(&self) -> Option<FileId> {
        let found = fs::symlink_metadata(&self.given).ok()?;
        if found.is_symlink() {
            return file_id(&symlinks::follow(&self.given).ok()?);
        }
        Some((found.dev(), found.ino()))
    }
}

/// A file in the state directory. The runtime directory would be more obvious, but programs that run without a session (cron, a service) do
/// not know it, and locks in two default files would not exclude each other.
fn default_file() -> Result<PathBuf, BackendError> {
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    let state = state.ok_or_else(|| {
        unsupported(
            Path::new("the default file"),
            "neither XDG_STATE_HOME nor HOME is set; give a path: sqlite:PATH",
        )
    })?;
    Ok(state.join("distlock").join("locks.db"))
}

/// A path as a shell reads it: `~/` is the home folder. No shell has read the path in a URL.
fn from_home(path: &Path, home: Option<PathBuf>) -> Result<PathBuf, BackendError> {
    let Ok(below) = path.strip_prefix("~") else { return Ok(path.to_owned()) };
    let home = home.ok_or_else(|| unsupported(path, "HOME is not set; give the whole path"))?;
    Ok(home.join(below))
}

/// The value of a variable, if it is an absolute path.
fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Creates the folder of the default file, for the user alone: otherwise other users could take its locks.
fn make_own(folder: &Path) -> Result<(), BackendError> {
    let made = DirBuilder::new().recursive(true).mode(OWN_FOLDER).create(folder);
    made.map_err(|error| of_io("making", folder, error).unsent())?;
    let looking = |error| of_io("looking at", folder, error).unsent();
    let own = File::open(folder).map_err(looking)?;
    let found = own.metadata().map_err(looking)?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(of_io("using", folder, io::ErrorKind::PermissionDenied.into()).unsent());
    }
    if found.mode() & 0o077 != 0 {
        let closed = own.set_permissions(Permissions::from_mode(OWN_FOLDER));
        closed.map_err(|error| of_io("closing to others", folder, error).unsent())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tilde_at_the_start_of_a_path_is_the_home_folder_and_nowhere_else() {
        for (path, expected) in [
            ("~/locks.db", "/home/me/locks.db"),
            ("~//a/locks.db", "/home/me/a/locks.db"),
            ("/a/~/locks.db", "/a/~/locks.db"),
            ("./~/locks.db", "./~/locks.db"),
            ("~me/locks.db", "~me/locks.db"),
            ("locks.db~", "locks.db~"),
        ] {
            let found = from_home(Path::new(path), Some("/home/me".into())).unwrap();
            assert_eq!(found, Path::new(expected), "{path}");
        }
        let error = from_home(Path::new("~/locks.db"), None).unwrap_err();
        assert!(error.is_unsent() && error.to_string().contains("~/locks.db: HOME is not set"), "{error}");
        assert!(from_home(Path::new("/a/locks.db"), None).is_ok());
        let file = Files::new(Some(Path::new("~/locks.db"))).map(|files| files.database);
        assert_eq!(file.ok(), absolute("HOME").map(|home| home.join("locks.db")));
    }
}
