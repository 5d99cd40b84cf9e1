//! Follows links in place of the file, if no untrusted user could have put them there.

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

/// How many links are followed, as in the kernel.
const LINKS: usize = 40;

/// The permissions to write to a folder, and so to put a link there, of users other than its owner.
const OTHERS_WRITE: u32 = 0o022;

/// Where the links in place of a file lead. The file may be missing.
///
/// # Errors
/// If an untrusted user may have put one of them there: it could make this process create or open a file anywhere.
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

/// The target of a trusted link. None if there is no link.
fn target(path: &Path) -> io::Result<Option<PathBuf>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Other problems with the path are reported when the file is opened.
    let Ok(link) = openat(CWD, path, flags, Mode::empty()) else { return Ok(None) };
    let found = fstat(&link)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
        return Ok(None);
    }
    let folder = folder_of(path);
    if !(found.st_uid == 0 || is_ours(&found) || is_closed(folder)?) {
        let why = format!(
            "it is a link of user {}, who can make it lead anywhere; give the path that it leads to, or let root make the link",
            found.st_uid
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let target = readlinkat(&link, "", Vec::new())?;
    Ok(Some(PathBuf::from(OsStr::from_bytes(target.as_bytes()))))
}

/// Whether only its owner may add files to a folder. Root trusts only folders of root, because root has more to lose.
fn is_closed(folder: &Path) -> io::Result<bool> {
    let found = fs::metadata(folder)?;
    let root = rustix::process::geteuid().is_root();
    Ok(found.mode() & OTHERS_WRITE == 0 && (!root || found.uid() == 0))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}
