//! [`ProcessFolder`]: the folder with the files of all processes. It is used through its descriptor, so that another folder that replaces it
//! is never used by mistake.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::{fs::MetadataExt, net::UnixDatagram},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, fstat, mkdirat, openat, renameat, renameat_with,
        unlinkat,
    },
    io::Errno,
    path::Arg,
};

use crate::{
    access::{Access, is_ours},
    file_id::FileId,
    random,
};

/// An open folder. Only users who may write to the database may write to it.
#[derive(Debug)]
pub(crate) struct ProcessFolder {
    fd: OwnedFd,
    path: PathBuf,
    access: Access,
}

impl ProcessFolder {
    /// Opens the folder, and creates it if it is missing.
    ///
    /// # Errors
    /// If it cannot be created, is not a folder, or other users may write to it.
    pub(crate) fn open(path: &Path, access: Access) -> io::Result<Self> {
        let opened = match look_into(CWD, path) {
            Err(Errno::NOENT) => {
                make(path, access)?;
                look_into(CWD, path)
            }
            opened => opened,
        };
        let fd = opened.map_err(|error| match error {
            Errno::NOTDIR | Errno::LOOP => refused("it is a link, or not a folder; remove it"),
            error => error.into(),
        })?;
        let found = fstat(&fd)?;
        if !access.trusts(&found) {
            let (mode, user, group) = (found.st_mode & 0o7777, found.st_uid, found.st_gid);
            let why = format!(
                "users who may not write to the database may write to it (mode {mode:o}, user {user}, group {group}); \
                 remove it while no process uses the database"
            );
            return Err(refused(&why));
        }
        Ok(Self { fd, path: path.to_owned(), access })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file in the folder. A user who may write to the folder may have put anything there. Opening a pipe would block until
    /// another process writes to it, in the middle of a transaction that blocks all others; a link leads anywhere.
    ///
    /// # Errors
    /// If there is no such file, or it is not a regular file.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(&self.fd, name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// The same, only for a file whose owner may write to the database.
    ///
    /// # Errors
    /// If there is no such file, or it is not a regular file, or it belongs to another user.
    pub(crate) fn open_trusted_file(&self, name: &str) -> io::Result<File> {
        let file = self.open_file(name)?;
        if self.access.is_of_one(&file.metadata()?) {
            Ok(file)
        } else {
            Err(io::ErrorKind::InvalidInput.into())
        }
    }

    /// Creates a file for this user alone.
    ///
    /// # Errors
    /// If it cannot be created, or already exists.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?))
    }

    /// Creates a socket for the users who may write to the database. It gets its name once they may use it. Until then it is in the private
    /// folder `staging`.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn bind(&self, name: &str, staging: &str, access: Access) -> io::Result<UnixDatagram> {
        mkdirat(&self.fd, staging, Mode::RWXU)?;
        let bound = look_into_own(self.fd.as_fd(), staging).and_then(|own| {
            let socket = UnixDatagram::bind(address(&own, name))?;
            access.apply_to_name(&own, name)?;
            renameat(&own, name, &self.fd, name)?;
            Ok(socket)
        });
        if bound.is_err() {
            self.remove(staging);
        } else {
            // If the staging folder remains, the next process removes it.
            let _ = unlinkat(&self.fd, staging, AtFlags::REMOVEDIR);
        }
        bound
    }

    /// The address of a socket in the folder. Its whole path may be too long for the address of a socket.
    pub(crate) fn address(&self, name: &str) -> PathBuf {
        address(&self.fd, name)
    }

    /// # Errors
    /// If there is no such file.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Removes a file, a socket, or a staging folder. It may be gone already; if it remains, the next process removes it.
    pub(crate) fn remove(&self, name: &str) {
        if unlinkat(&self.fd, name, AtFlags::empty()) != Err(Errno::ISDIR) {
            return;
        }
        if let Ok(inner) = look_into(self.fd.as_fd(), name) {
            // This removes the socket in a staging folder. A folder with other files in it is not ours, and stays.
            let own = name.replace(".new", ".sock");
            let _ = unlinkat(&inner, &own, AtFlags::empty());
        }
        let _ = unlinkat(&self.fd, name, AtFlags::REMOVEDIR);
    }

    /// The id of the file with this name. None if there is no such file.
    pub(crate) fn identity(&self, name: &str) -> Option<FileId> {
        let found = fs::symlink_metadata(self.address(name));
        found.ok().map(|found| (found.dev(), found.ino()))
    }

    /// The names in the folder. Empty if the folder cannot be read.
    pub(crate) fn names(&self) -> Vec<String> {
        names_in(&self.fd).unwrap_or_default()
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn address(folder: &OwnedFd, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}

fn look_into(folder: BorrowedFd<'_>, name: impl Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

/// Opens a folder that was just created for this process alone. A user who may rename folders beside it may have replaced it by another
/// folder of ours. That one is not empty or not private, and is refused.
fn look_into_own(folder: BorrowedFd<'_>, name: impl Arg) -> io::Result<OwnedFd> {
    let own = look_into(folder, name)?;
    let found = fstat(&own)?;
    let is_closed = !Mode::from_raw_mode(found.st_mode).intersects(Mode::RWXG | Mode::RWXO);
    if is_ours(&found) && is_closed && names_in(&own)?.is_empty() {
        Ok(own)
    } else {
        Err(refused("another user has put another folder in its place"))
    }
}

fn names_in(folder: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Creates the folder. It gets its name once all users who may write to the database may use it.
fn make(path: &Path, access: Access) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!("-{:016x}.new", random::number()?));
    mkdirat(CWD, &new, Mode::RWXU)?;
    let named = look_into_own(CWD, &new).and_then(|own| {
        access.apply_to_folder(&own)?;
        match renameat_with(CWD, &new, CWD, path, RenameFlags::NOREPLACE) {
            // Another process was quicker, and its folder serves as well.
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    });
    // After a success, the temporary folder does not exist.
    let _ = unlinkat(CWD, &new, AtFlags::REMOVEDIR);
    named
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::access::own;

    /// A link in its place, or a folder that others may write to, is not a folder of ours, and stays as it is.
    #[test]
    fn a_link_and_a_folder_open_to_others_are_refused_and_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let (good, link, open) = (root.path().join("a"), root.path().join("b"), root.path().join("c"));
        ProcessFolder::open(&good, own()).unwrap();
        assert_eq!(fs::metadata(&good).unwrap().mode() & 0o7777, 0o700);
        ProcessFolder::open(&good, own()).unwrap();
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        symlink(&good, &link).unwrap();
        for path in [&link, &open] {
            let error = ProcessFolder::open(path, own()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        }
        assert_eq!(fs::metadata(&open).unwrap().mode() & 0o777, 0o777);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 3, "something else was left behind");
    }

    #[test]
    fn what_is_made_by_way_of_a_folder_leaves_nothing_of_it_behind() {
        let root = tempfile::tempdir().unwrap();
        let folder = ProcessFolder::open(&root.path().join("a"), own()).unwrap();
        let socket = folder.bind("7.sock", "7.new", own()).unwrap();
        assert_eq!(folder.names(), ["7.sock"]);
        let sender = UnixDatagram::unbound().unwrap();
        sender.send_to(b"hello", folder.address("7.sock")).unwrap();
        assert_eq!(socket.recv(&mut [0; 8]).unwrap(), 5);
        let found = fs::symlink_metadata(folder.path().join("7.sock")).unwrap();
        assert_eq!(found.mode() & 0o777, 0o600);
        // A process that ends halfway leaves this.
        fs::create_dir(folder.path().join("8.new")).unwrap();
        fs::write(folder.path().join("8.new/8.sock"), "").unwrap();
        folder.remove("8.new");
        folder.remove("7.sock");
        assert!(folder.names().is_empty());
    }
}
