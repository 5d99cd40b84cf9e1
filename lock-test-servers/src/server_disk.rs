//! [`ServerDisk`]: the disk of a server, which a test fills.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use lock_conformance::shared_library;

use crate::preload::Preload;

/// Stands between a server and its C library.
const SHIM: &str = include_str!("server_disk.c");

/// Names the file that says whether the disk is full.
const VARIABLE: &str = "DISTLOCK_SERVER_DISK";

/// Names the folder that is on the disk.
const FOLDER: &str = "DISTLOCK_SERVER_DISK_FOLDER";

/// A disk that is filled and freed while programs run on it. Clones are the same disk. For programs that write by the C library of Linux, as
/// Java, Redis and SQLite do. It refuses each write as a whole, also where a disk would have room for a part, or for what replaces other bytes.
#[derive(Clone, Debug)]
pub struct ServerDisk {
    library: PathBuf,
    full: PathBuf,
    folder: PathBuf,
}

impl ServerDisk {
    /// A disk with room, on which `data` is. Its own files are in `folder`, outside of that, which has to be there as long as programs
    /// are started.
    ///
    /// # Panics
    /// If there is no compiler for C, no folder `data`, or `folder` cannot be written to.
    #[must_use]
    pub fn new(folder: &Path, data: &Path) -> Self {
        let full = folder.join("full");
        fs::write(&full, 0_i64.to_ne_bytes()).expect("a folder of the test can be written to");
        // As the kernel names it.
        let data = fs::canonicalize(data).expect("the folder for the data is there");
        Self { library: shared_library(folder, "server_disk", SHIM), full, folder: data }
    }

    /// Fills it, or makes room.
    ///
    /// # Panics
    /// If its file is gone.
    pub fn set_full(&self, full: bool) {
        // In place, since programs have the file in their memory.
        let file = OpenOptions::new().write(true).open(&self.full);
        let set = file.and_then(|mut file| file.write_all(&i64::from(full).to_ne_bytes()));
        set.expect("the file of a disk is there");
    }

    /// What programs on this disk load. They speak English of it, so that tests can read it: `No space left on device`.
    #[must_use]
    pub fn preload(&self) -> Preload {
        let variables = [(VARIABLE, &self.full), (FOLDER, &self.folder)];
        let variables = variables.map(|(name, path)| format!("{name}={}", path.display()));
        let variables = variables.into_iter().chain(["LC_ALL=C".to_owned()]).collect();
        Preload { library: self.library.clone(), variables }
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use lock_conformance::{ServerProgram, TestServer};

    use super::*;

    /// Writes a byte to the file that its argument names.
    const SCRIPT: &str = r#"exec dd if=/dev/zero of="$0" bs=1 count=1"#;

    #[test]
    fn a_full_disk_takes_no_byte_until_there_is_room_and_others_do() {
        let server = TestServer::new("disk");
        let [data, elsewhere] = ["data", "data-too"].map(|name| server.directory().join(name));
        fs::create_dir(&data).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        let disk = ServerDisk::new(server.directory(), &data);
        let program = Preload::all(&[disk.preload()], ServerProgram::local(["sh", "-c", SCRIPT]));
        let written = |file: PathBuf| {
            server.launch(&program, &[file.display().to_string()]);
            while server.is_alive() {
                thread::sleep(Duration::from_millis(1));
            }
            (fs::metadata(file).unwrap().len(), server.log())
        };
        let (length, log) = written(data.join("before"));
        assert_eq!(length, 1, "{log}");
        disk.set_full(true);
        let (length, log) = written(data.join("full"));
        assert!(length == 0 && log.contains("No space left on device"), "{length}: {log}");
        let (length, log) = written(elsewhere.join("beside"));
        assert_eq!(length, 1, "{log}");
        disk.set_full(false);
        let (length, log) = written(data.join("full"));
        assert_eq!(length, 1, "{log}");
    }
}
