//! Facts about the file, and what is wrong with it for locks.

use std::{
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    time::Instant,
};

use lock_core::{BackendError, Diagnosis};

use crate::{
    presence,
    schema::VERSION,
    store::{Store, now},
};

/// Less than this is soon full: the file, its log, and what grows on the disk beside them.
const LITTLE: u64 = 16 << 20;

/// A log that is longer was not brought into the file for a long time: somebody reads without an end.
const LONG_LOG: u64 = 64 << 20;

pub(crate) fn diagnose(store: &mut Store, give_up: Instant) -> Result<Diagnosis, BackendError> {
    let folder = store.files.processes.clone();
    let (mut facts, members) = store.read(give_up, |connection, _| {
        let number = |query: &str| connection.query_row(query, [], |row| row.get::<_, i64>(0));
        let mut all = connection.prepare_cached("SELECT id, device, inode FROM members")?;
        let members = all.query_map([], crate::verb::member)?.collect::<Result<Vec<_>, _>>()?;
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
        Ok((facts, members))
    })?;
    let database = store.files.database.clone();
    facts.insert(1, ("file", database.display().to_string()));
    facts.push(("listeners", store.hall.waiters.listeners().to_string()));
    let mut diagnosis = Diagnosis::default();
    diagnosis.facts = facts;
    let unjudged = members.iter().filter(|member| !presence::is_judged(&folder, member)).count();
    if unjudged > 0 {
        diagnosis.problems.push(format!(
            "the files of {unjudged} processes in {} are gone or replaced, so their locks are only free when their ttl ends: \
             let nothing clean up there",
            folder.display()
        ));
    }
    place_problems(&mut diagnosis, &database);
    Ok(diagnosis)
}

fn place_problems(diagnosis: &mut Diagnosis, database: &Path) {
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
    let length = std::fs::metadata(log).map_or(0, |log| log.len());
    diagnosis.facts.push(("log, bytes", length.to_string()));
    if length > LONG_LOG {
        diagnosis.problems.push(format!(
            "the log has {length} bytes, because somebody reads the file without an end: see who has it open (`fuser {}`)",
            database.display()
        ));
    }
    if let Ok(found) = std::fs::metadata(folder) {
        let mode = found.permissions().mode();
        let foreign = found.uid() != rustix::process::geteuid().as_raw();
        // In a sticky folder nobody replaces the files of others.
        if mode & 0o022 != 0 && mode & 0o1000 == 0 {
            diagnosis.problems.push(format!(
                "others may replace files in {} ({:o}{}), and a replaced file is another world of locks: close it to them",
                folder.display(),
                mode & 0o7777,
                if foreign { ", of somebody else" } else { "" }
            ));
        }
    }
}
