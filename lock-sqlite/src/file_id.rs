//! Identifies the file that has a name now.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// Device and inode.
pub(crate) type FileId = (u64, u64);

/// The id of the file that has this name. None if there is no such file.
pub(crate) fn file_id(path: &Path) -> Option<FileId> {
    fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}
