//! [`Writer`]: the process that is writing to the database, as far as the kernel shows it.

use std::{
    ffi::OsString,
    fmt, fs,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, Instant},
};

/// The byte of the shared memory that a writer locks: `WAL_WRITE_LOCK` of SQLite.
const WRITE_LOCK: u64 = 120;

/// How often the locks of the machine are read. That blocks all locking for a moment, so it is not done for each caller.
const SELDOM: Duration = Duration::from_millis(250);

/// A process that writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    pid: u32,
    name: String,
    pub(crate) stopped: bool,
}

/// The writer at the last look.
#[derive(Debug, Default)]
pub(crate) struct WriterCache(Option<(Instant, Option<Writer>)>);

impl WriterCache {
    /// None if no process writes, or the kernel does not show it: a process of another namespace has no number here.
    pub(crate) fn writer(&mut self, database: &Path) -> Option<Writer> {
        match &self.0 {
            Some((at, writer)) if at.elapsed() < SELDOM => writer.clone(),
            _ => {
                let writer = look(database);
                self.0 = Some((Instant::now(), writer.clone()));
                writer
            }
        }
    }
}

impl Writer {
    /// From a line of `/proc/PID/stat`: `PID (NAME) STATE …`, where a name may be anything.
    fn read(pid: u32, stat: &str) -> Option<Self> {
        let (head, state) = stat.rsplit_once(") ")?;
        let (_, name) = head.split_once('(')?;
        let stopped = state.starts_with(['T', 't']);
        Some(Self { pid, name: name.escape_debug().to_string(), stopped })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, name, .. } = self;
        if *pid == std::process::id() {
            f.write_str("this process")
        } else {
            write!(f, "process {pid} ({name})")
        }
    }
}

/// Searches the list of all locks. Asking about the file itself would need another descriptor, and closing that would drop this process's
/// own locks on the file.
fn look(database: &Path) -> Option<Writer> {
    let mut memory: OsString = database.into();
    memory.push("-shm");
    let found = fs::metadata(memory).ok()?;
    let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let file = format!("{major:02x}:{minor:02x}:{}", found.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pid = locks.lines().find_map(|line| writer_of(&file, line))?;
    Writer::read(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The process in a line of `/proc/locks`, if it is the writer: `1: POSIX ADVISORY WRITE 4711 fe:00:10190894 120 120`.
fn writer_of(file: &str, line: &str) -> Option<u32> {
    let mut words = line.split_whitespace().skip(1);
    let (kind, _, access) = (words.next()?, words.next()?, words.next()?);
    let pid = words.next()?.parse().ok()?;
    let (of, first) = (words.next()?, words.next()?.parse::<u64>().ok()?);
    let last = words.next()?.parse().unwrap_or(u64::MAX);
    let writes = (kind, access, of) == ("POSIX", "WRITE", file) && (first..=last).contains(&WRITE_LOCK);
    writes.then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_is_found_among_all_locks() {
        let file = "fe:00:77";
        for (line, expected) in [
            ("1: POSIX  ADVISORY  WRITE 4711 fe:00:77 120 120", Some(4711)),
            ("2: POSIX  ADVISORY  WRITE 4711 fe:00:77 120 123", Some(4711)),
            ("3: POSIX  ADVISORY  READ 4711 fe:00:77 124 124", None),
            ("4: POSIX  ADVISORY  WRITE 4711 fe:00:77 121 121", None),
            ("5: POSIX  ADVISORY  WRITE 4711 fe:00:78 120 120", None),
            ("5: -> POSIX  ADVISORY  WRITE 4711 fe:00:77 120 120", None),
            ("6: FLOCK  ADVISORY  WRITE 4711 fe:00:77 0 EOF", None),
            ("7:", None),
        ] {
            assert_eq!(writer_of(file, line), expected, "{line}");
        }
    }

    #[test]
    fn a_name_may_be_anything() {
        let writer = Writer::read(7, "7 (a ) T (b) S 1 7 7 0").unwrap();
        assert_eq!((writer.name.as_str(), writer.stopped), ("a ) T (b", false));
        assert!(Writer::read(7, "7 (sleep) T 1 7 7 0").unwrap().stopped);
        assert_eq!(Writer::read(7, "nothing of the kind"), None);
    }
}
