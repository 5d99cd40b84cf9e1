//! [`ProcessLock`]: the locked file by which other processes see that this process is alive, and checks of the files of other processes.

use std::{fs::File, io, os::unix::fs::MetadataExt};

use rustix::fs::{FlockOperation, flock};

use crate::{access::Access, process_folder::ProcessFolder, random};

/// How often another name is tried, if a process that cleans up has removed the file.
const TRIES: u32 = 16;

/// A process that uses the database, identified by the lock file that it keeps locked while it is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// A random number, never used twice.
    pub(crate) id: i64,
    /// The device of the lock file: another file of the same name proves nothing (PR31).
    pub(crate) device: u64,
    /// Its inode on that device.
    pub(crate) inode: u64,
}

/// The lock file of this process. The kernel drops the lock when the last process that has the file open ends.
#[derive(Debug)]
pub(crate) struct ProcessLock {
    pub(crate) member: Member,
    pub(crate) file: File,
}

impl ProcessLock {
    /// Creates the file under another name, locks it, and only then gives it its own name: no process ever sees it unlocked (PR31).
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn make(folder: &ProcessFolder, access: Access) -> io::Result<Self> {
        let mut last = io::Error::other("no name was free");
        for _ in 0..TRIES {
            match Self::try_to_make(folder, access) {
                Ok(process_lock) => return Ok(process_lock),
                // Another process took the file for a leftover before it was locked.
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::WouldBlock) => {
                    last = error;
                }
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn try_to_make(folder: &ProcessFolder, access: Access) -> io::Result<Self> {
        let id = random::number()?;
        let file = folder.create(&new_name(id))?;
        access.apply_to_file(&file)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        folder.rename(&new_name(id), &lock_name(id))?;
        let found = file.metadata()?;
        Ok(Self { member: Member { id, device: found.dev(), inode: found.ino() }, file })
    }
}

/// Whether a process is certainly dead: its lock file exists, and no process has it locked. A process that cannot be judged does not count
/// as dead; its leases end by themselves.
pub(crate) fn is_dead(folder: &ProcessFolder, member: &Member) -> bool {
    let Ok(file) = folder.open_file(&lock_name(member.id)) else { return false };
    let same = file.metadata().is_ok_and(|found| (found.dev(), found.ino()) == (member.device, member.inode));
    same && is_unlocked(&file)
}

/// Whether the lock file of a process exists, so that the process can be judged by it.
pub(crate) fn can_be_judged(folder: &ProcessFolder, member: &Member) -> bool {
    folder.identity(&lock_name(member.id)) == Some((member.device, member.inode))
}

/// Whether a process of another boot or clock may still be alive. Its file may have another inode by now, so any file of that name counts,
/// except those of other users.
pub(crate) fn may_live(folder: &ProcessFolder, id: i64) -> bool {
    folder.open_trusted_file(&lock_name(id)).is_ok_and(|file| !is_unlocked(&file))
}

/// Tries a shared lock, so that two processes that check at the same time do not take each other for the owner.
fn is_unlocked(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockShared).is_ok()
}

/// Removes the files of processes that died before they were registered, or were removed.
pub(crate) fn sweep(folder: &ProcessFolder, known: impl Fn(i64) -> bool) {
    for name in folder.names() {
        let Some((id, kind)) = read_name(&name).filter(|(id, _)| !known(*id)) else { continue };
        let kept = match folder.open_file(&name) {
            Ok(file) => !is_unlocked(&file),
            // A private file of another user cannot be judged.
            Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
        };
        // A socket, and its staging folder, belong to the process that has the lock file locked.
        if !kept && (kind == LOCK || !may_live(folder, id)) {
            folder.remove(&name);
        }
    }
}

pub(crate) fn remove_files(folder: &ProcessFolder, id: i64) {
    for name in [lock_name(id), socket_name(id)] {
        folder.remove(&name);
    }
}

const LOCK: &str = "lock";
const SOCKET: &str = "sock";
const NEW: &str = "new";

/// The name of a lock file.
pub(crate) fn lock_name(id: i64) -> String {
    format!("{id:016x}.{LOCK}")
}

/// The name of the socket.
pub(crate) fn socket_name(id: i64) -> String {
    format!("{id:016x}.{SOCKET}")
}

/// The name of a file or folder that is not complete.
pub(crate) fn new_name(id: i64) -> String {
    format!("{id:016x}.{NEW}")
}

/// The process and the kind of a file with this name. None if the name is none of these.
fn read_name(name: &str) -> Option<(i64, &str)> {
    let (id, kind) = name.split_once('.')?;
    let id = i64::from_str_radix(id, 16).ok()?;
    [lock_name(id), socket_name(id), new_name(id)].iter().any(|ours| ours == name).then_some((id, kind))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, sync::mpsc, thread, time::Duration};

    use rustix::fs::{CWD, Mode, mkfifoat};
    use tempfile::TempDir;

    use super::*;
    use crate::access::own;

    fn folder() -> (TempDir, ProcessFolder) {
        let root = tempfile::tempdir().unwrap();
        let folder = ProcessFolder::open(&root.path().join("processes"), own()).unwrap();
        (root, folder)
    }

    #[test]
    fn a_client_is_dead_when_its_file_is_no_longer_locked_and_not_before() {
        let (_root, folder) = folder();
        let process_lock = ProcessLock::make(&folder, own()).unwrap();
        let (member, copy) = (process_lock.member, process_lock.file.try_clone().unwrap());
        assert!(!is_dead(&folder, &member));
        drop(process_lock);
        assert!(!is_dead(&folder, &member), "a child still has the file");
        drop(copy);
        assert!(is_dead(&folder, &member) && !may_live(&folder, member.id));
    }

    /// The inode of the file is not compared, so its owner is.
    #[test]
    fn a_file_of_a_stranger_is_no_process_that_may_live() {
        if !rustix::process::geteuid().is_root() {
            return lock_conformance::ran_nothing(
                "a_file_of_a_stranger_is_no_process_that_may_live",
                "it takes other users",
            );
        }
        let (_root, folder) = folder();
        let process_lock = ProcessLock::make(&folder, own()).unwrap();
        let path = folder.path().join(lock_name(process_lock.member.id));
        assert!(may_live(&folder, process_lock.member.id));
        std::os::unix::fs::chown(&path, Some(54_001), Some(54_001)).unwrap();
        assert!(!may_live(&folder, process_lock.member.id));
    }

    /// PR31: a POSIX record lock would be dropped when this process closes any descriptor of the file.
    #[test]
    fn to_open_and_close_the_file_elsewhere_in_the_process_kills_nobody() {
        let (_root, folder) = folder();
        let process_lock = ProcessLock::make(&folder, own()).unwrap();
        drop(File::open(folder.path().join(lock_name(process_lock.member.id))).unwrap());
        assert!(!is_dead(&folder, &process_lock.member));
    }

    #[test]
    fn a_file_that_was_put_in_place_of_another_says_nothing() {
        let (_root, folder) = folder();
        let process_lock = ProcessLock::make(&folder, own()).unwrap();
        let path = folder.path().join(lock_name(process_lock.member.id));
        fs::copy(&path, folder.path().join("copy")).unwrap();
        fs::rename(folder.path().join("copy"), &path).unwrap();
        assert!(!is_dead(&folder, &process_lock.member), "a copy was taken for the file that is locked");
        fs::remove_file(&path).unwrap();
        assert!(
            !is_dead(&folder, &process_lock.member),
            "a file that is missing was taken for one that is not locked"
        );
    }

    #[test]
    fn two_that_look_at_the_same_time_do_not_see_each_other_as_the_owner() {
        let (_root, folder) = folder();
        let process_lock = ProcessLock::make(&folder, own()).unwrap();
        let (member, path) = (process_lock.member, folder.path().join(lock_name(process_lock.member.id)));
        drop(process_lock);
        let other = File::open(path).unwrap();
        assert!(is_unlocked(&other));
        assert!(is_dead(&folder, &member));
    }

    #[test]
    fn a_sweep_removes_only_unlocked_files_of_unknown_processes() {
        let (_root, folder) = folder();
        let [live, known, dead] = [(); 3].map(|()| ProcessLock::make(&folder, own()).unwrap());
        let ids = [live.member.id, known.member.id, dead.member.id];
        for id in ids {
            fs::write(folder.path().join(socket_name(id)), "").unwrap();
        }
        fs::write(folder.path().join(new_name(7)), "").unwrap();
        fs::create_dir(folder.path().join(new_name(8))).unwrap();
        for name in ["a file of somebody else", "7.lock", "000000000000000b.db"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        symlink("7.lock", folder.path().join(lock_name(9))).unwrap();
        drop((known, dead));
        sweep(&folder, |id| id == ids[1]);
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(
            left,
            2 + 2 + 3,
            "the files of one that lives, of one that is known, and of somebody else"
        );
        assert!(may_live(&folder, ids[0]) && !folder.path().join(lock_name(ids[2])).exists());
        remove_files(&folder, ids[0]);
        assert!(!folder.path().join(lock_name(ids[0])).exists());
    }

    /// A transaction checks the files in this folder, so it must not block.
    #[test]
    fn a_pipe_under_the_name_of_a_file_keeps_nobody() {
        let (_root, folder) = folder();
        let member = Member { id: 7, device: 0, inode: 0 };
        for name in [
            folder.path().join(lock_name(7)),
            folder.path().join(new_name(8)),
            folder.path().join(lock_name(9)),
        ] {
            mkfifoat(CWD, &name, Mode::from_raw_mode(0o600)).unwrap();
        }
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let judged = (is_dead(&folder, &member), may_live(&folder, member.id));
            sweep(&folder, |id| id == 9);
            tell.send((judged, folder.names().len()))
        });
        let (judged, left) = told.recv_timeout(Duration::from_secs(20)).expect("it waits for a writer");
        assert_eq!(judged, (false, false), "it was taken for a file that somebody had locked");
        assert_eq!(left, 1, "what nobody knows is swept away");
    }
}
