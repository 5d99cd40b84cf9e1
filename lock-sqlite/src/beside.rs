//! [`Opened`]: the log and the shared memory that belong to a database as it was opened. Each is half of it: under another name it
//! has others, and then it is another world.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use crate::{
    error::{Fault, not_ready, unsupported},
    files::Files,
    presence,
};

/// Device and inode.
pub(crate) type Identity = (u64, u64);

/// What stands beside a database now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    pub(crate) log: Option<Identity>,
    memory: Option<Identity>,
}

impl Beside {
    pub(crate) fn of(files: &Files) -> Self {
        Self { log: identity(&files.log), memory: identity(&files.memory) }
    }
}

/// Which file this is. None if there is none.
pub(crate) fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Databases that connections of this process have open, with their shared memory and the number of these connections. SQLite has
/// one such memory for all of them, and takes it without a look whether it still has its name.
static OPEN: Mutex<BTreeMap<Identity, (Identity, usize)>> = Mutex::new(BTreeMap::new());

/// What a connection has open, until it is closed.
#[derive(Debug)]
pub(crate) struct Opened {
    database: Identity,
    memory: Identity,
    beside: Beside,
}

impl Opened {
    /// To be called when the connection has read: then it has both open, and nobody takes them away but by force.
    ///
    /// # Errors
    /// If somebody did.
    pub(crate) fn take(database: Identity, files: &Files) -> Result<Self, Fault> {
        let beside = Beside::of(files);
        let (Some(_), Some(memory)) = (beside.log, beside.memory) else { return Err(gone(files)) };
        let mut open = open();
        let (known, connections) = open.entry(database).or_insert((memory, 0));
        if *known != memory {
            return Err(gone(files));
        }
        *connections += 1;
        Ok(Self { database, memory, beside })
    }

    /// For one more connection to the same.
    pub(crate) fn share(&self) -> Self {
        open().entry(self.database).or_insert((self.memory, 0)).1 += 1;
        let Self { database, memory, beside } = *self;
        Self { database, memory, beside }
    }

    /// Whether all of it still stands under its name. Three looks at the file system.
    pub(crate) fn is_in_place(&self, files: &Files) -> bool {
        files.identity() == Some(self.database) && Beside::of(files) == self.beside
    }

    pub(crate) fn beside(&self) -> Beside {
        self.beside
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut open = open();
        if let Some((_, connections)) = open.get_mut(&self.database) {
            *connections -= 1;
            if *connections == 0 {
                open.remove(&self.database);
            }
        }
    }
}

fn open() -> MutexGuard<'static, BTreeMap<Identity, (Identity, usize)>> {
    // Nothing panics while it is held.
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Under each of its names a database would be another world.
///
/// # Errors
/// If it has more than one.
pub(crate) fn refuse_other_names(path: &Path) -> Result<(), Fault> {
    let names = fs::metadata(path).map_or(1, |found| found.nlink());
    if names > 1 {
        let why = format!(
            "it has {names} names (hard links), and under each it would be another world of locks; remove all but one"
        );
        return Err(Fault::Refused(unsupported(path, &why)));
    }
    // Kernels before 5.8 do not tell.
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::empty());
    if found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)) {
        let why = "it is mounted by itself, without what stands beside it; mount its folder";
        return Err(Fault::Refused(unsupported(path, why)));
    }
    Ok(())
}

/// Whoever opens a database makes its log first, and whoever closes it as the last one removes the log last: a memory without a log
/// is what is left when somebody deleted the log. As long as anybody has it open, to make another one would damage both.
///
/// # Errors
/// If it is so, and anybody but `me` lives.
pub(crate) fn refuse_half(files: &Files, me: Option<i64>) -> Result<(), Fault> {
    const LOOKS: u32 = 3;
    for _ in 0..LOOKS {
        let is_half = identity(&files.log).is_none()
            && identity(&files.memory).is_some()
            && identity(&files.log).is_none();
        if !is_half || !presence::anybody_lives(&files.processes, me) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Err(gone(files))
}

fn gone(files: &Files) -> Fault {
    let why = "its log or its shared memory (`-wal`, `-shm`) was deleted or replaced while it is in use; it can be used again when \
               all who have it open have noticed, at their next use, or have ended";
    Fault::Refused(not_ready(&files.database, why))
}
