//! [`Access`]: who may use what stands beside the database. Those who may write to it, and nobody else.

use std::{
    fs::{self, Metadata, Permissions},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::Path,
};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, chownat, fstat, openat};

/// What is made in such a folder has the group of the folder.
const SETGID: u32 = 0o2000;

/// What the group may do.
const GROUP: u32 = 0o070;

/// The mode and the group of a database, for what is beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    mode: u32,
    group: u32,
}

impl Access {
    /// As a file is found.
    pub(crate) fn of(database: &Metadata) -> Self {
        Self { mode: database.mode() & 0o666, group: database.gid() }
    }

    /// Gives it to an open file, which was made for nobody else, with the group of its maker.
    ///
    /// # Errors
    /// If the mode cannot be set.
    pub(crate) fn give(self, file: impl AsFd) -> io::Result<()> {
        give(file, self.group, self.mode)
    }

    /// Gives it to an open folder.
    ///
    /// # Errors
    /// If the mode cannot be set.
    pub(crate) fn give_folder(self, folder: impl AsFd) -> io::Result<()> {
        let inherited = if self.mode & GROUP == 0 { 0 } else { SETGID };
        // Who may read it, may search it.
        let searched = (self.mode & 0o444) >> 2;
        give(folder, self.group, self.mode | searched | inherited)
    }

    /// Gives it to a socket that we have made, whose descriptor has nothing to do with its file.
    ///
    /// # Errors
    /// If something else has its name by now, or the mode cannot be set.
    pub(crate) fn give_socket(self, path: &Path) -> io::Result<()> {
        let (socket, found) = look_at(path)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Socket || !is_ours(&found) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.give(socket)
    }

    /// Gives the group alone to a file that was made with our mode, without opening it: to close it would drop what this process
    /// has locked there. Anything else under its name is left as it is: who may write to the folder may have put it there.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub(crate) fn give_group(self, path: &Path) -> io::Result<()> {
        let (file, found) = look_at(path)?;
        let made = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
            && is_ours(&found)
            && found.st_nlink == 1
            && found.st_mode & 0o777 == self.mode;
        if made && found.st_gid != self.group {
            // Whoever is not in the group cannot.
            let _ = chownat(file, "", None, Some(Gid::from_raw(self.group)), AtFlags::EMPTY_PATH);
        }
        Ok(())
    }
}

/// What has this name, be it a link.
fn look_at(path: &Path) -> io::Result<(OwnedFd, Stat)> {
    let file = openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = fstat(&file)?;
    Ok((file, found))
}

fn is_ours(found: &Stat) -> bool {
    found.st_uid == rustix::process::geteuid().as_raw()
}

fn give(file: impl AsFd, group: u32, mode: u32) -> io::Result<()> {
    let file = file.as_fd();
    let mut mode = mode;
    if fstat(file)?.st_gid != group
        && chownat(file, "", None, Some(Gid::from_raw(group)), AtFlags::EMPTY_PATH).is_err()
    {
        // Whoever is not in the group can give it nothing. His own group has no business here.
        mode &= !(GROUP | SETGID);
    }
    // By its descriptor: what has the name may be something else by now.
    fs::set_permissions(format!("/proc/self/fd/{}", file.as_raw_fd()), Permissions::from_mode(mode))
}

#[cfg(test)]
pub(crate) fn own() -> Access {
    Access { mode: 0o600, group: rustix::process::getegid().as_raw() }
}
