//! A full disk.

use std::process::{Command, Stdio};

use lock_conformance::ran_nothing;

use crate::process::Process;

/// In a mount namespace, with a small disk that is full at first.
const FULL: &str = r#"
mount -t tmpfs -o size=1m,mode=755 none /mnt
dd if=/dev/zero of=/mnt/filled 2>/dev/null
"$D" --url sqlite:/mnt/locks.db run a -- echo ran; echo "full: $?"
rm /mnt/filled
"$D" --url sqlite:/mnt/locks.db run a -- echo ran; echo "with room: $?"
"#;

#[test]
fn a_full_disk_is_told_as_one_that_lacks_space() {
    const TEST: &str = "full_disk::a_full_disk_is_told_as_one_that_lacks_space";
    let tried = Command::new("unshare").args(["--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        return ran_nothing(TEST, "it takes root and a namespace");
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", FULL]).env("D", env!("CARGO_BIN_EXE_distlock"));
    command.env("XDG_CONFIG_HOME", "/nonexistent").env_remove("DISTLOCK_URL").stdin(Stdio::null());
    let told = Process::start(&mut command).end();
    assert_eq!(told.stdout, "full: 69\nran\nwith room: 0\n", "{told:?}");
    let (trouble, advice) = ("the store is out of memory or space", "free some, or raise its limit");
    assert!(told.stderr.contains(trouble) && told.stderr.contains(advice), "{told:?}");
}
