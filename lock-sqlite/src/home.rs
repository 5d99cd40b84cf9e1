//! [`Home`]: where this process is found by the others: its locked file, and its socket.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::Arc,
};

use lock_core::BackendError;

use crate::{
    error::of_io,
    files::Files,
    folder::Folder,
    post::{Hall, Post},
    presence::{self, Member, Presence},
};

/// The locked file and the socket of this client, in the folder as it was opened.
#[derive(Debug)]
pub(crate) struct Home {
    presence: Presence,
    pub(crate) post: Arc<Post>,
    folder: Arc<Folder>,
}

impl Home {
    /// # Errors
    /// If the files cannot be made.
    pub(crate) fn make(files: &Files, hall: &Hall) -> Result<Self, BackendError> {
        let (path, access) = (&files.processes, files.access()?);
        let opened = Folder::open(path, access);
        let folder = Arc::new(opened.map_err(|error| of_io("opening", path, error).unsent())?);
        let failed = |error| of_io("making a file in", path, error).unsent();
        let presence = Presence::make(&folder, access).map_err(failed)?;
        let post = Post::open(&folder, presence.member.id, access, hall.clone()).map_err(failed)?;
        Ok(Self { presence, post: Arc::new(post), folder })
    }

    pub(crate) fn id(&self) -> i64 {
        self.presence.member.id
    }

    pub(crate) fn member(&self) -> Member {
        self.presence.member
    }

    /// Where the files of all the others are, too.
    pub(crate) fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    /// Whether those who come now, and look into the folder under this path, find our file there to judge us by.
    pub(crate) fn is_in_place(&self, processes: &Path) -> bool {
        let Member { id, device, inode } = self.presence.member;
        let found = fs::symlink_metadata(processes.join(presence::lock_name(id)));
        found.is_ok_and(|found| (found.dev(), found.ino()) == (device, inode))
    }

    /// The file again: whoever has it open is taken for alive.
    ///
    /// # Errors
    /// If the process has too many files open.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.presence.file.try_clone()
    }

    /// Takes the files away, when nobody looks for them any more.
    pub(crate) fn remove(self) {
        let Self { presence, post, folder } = self;
        drop(post);
        presence::remove_files(&folder, presence.member.id);
    }
}
