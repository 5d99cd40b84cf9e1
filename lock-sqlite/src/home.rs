//! [`Home`]: where this process is found by the others: its locked file, and its socket.

use std::{fs::File, io, sync::Arc};

use lock_core::BackendError;

use crate::{
    error::of_io,
    files::Files,
    post::{Hall, Post},
    presence::{Member, Presence},
};

/// The locked file and the socket of this client.
#[derive(Debug)]
pub(crate) struct Home {
    presence: Presence,
    pub(crate) post: Arc<Post>,
}

impl Home {
    /// # Errors
    /// If the files cannot be made.
    pub(crate) fn make(files: &Files, hall: &Hall) -> Result<Self, BackendError> {
        files.make_processes()?;
        let (folder, mode) = (&files.processes, files.mode());
        let failed = |error| of_io("making a file in", folder, error).unsent();
        let presence = Presence::make(folder, mode).map_err(failed)?;
        let post = Post::open(folder, presence.member.id, mode, hall.clone()).map_err(failed)?;
        Ok(Self { presence, post: Arc::new(post) })
    }

    pub(crate) fn id(&self) -> i64 {
        self.presence.member.id
    }

    pub(crate) fn member(&self) -> Member {
        self.presence.member
    }

    /// Whether others can still judge us by the file.
    pub(crate) fn is_in_place(&self) -> bool {
        self.presence.is_in_place()
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
        drop(self.post);
        self.presence.remove();
    }
}
