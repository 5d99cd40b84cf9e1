//! A store that does not answer: what is said, and what the command ends with.

use std::fs;

use lock_conformance::{Links, Proxy};

use crate::{
    process::{Process, distlock, until_written},
    store::Store,
};

/// The command was done under the lock: only when others can have it is not known.
#[test]
fn a_release_that_is_not_confirmed_says_why_and_when_the_lock_is_free() {
    let store = Store::redis();
    let way = Proxy::start(store.address(), |_| false);
    let url = format!("redis://{}", way.address());
    let folder = tempfile::tempdir().unwrap();
    let line = "echo > ready; until [ -e enough ]; do sleep 0.01; done";
    // No renewal is due before the end.
    let run = ["run", "a", "--ttl", "1h", "--shell", "--", line];
    let holder = Process::start(distlock(&url, &run).current_dir(&folder));
    until_written(&folder.path().join("ready"));
    way.silence(Links::All);
    fs::write(folder.path().join("enough"), "").unwrap();
    let ended = holder.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told = ended.complained.lines().find(|line| line.contains("is not confirmed")).unwrap_or_default();
    assert!(told.contains("the release of lock `a`") && told.contains("(redis: "), "{ended:?}");
    assert!(told.contains("; it is free within 1h") && told.ends_with(" at the latest"), "{ended:?}");
}
