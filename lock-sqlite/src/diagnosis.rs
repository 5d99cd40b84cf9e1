//! Facts about the file, and problems with it for locks.

use std::{fs, os::unix::fs::MetadataExt, path::Path, sync::Arc, time::Instant};

use lock_core::{BackendError, Diagnosis};

use crate::{clock::now, process_lock, schema::VERSION, store::Store};

/// If less than this is free, the disk is soon full, of the file, its log, and other files.
const LITTLE: u64 = 16 << 20;

/// A longer log was not moved into the file for a long time, because a process has a read transaction open.
const LONG_LOG: u64 = 64 << 20;

/// Files created in a folder with this bit get its group.
const SETGID: u32 = 0o2000;

/// In a folder with this bit, users may remove only their own files.
const STICKY: u32 = 0o1000;

pub(crate) fn diagnose(store: &mut Store, give_up: Instant) -> Result<Diagnosis, BackendError> {
    let (mut facts, members, folder) = store.read(give_up, |connection, process_files| {
        let number = |query: &str| connection.query_row(query, [], |row| row.get::<_, i64>(0));
        let mut all = connection.prepare_cached("SELECT id, device, inode FROM members")?;
        let members = all.query_map([], crate::transaction::member)?.collect::<Result<Vec<_>, _>>()?;
        let queues = connection.query_row(
            "SELECT count(DISTINCT name) FROM entries WHERE expires > ?1",
            [now()],
            |row| row.get::<_, i64>(0),
        )?;
        let facts = vec![
            ("store", "sqlite".to_owned()),
            ("version", rusqlite::version().to_owned()),
            ("format", VERSION.to_string()),
            ("domain", connection.query_row("SELECT domain FROM meta", [], |row| row.get(0))?),
            ("queues", queues.to_string()),
            ("processes", members.len().to_string()),
            ("pages", number("PRAGMA page_count")?.to_string()),
        ];
        Ok((facts, members, Arc::clone(process_files.folder())))
    })?;
    let database = store.files.database.clone();
    facts.insert(1, ("file", database.display().to_string()));
    facts.push(("listeners", store.notifier.waiters.listeners().to_string()));
    let mut diagnosis = Diagnosis::default();
    diagnosis.facts = facts;
    let unjudged = members.iter().filter(|member| !process_lock::can_be_judged(&folder, member)).count();
    if unjudged > 0 {
        diagnosis.problems.push(format!(
            "the files of {unjudged} processes in {} are gone or replaced, so their locks are only free when their ttl ends: \
             keep clean-up jobs away from this folder",
            folder.path().display()
        ));
    }
    disk_problems(&mut diagnosis, &database);
    place_problems(&mut diagnosis, &database);
    Ok(diagnosis)
}

fn disk_problems(diagnosis: &mut Diagnosis, database: &Path) {
    let folder = database.parent().unwrap_or(Path::new("/"));
    if let Ok(disk) = rustix::fs::statvfs(folder) {
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        diagnosis.facts.push(("disk free, bytes", free.to_string()));
        if free < LITTLE {
            diagnosis.problems.push(format!(
                "the disk of {} has {free} bytes left, and on a full one nothing is granted or renewed: make room",
                database.display()
            ));
        }
    }
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    let length = fs::metadata(log).map_or(0, |log| log.len());
    diagnosis.facts.push(("log, bytes", length.to_string()));
    if length > LONG_LOG {
        diagnosis.problems.push(format!(
            "the log has {length} bytes, because a process does not stop reading the file: see which processes have it open (`fuser {}`)",
            database.display()
        ));
    }
}

/// Problems with the modes of the file and its folder.
fn place_problems(diagnosis: &mut Diagnosis, database: &Path) {
    let folder = database.parent().unwrap_or(Path::new("/"));
    let (Ok(found), Ok(file)) = (fs::metadata(folder), fs::metadata(database)) else { return };
    let (shown, mode, group) = (folder.display(), found.mode() & 0o7777, file.gid());
    if file.nlink() > 1 {
        diagnosis.problems.push(format!(
            "{} has {} names (hard links), and processes that open it now are refused: remove all but one",
            database.display(),
            file.nlink()
        ));
    }
    let (for_group, for_all) = (file.mode() & 0o020 != 0, file.mode() & 0o002 != 0);
    let of_group = found.gid() == group;
    // A user who may write to the database can damage it anyway. In a sticky folder, users cannot replace the files of others.
    let foreign = match (for_all, for_group && of_group) {
        (true, _) => 0,
        (_, true) => 0o002,
        _ => 0o022,
    };
    if mode & foreign != 0 && mode & STICKY == 0 {
        let whose = if found.uid() == rustix::process::geteuid().as_raw() { "" } else { ", of another user" };
        diagnosis.problems.push(format!(
            "others may replace files in {shown} ({mode:o}{whose}), and a replaced file is a separate set of locks: deny them write access"
        ));
    }
    if for_group && !(of_group && mode & SETGID != 0) {
        diagnosis.problems.push(format!(
            "group {group} owns the file, but not files that users create in {shown} ({mode:o}, group {}), so its members may be denied access: \
             `chgrp {group} {shown}; chmod g+s {shown}`",
            found.gid()
        ));
    }
    let group_comes = mode & if of_group { 0o010 } else { 0o001 } != 0;
    let readers = (if group_comes && !for_group { file.mode() & 0o040 } else { 0 })
        | (if mode & 0o001 != 0 && !for_all { file.mode() & 0o004 } else { 0 });
    if readers != 0 {
        let (found, closed) = (file.mode() & 0o777, file.mode() & 0o777 & !readers);
        diagnosis.problems.push(format!(
            "others may read {} ({found:o}), and a user who can read it can keep all others from its locks: \
             `chmod {closed:o} {0}`",
            database.display()
        ));
    }
    if (for_group || for_all) && mode & STICKY != 0 && protects_files() {
        diagnosis.problems.push(format!(
            "in {shown}, which is sticky ({mode:o}), the system denies users the files of others (`fs.protected_regular`): \
             put the file into a folder that is not sticky"
        ));
    }
}

/// Whether a file in a sticky folder that others may write to can be opened only by its owner.
fn protects_files() -> bool {
    fs::read_to_string("/proc/sys/fs/protected_regular").is_ok_and(|set| set.trim() != "0")
}
