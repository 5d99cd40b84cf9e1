//! Links in the place of the file: followed where they stand in nobody else's power.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, fstat, openat, readlinkat},
    io::Errno,
};

use crate::access::is_ours;

/// So many are followed. The system itself follows no more.
const LINKS: usize = 40;

/// Those who may write to such a folder may put a link there.
const OTHERS_WRITE: u32 = 0o022;

/// Where the links in the place of a file lead to. The file may be missing.
///
/// # Errors
/// If somebody who is not to be trusted may have put one of them there: it would have us make or open a file anywhere.
pub(crate) fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match target(&path)? {
            Some(target) => path = folder_of(&path).join(target),
            None => return Ok(path),
        }
    }
    Err(Errno::LOOP.into())
}

/// What a link says, of which it was looked whose it is. None if there is no link.
fn target(path: &Path) -> io::Result<Option<PathBuf>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // What is wrong with the path is told by whoever uses it.
    let Ok(link) = openat(CWD, path, flags, Mode::empty()) else { return Ok(None) };
    let found = fstat(&link)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
        return Ok(None);
    }
    let folder = folder_of(path);
    if !(found.st_uid == 0 || is_ours(&found) || is_closed(folder)?) {
        let why = format!(
            "it is a link of user {}, who may have it lead anywhere; give the path that it leads to, or let root make the link",
            found.st_uid
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let target = readlinkat(&link, "", Vec::new())?;
    Ok(Some(PathBuf::from(OsStr::from_bytes(target.as_bytes()))))
}

/// Whether only its owner may put something into a folder; for root, who may do more than he, only root.
fn is_closed(folder: &Path) -> io::Result<bool> {
    let found = fs::metadata(folder)?;
    let root = rustix::process::geteuid().is_root();
    Ok(found.mode() & OTHERS_WRITE == 0 && (!root || found.uid() == 0))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}
