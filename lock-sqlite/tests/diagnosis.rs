//! What the doctor tells of a file that causes no error yet.

#[allow(dead_code, reason = "shared with the suite")]
mod file;

use std::fs;

use lock_core::{Keeper, Operator};
use lock_sqlite::Sqlite;

use self::file::{OwnFile, config};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_tells_how_much_of_the_disk_is_free_and_of_a_long_log() {
    let file = OwnFile::new();
    let sqlite = Sqlite::connect(config(&file.path()), &Keeper::start().unwrap()).await.unwrap();
    let log = fs::OpenOptions::new().write(true).open(file.beside("-wal")).unwrap();
    let mebibyte = 1 << 20;
    for (length, is_long) in [(64 * mebibyte, false), (64 * mebibyte + 1, true)] {
        // SQLite knows how much of the log it has written.
        log.set_len(length).unwrap();
        let diagnosis = sqlite.diagnose().await.unwrap();
        let fact = |name| {
            let (_, value) = diagnosis.facts.iter().find(|(found, _)| *found == name).expect(name);
            value.parse::<u64>().unwrap()
        };
        assert_eq!(fact("log, bytes"), length);
        assert!(fact("disk free, bytes") > 0, "{diagnosis:?}");
        let told = diagnosis.problems.iter().any(|problem| problem.starts_with("the log has"));
        assert_eq!(told, is_long, "{diagnosis:?}");
    }
}
