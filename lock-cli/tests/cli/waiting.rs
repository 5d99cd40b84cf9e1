//! A store that does not answer: what is said, and what the command ends with.

use std::{
    fs,
    time::{Duration, Instant},
};

use lock_conformance::{Links, Proxy};

use crate::{
    process::{Process, distlock, until_queued, until_written},
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

/// A script that takes busy for done must not take an outage for it.
#[test]
fn a_wait_that_ends_in_an_outage_is_no_busy_lock_and_takes_no_longer() {
    let store = Store::redis();
    let way = Proxy::start(store.address(), |_| false);
    let url = format!("redis://{}", way.address());
    let _holder = Process::fed(&mut distlock(&store.url, &["hold", "a"]), b"");
    until_queued(&store.url, "a", 1);
    let run = ["run", "a", "--wait", "8s", "-E", "0", "--", "echo", "ran"];
    let waiter = Process::start(&mut distlock(&url, &run));
    until_queued(&store.url, "a", 2);
    let queued = Instant::now();
    way.silence(Links::All);
    let ended = waiter.end();
    let took = queued.elapsed();
    assert_eq!((ended.code, ended.said.as_str()), (Some(69), ""), "{ended:?}");
    assert!(ended.complained.contains("lock `a` was not granted within 8.0s, and the store"), "{ended:?}");
    assert!(took < Duration::from_millis(9_500), "it waited for longer than it was told to: {took:?}");
}
