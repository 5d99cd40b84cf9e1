//! [`ProcessFiles`]: the files of this process beside the database: its process lock, and its mailbox.

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
    notify::{mailbox::Mailbox, notifier::Notifier},
    process_folder::ProcessFolder,
    process_lock::{self, Member, ProcessLock},
};

/// The process lock and the mailbox of this process, and their open folder.
#[derive(Debug)]
pub(crate) struct ProcessFiles {
    process_lock: ProcessLock,
    pub(crate) mailbox: Arc<Mailbox>,
    folder: Arc<ProcessFolder>,
}

impl ProcessFiles {
    /// # Errors
    /// If the files cannot be created.
    pub(crate) fn make(files: &Files, notifier: &Notifier) -> Result<Self, BackendError> {
        let (path, access) = (&files.processes, files.access()?);
        let opened = ProcessFolder::open(path, access);
        let folder = Arc::new(opened.map_err(|error| of_io("opening", path, error).unsent())?);
        let failed = |error| of_io("making a file in", path, error).unsent();
        let process_lock = ProcessLock::make(&folder, access).map_err(failed)?;
        let mailbox =
            Mailbox::open(&folder, process_lock.member.id, access, notifier.clone()).map_err(failed)?;
        Ok(Self { process_lock, mailbox: Arc::new(mailbox), folder })
    }

    pub(crate) fn id(&self) -> i64 {
        self.process_lock.member.id
    }

    pub(crate) fn member(&self) -> Member {
        self.process_lock.member
    }

    /// The folder, which also contains the files of the other processes.
    pub(crate) fn folder(&self) -> &Arc<ProcessFolder> {
        &self.folder
    }

    /// Whether other processes that look into the folder at this path find the lock file of this process there.
    pub(crate) fn is_in_place(&self, processes: &Path) -> bool {
        let Member { id, device, inode } = self.process_lock.member;
        let found = fs::symlink_metadata(processes.join(process_lock::lock_name(id)));
        found.is_ok_and(|found| (found.dev(), found.ino()) == (device, inode))
    }

    /// Another handle to the lock file: a process that has one counts as alive.
    ///
    /// # Errors
    /// If the process has too many files open.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.process_lock.file.try_clone()
    }

    /// Removes the files, once no process looks for them any more.
    pub(crate) fn remove(self) {
        let Self { process_lock, mailbox, folder } = self;
        drop(mailbox);
        process_lock::remove_files(&folder, process_lock.member.id);
    }
}
