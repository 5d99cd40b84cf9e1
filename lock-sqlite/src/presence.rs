//! [`Presence`]: the file by which others see that this process lives, and by which we see it of others.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, OFlags, flock};

/// How often a name is drawn anew when somebody who sweeps was quicker.
const TRIES: u32 = 16;

/// A client of the store, by the file that it keeps locked as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// A random number, never used twice.
    pub(crate) id: i64,
    /// The file that was locked: one of the same name that somebody put there says nothing (PR31).
    pub(crate) device: u64,
    /// Its number on that device.
    pub(crate) inode: u64,
}

/// This client's own file. The kernel drops the lock with the last process that has it open.
#[derive(Debug)]
pub(crate) struct Presence {
    pub(crate) member: Member,
    pub(crate) file: File,
    folder: PathBuf,
}

impl Presence {
    /// Made under another name, locked, and only then given its own: nobody ever sees it unlocked (PR31).
    ///
    /// # Errors
    /// If the folder takes no file.
    pub(crate) fn make(folder: &Path, mode: u32) -> io::Result<Self> {
        let mut last = io::Error::other("no name was free");
        for _ in 0..TRIES {
            match Self::try_to_make(folder, mode) {
                Ok(presence) => return Ok(presence),
                // Somebody took it for a leftover, before it was locked.
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::WouldBlock) => {
                    last = error;
                }
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn try_to_make(folder: &Path, mode: u32) -> io::Result<Self> {
        let id = random()?;
        let new = folder.join(format!("{}.new", hex(id)));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(&new)?;
        // The umask may have taken from it what the database allows.
        file.set_permissions(Permissions::from_mode(mode))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&new, lock_file(folder, id))?;
        let found = file.metadata()?;
        let member = Member { id, device: found.dev(), inode: found.ino() };
        Ok(Self { member, file, folder: folder.to_owned() })
    }

    pub(crate) fn is_in_place(&self) -> bool {
        is_judged(&self.folder, &self.member)
    }

    /// Takes the files away, when nobody looks for them any more.
    pub(crate) fn remove(self) {
        remove_files(&self.folder, self.member.id);
    }
}

/// Whether a client is certainly dead: the file that it locked is there, and nobody has it locked. What cannot be judged is
/// not dead; its leases end by themselves.
pub(crate) fn is_dead(folder: &Path, member: &Member) -> bool {
    let Ok(file) = open(&lock_file(folder, member.id)) else { return false };
    let same = file.metadata().is_ok_and(|found| (found.dev(), found.ino()) == (member.device, member.inode));
    same && is_unlocked(&file)
}

/// Whether the file that a client locked is there, to judge it by.
pub(crate) fn is_judged(folder: &Path, member: &Member) -> bool {
    let found = fs::symlink_metadata(lock_file(folder, member.id));
    found.is_ok_and(|found| (found.dev(), found.ino()) == (member.device, member.inode))
}

/// Whether a client of another boot or clock may still be there. Its file may have another number by now.
pub(crate) fn may_live(folder: &Path, id: i64) -> bool {
    open(&lock_file(folder, id)).is_ok_and(|file| !is_unlocked(&file))
}

/// Opens what stands under a name of ours. Who may write to the folder may have put anything there: a pipe would keep us until
/// somebody writes to it, and with us, in the middle of a transaction, everybody; a link leads anywhere.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Shared, so that two who look at the same time do not take each other for the owner.
fn is_unlocked(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockShared).is_ok()
}

/// Takes away what clients left behind that died before they were known, or whose end was noticed.
pub(crate) fn sweep(folder: &Path, known: impl Fn(i64) -> bool) {
    let Ok(files) = fs::read_dir(folder) else { return };
    for path in files.flatten().map(|file| file.path()) {
        let id = path.file_stem().and_then(|stem| i64::from_str_radix(stem.to_str()?, 16).ok());
        let Some(id) = id.filter(|&id| !known(id)) else { continue };
        let locked = path.extension().is_some_and(|extension| extension == "sock") && may_live(folder, id);
        if !locked && open(&path).map_or(true, |file| is_unlocked(&file)) {
            // Whatever stays is swept by the next.
            let _ = fs::remove_file(&path);
        }
    }
}

pub(crate) fn remove_files(folder: &Path, id: i64) {
    for path in [lock_file(folder, id), folder.join(socket_name(id))] {
        // It may be gone already.
        let _ = fs::remove_file(path);
    }
}

/// Makes the folder for these files, if it is not there.
///
/// # Errors
/// If it cannot be made.
pub(crate) fn make_folder(folder: &Path, mode: u32) -> io::Result<()> {
    match fs::DirBuilder::new().mode(mode).create(folder) {
        Ok(()) => fs::set_permissions(folder, Permissions::from_mode(mode)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn lock_file(folder: &Path, id: i64) -> PathBuf {
    folder.join(format!("{}.lock", hex(id)))
}

pub(crate) fn socket_name(id: i64) -> String {
    format!("{}.sock", hex(id))
}

fn hex(id: i64) -> String {
    format!("{id:016x}")
}

/// A positive number that nobody else draws.
pub(crate) fn random() -> io::Result<i64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(i64::from_le_bytes(bytes) & i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_client_is_dead_when_its_file_is_no_longer_locked_and_not_before() {
        let folder = folder();
        let presence = Presence::make(folder.path(), 0o600).unwrap();
        let (member, copy) = (presence.member, presence.file.try_clone().unwrap());
        assert!(!is_dead(folder.path(), &member));
        drop(presence);
        assert!(!is_dead(folder.path(), &member), "a child still has the file");
        drop(copy);
        assert!(is_dead(folder.path(), &member) && !may_live(folder.path(), member.id));
    }

    /// A POSIX record lock would be gone with any descriptor of the file that this process closes.
    #[test]
    fn to_open_and_close_the_file_elsewhere_in_the_process_kills_nobody() {
        let folder = folder();
        let presence = Presence::make(folder.path(), 0o600).unwrap();
        drop(File::open(lock_file(folder.path(), presence.member.id)).unwrap());
        assert!(!is_dead(folder.path(), &presence.member));
    }

    #[test]
    fn a_file_that_was_put_in_place_of_another_says_nothing() {
        let folder = folder();
        let presence = Presence::make(folder.path(), 0o600).unwrap();
        let path = lock_file(folder.path(), presence.member.id);
        fs::copy(&path, folder.path().join("copy")).unwrap();
        fs::rename(folder.path().join("copy"), &path).unwrap();
        assert!(!is_dead(folder.path(), &presence.member), "a copy was taken for the file that is locked");
        fs::remove_file(&path).unwrap();
        assert!(
            !is_dead(folder.path(), &presence.member),
            "a file that is missing was taken for one that is not locked"
        );
    }

    #[test]
    fn two_who_look_at_the_same_time_do_not_take_each_other_for_the_owner() {
        let folder = folder();
        let presence = Presence::make(folder.path(), 0o600).unwrap();
        let (member, path) = (presence.member, lock_file(folder.path(), presence.member.id));
        drop(presence);
        let other = File::open(path).unwrap();
        assert!(is_unlocked(&other));
        assert!(is_dead(folder.path(), &member));
    }

    #[test]
    fn a_sweep_takes_away_what_nobody_has_and_nobody_knows() {
        let folder = folder();
        let [live, known, dead] = [(); 3].map(|()| Presence::make(folder.path(), 0o600).unwrap());
        let ids = [live.member.id, known.member.id, dead.member.id];
        for id in ids {
            fs::write(folder.path().join(socket_name(id)), "").unwrap();
        }
        fs::write(folder.path().join("ffff.new"), "").unwrap();
        fs::write(folder.path().join("a file of somebody else"), "").unwrap();
        drop((known, dead));
        sweep(folder.path(), |id| id == ids[1]);
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(
            left,
            2 + 2 + 1,
            "the files of one that lives, of one that is known, and of somebody else"
        );
        assert!(may_live(folder.path(), ids[0]) && !lock_file(folder.path(), ids[2]).exists());
        live.remove();
        assert!(!lock_file(folder.path(), ids[0]).exists());
    }

    /// A verb looks into the folder in the middle of its transaction.
    #[test]
    fn a_pipe_under_the_name_of_a_file_keeps_nobody() {
        let folder = folder();
        let member = Member { id: 7, device: 0, inode: 0 };
        for name in [lock_file(folder.path(), 7), folder.path().join("8.new"), lock_file(folder.path(), 9)] {
            mkfifoat(CWD, &name, Mode::from_raw_mode(0o600)).unwrap();
        }
        let (tell, told) = mpsc::channel();
        let path = folder.path().to_owned();
        thread::spawn(move || {
            let judged = (is_dead(&path, &member), may_live(&path, member.id));
            sweep(&path, |id| id == 9);
            tell.send((judged, fs::read_dir(&path).unwrap().count()))
        });
        let (judged, left) = told.recv_timeout(Duration::from_secs(20)).expect("it waits for a writer");
        assert_eq!(judged, (false, false), "it was taken for a file that somebody had locked");
        assert_eq!(left, 1, "what nobody knows is swept away");
    }
}
