//! [`Access`]: who may use the files beside the database: only users who may write to the database.

use std::{
    fs::Metadata,
    io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::Path,
};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid, chmodat, chownat, fchmod, fchown, fstat, openat,
    statat,
};

/// Files created in a folder with this bit get the group of the folder.
const SETGID: u32 = 0o2000;

/// The permissions of the group.
const GROUP: u32 = 0o070;

/// The permissions to write, of the group and of all users.
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;

/// The mode, the owner and the group of a database, for the files beside it. They are applied through descriptors, or to names in a folder
/// that belongs only to this user: in a folder of several users, another file may have the name by now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    mode: u32,
    owner: u32,
    group: u32,
}

impl Access {
    /// The access of an existing file.
    pub(crate) fn of(database: &Metadata) -> Self {
        Self { mode: database.mode() & 0o666, owner: database.uid(), group: database.gid() }
    }

    /// Applies the access to an open file that was created for this process alone.
    ///
    /// # Errors
    /// If the mode cannot be set.
    pub(crate) fn apply_to_file(self, file: impl AsFd) -> io::Result<()> {
        self.apply_mode(self.mode, file)
    }

    /// Applies the access to an open folder.
    ///
    /// # Errors
    /// If the mode cannot be set.
    pub(crate) fn apply_to_folder(self, folder: impl AsFd) -> io::Result<()> {
        let inherited = if self.mode & GROUP == 0 { 0 } else { SETGID };
        // Users who may read the folder may search it.
        let searched = (self.mode & 0o444) >> 2;
        self.apply_mode(self.mode | searched | inherited, folder)
    }

    fn apply_mode(self, mode: u32, file: impl AsFd) -> io::Result<()> {
        let file = file.as_fd();
        let mode = self.change_owner(mode, &fstat(file)?, |owner, group| fchown(file, owner, group));
        Ok(fchmod(file, mode)?)
    }

    /// Applies the access to the file with this name in an open folder that other users cannot enter. This is for sockets, whose descriptors
    /// do not refer to their files.
    ///
    /// # Errors
    /// If the mode cannot be set.
    pub(crate) fn apply_to_name(self, folder: impl AsFd, name: &str) -> io::Result<()> {
        let folder = folder.as_fd();
        let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let mode = self.change_owner(self.mode, &found, |owner, group| {
            chownat(folder, name, owner, group, AtFlags::SYMLINK_NOFOLLOW)
        });
        Ok(chmodat(folder, name, mode, AtFlags::empty())?)
    }

    /// Gives a file the group of the database, if this process may, and returns the mode for it. Root also makes the owner of the database
    /// the owner of the file, who could not use it otherwise; SQLite does the same.
    fn change_owner(
        self,
        mode: u32,
        found: &Stat,
        give: impl Fn(Option<Uid>, Option<Gid>) -> rustix::io::Result<()>,
    ) -> Mode {
        let group = Some(Gid::from_raw(self.group));
        let owner = rustix::process::geteuid().is_root().then(|| Uid::from_raw(self.owner));
        let given = owner.is_some() && give(owner, group).is_ok();
        let has_group = given || found.st_gid == self.group || give(None, group).is_ok();
        // A user outside the group cannot give files to it, and the user's own group gets no access.
        Mode::from_raw_mode(if has_group { mode } else { mode & !(GROUP | SETGID) })
    }

    /// Applies only the group, to a file that was created with our mode, without opening it: closing it would drop the locks that this
    /// process has on it. Any other file under its name is left as it is: a user who may write to the folder may have put it there.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub(crate) fn apply_group(self, path: &Path) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(CWD, path, flags, Mode::empty())?;
        let found = fstat(&file)?;
        let made = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
            && is_ours(&found)
            && found.st_nlink == 1
            && found.st_mode & 0o666 == self.mode;
        if made && found.st_gid != self.group {
            // A user outside the group cannot do this.
            let _ = chownat(&file, "", None, Some(Gid::from_raw(self.group)), AtFlags::EMPTY_PATH);
        }
        Ok(())
    }

    /// Whether a file beside the database was created for the users who may write to the database: by one of them, and so that all of them
    /// may write to it. A file with narrower access was moved here from elsewhere.
    pub(crate) fn is_made_for(self, found: &Metadata) -> bool {
        let user = rustix::process::geteuid();
        let of_owner = (found.uid(), found.gid()) == (self.owner, self.group);
        // Files that root creates get the owner and the group of the database.
        let is_ours = !user.is_root() && found.uid() == user.as_raw();
        let of_group = self.mode & GROUP_WRITES != 0 && found.gid() == self.group;
        let of_any = self.mode & ALL_WRITE != 0;
        found.is_file()
            && found.nlink() == 1
            && self.mode & (GROUP_WRITES | ALL_WRITE) & !found.mode() == 0
            && (of_owner || is_ours || of_group || of_any)
    }

    /// Whether the owner of a file may write to the database, as far as owner and group show.
    pub(crate) fn is_of_one(self, found: &Metadata) -> bool {
        self.mode & ALL_WRITE != 0
            || found.uid() == self.owner
            || found.uid() == rustix::process::geteuid().as_raw()
            || (self.mode & GROUP_WRITES != 0 && found.gid() == self.group)
    }

    /// Whether only users who may write to the database can add files to this folder, or remove them.
    pub(crate) fn trusts(self, folder: &Stat) -> bool {
        if self.mode & ALL_WRITE != 0 {
            return true;
        }
        let of_group = self.mode & GROUP_WRITES != 0 && folder.st_gid == self.group;
        let of_user = is_ours(folder) || folder.st_uid == 0 || folder.st_uid == self.owner;
        folder.st_mode & ALL_WRITE == 0 && (of_group || (of_user && folder.st_mode & GROUP_WRITES == 0))
    }
}

/// Whether a file belongs to the user of this process.
pub(crate) fn is_ours(found: &Stat) -> bool {
    found.st_uid == rustix::process::geteuid().as_raw()
}

/// The access of a file that is private to the user of this process.
#[cfg(test)]
pub(crate) fn own() -> Access {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    Access { mode: 0o600, owner: user.as_raw(), group: group.as_raw() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mode, the owner and the group of a folder.
    fn folder(mode: u32, owner: u32, group: u32) -> Stat {
        let mut folder = fstat(std::fs::File::open("/").unwrap()).unwrap();
        (folder.st_mode, folder.st_uid, folder.st_gid) = (mode, owner, group);
        folder
    }

    #[test]
    fn a_folder_is_trusted_if_only_writers_of_the_database_may_write_to_it() {
        let me = rustix::process::geteuid().as_raw();
        let (anna, bert, app) = (54_001, 54_002, 54_321);
        let access = |mode| Access { mode, owner: anna, group: app };
        for (database, mode, owner, group, expected) in [
            (0o600, 0o700, me, app, true),
            (0o600, 0o700, 0, app, true),
            (0o600, 0o755, anna, app, true),
            (0o600, 0o700, bert, app, false),
            (0o600, 0o770, anna, app, false),
            (0o600, 0o777, me, app, false),
            (0o660, 0o2770, bert, app, true),
            (0o660, 0o770, bert, bert, false),
            (0o660, 0o770, me, bert, false),
            (0o660, 0o777, me, app, false),
            (0o640, 0o770, me, app, false),
            (0o666, 0o777, bert, bert, true),
        ] {
            let found = folder(mode, owner, group);
            assert_eq!(access(database).trusts(&found), expected, "{database:o}: {mode:o}, {owner}, {group}");
        }
    }
}
