//! A store that does not answer: messages and exit codes, and what is printed about a waiter.

use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use lock_conformance::{Links, Newcomers, Proxy};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::{
    process::{Process, distlock, outcome, queue, until, until_queued, until_written},
    store::Store,
};

/// The command has run under the lock: only when the lock is free is not known.
#[test]
fn a_release_that_is_not_confirmed_says_why_and_when_the_lock_is_free() {
    let store = Store::redis();
    let proxy = Proxy::start(store.address(), |_| false);
    let url = format!("redis://{}", proxy.address());
    let folder = tempfile::tempdir().unwrap();
    let line = "echo > ready; until [ -e enough ]; do sleep 0.01; done";
    // No renewal is due before the end.
    let run = ["run", "a", "--ttl", "1h", "--shell", "--", line];
    let holder = Process::start(distlock(&url, &run).current_dir(&folder));
    until_written(&folder.path().join("ready"));
    proxy.silence(Links::All);
    fs::write(folder.path().join("enough"), "").unwrap();
    let ended = holder.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told = ended.stderr.lines().find(|line| line.contains("is not confirmed")).unwrap_or_default();
    assert!(told.contains("the release of lock `a`") && told.contains("(redis: "), "{ended:?}");
    assert!(told.contains("; it is free within 1h") && told.ends_with(" at the latest"), "{ended:?}");
}

/// A script that accepts a busy lock must not accept an outage.
#[test]
fn a_wait_that_ends_in_an_outage_is_no_busy_lock_and_takes_no_longer() {
    let store = Store::redis();
    let proxy = Proxy::start(store.address(), |_| false);
    // The first waiter notices the outage before its wait is over. The other one would wait a minute for its answer.
    let urls = ["2s", "60s"].map(|limit| format!("redis://{}?command_timeout={limit}", proxy.address()));
    let _holder = Process::fed(&mut distlock(&store.url, &["hold", "a"]), b"");
    until_queued(&store.url, "a", 1);
    // Both are in the queue long before the end of their wait.
    let run = ["run", "a", "--wait", "12s", "--outage", "wait", "-E", "0", "--", "echo", "ran"];
    let waiters = urls.map(|url| Process::start(&mut distlock(&url, &run)));
    until_queued(&store.url, "a", 3);
    let queued = Instant::now();
    proxy.silence(Links::All);
    for waiter in waiters {
        let ended = waiter.end();
        let took = queued.elapsed();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(69), ""), "{ended:?}");
        let told =
            format!("lock `a` was not granted within 12.0s, and the store redis://{} ", proxy.address());
        assert!(ended.stderr.contains(&told), "{ended:?}");
        assert!(took < Duration::from_secs(22), "it waited for longer than it was told to: {took:?}");
    }
}

/// The early probe is answered, and nothing after it.
#[test]
fn an_outage_that_begins_just_before_the_end_of_a_wait_is_no_busy_lock() {
    let store = Store::redis();
    let _holder = Process::fed(&mut distlock(&store.url, &["hold", "a"]), b"");
    until_queued(&store.url, "a", 1);
    // The answer to `enter` has the labels of the entries ahead: only the answer with the whole queue has this one.
    let url = proxy_that_stops_after(store.address(), "berta");
    let run = ["run", "a", "--wait", "3s", "-E", "0", "--label", "berta", "--", "echo", "ran"];
    let ended = outcome(&url, &run);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(69), ""), "{ended:?}");
    assert!(ended.stderr.contains("lock `a` was not granted within 3.0s, and the store"), "{ended:?}");
}

/// A line in a log has to say when the outage was.
#[test]
fn an_outage_is_told_with_the_time_where_there_is_no_terminal() {
    let store = Store::redis();
    let folder = tempfile::tempdir().unwrap();
    let _holder = Process::fed(&mut distlock(&store.url, &["hold", "a"]), b"");
    until_queued(&store.url, "a", 1);
    let _waiter = waiter(&store, &folder, &[]);
    until_queued(&store.url, "a", 2);
    drop(store);
    assert_has_the_time(&until_stderr_has(&folder, "trying again"));
}

#[test]
fn watch_tells_an_outage_with_the_time_where_there_is_no_terminal() {
    let store = Store::redis();
    let folder = tempfile::tempdir().unwrap();
    let _holder = Process::fed(&mut distlock(&store.url, &["hold", "a"]), b"");
    until_queued(&store.url, "a", 1);
    let _watcher = run_into_files(&store, &folder, &["watch", "a", "--interval", "50ms"]);
    until("the first look", || {
        fs::read_to_string(folder.path().join("out")).unwrap_or_default().contains("holds it")
    });
    drop(store);
    assert_has_the_time(&until_stderr_has(&folder, "trying again"));
}

#[track_caller]
fn assert_has_the_time(told: &str) {
    let (time, what) = told.strip_prefix("distlock: ").and_then(|told| told.split_once(' ')).expect("a line");
    assert!(humantime::parse_rfc3339(time).is_ok(), "{told}");
    assert!(what.starts_with("the store does not answer, trying again (redis: "), "{told}");
}

#[test]
fn who_has_the_lock_is_told_on_request_where_there_is_no_terminal() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let _holder = Process::fed(&mut distlock(&store.url, &["hold", "a", "--label", "anna"]), b"");
    until_queued(&store.url, "a", 1);
    let _waiter = waiter(&store, &folder, &["--verbose"]);
    let told = until_stderr_has(&folder, "waiting for `a`: ");
    assert!(told.contains("in the queue") && told.contains("; held by anna ("), "{told}");
}

/// A server does not notice that a process is killed: its place ends with its lease.
#[test]
fn a_waiter_has_a_shorter_lease_on_a_server_than_a_holder() {
    const SHORT_MS: u64 = 10_000;
    let store = Store::redis();
    let left = |place: usize| queue(&store.url, "a")[place]["lease_left_ms"].as_u64().expect("a number");
    let holder = Process::fed(&mut distlock(&store.url, &["hold", "a"]), b"");
    until_queued(&store.url, "a", 1);
    let _waiter = Process::fed(&mut distlock(&store.url, &["hold", "a"]), b"");
    until_queued(&store.url, "a", 2);
    // The server rounds up, to a millisecond.
    assert!(left(1) <= SHORT_MS + 1, "the lease of the waiter");
    until("the full lease of the holder", || left(0) > 2 * SHORT_MS);
    holder.signal(Signal::SIGTERM);
    holder.end();
    until("the full lease of the one who waited", || left(0) > 2 * SHORT_MS);
}

/// As after a boot, when the server starts later than its clients.
#[test]
fn a_store_that_is_down_at_the_start_is_waited_for_where_that_is_wanted() {
    let store = Store::redis();
    let proxy = Proxy::start(store.address(), |_| false);
    proxy.newcomers(Newcomers::Refuse);
    let folder = tempfile::tempdir().unwrap();
    let run = ["run", "a", "--outage", "wait", "-w", "60", "--", "echo", "ran"];
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>said", "sh", env!("CARGO_BIN_EXE_distlock")]);
    command.args(["--url", &format!("redis://{}", proxy.address())]).args(run);
    command.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null()).current_dir(&folder);
    let early = Process::start(&mut command);
    until_stderr_has(&folder, "the store cannot be connected to, trying again (redis: ");
    proxy.newcomers(Newcomers::Serve);
    let ran = early.end();
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "ran\n"), "{ran:?}");

    // The wait for the store is part of the wait for the lock.
    let nowhere = "redis://127.0.0.1:1?connect_timeout=500ms";
    let away = outcome(nowhere, &["run", "a", "--outage", "wait", "-w", "0.3", "-E", "0", "echo", "ran"]);
    assert_eq!((away.code, away.stdout.as_str()), (Some(69), ""), "{away:?}");
}

/// As PID 1 of a container, a process is not ended by a signal that it does not handle. Elsewhere it would end without a status.
#[test]
fn a_signal_ends_the_wait_for_a_store_that_is_down_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    for args in [&["run", "a", "--status-file", "status"][..], &["hold", "a"]] {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 2>said", "sh", env!("CARGO_BIN_EXE_distlock")]).args(args);
        command.args(["--url", "redis://127.0.0.1:1?connect_timeout=500ms", "--outage", "wait"]);
        if args[0] == "run" {
            command.args(["--", "echo", "ran"]);
        }
        command.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null()).current_dir(&folder);
        let early = Process::start(&mut command);
        until_stderr_has(&folder, "the store cannot be connected to, trying again");
        early.signal(Signal::SIGTERM);
        let ended = early.end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(143), ""), "{args:?}: {ended:?}");
        fs::remove_file(folder.path().join("said")).unwrap();
    }
    assert_eq!(fs::read_to_string(folder.path().join("status")).unwrap(), "interrupted 143\n");
}

#[test]
fn who_does_not_want_to_wait_for_a_store_gives_up_its_place() {
    let store = Store::redis();
    let _holder = Process::fed(&mut distlock(&store.url, &["hold", "a"]), b"");
    until_queued(&store.url, "a", 1);
    let waiter = Process::start(&mut distlock(&store.url, &["run", "a", "--outage", "fail", "echo", "ran"]));
    until_queued(&store.url, "a", 2);
    drop(store);
    let ended = waiter.end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(69), ""), "{ended:?}");
}

/// A waiter for the lock `a`, whose output goes into files.
fn waiter(store: &Store, folder: &TempDir, args: &[&str]) -> Process {
    run_into_files(store, folder, &[&["run", "a"], args, &["--", "true"]].concat())
}

/// The command, with its output in files.
fn run_into_files(store: &Store, folder: &TempDir, args: &[&str]) -> Process {
    let mut command = Command::new("sh");
    let line = "exec \"$@\" >out 2>said";
    command.args(["-c", line, "sh", env!("CARGO_BIN_EXE_distlock"), "--url", &store.url]).args(args);
    command.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null());
    Process::start(command.current_dir(folder))
}

/// The URL of a proxy that passes nothing on any more once it has passed on an answer with this text in it.
fn proxy_that_stops_after(server: SocketAddr, text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(server).unwrap();
            for (from, to, last) in [(&client, &server, None), (&server, &client, Some(text))] {
                let (from, to, over) =
                    (from.try_clone().unwrap(), to.try_clone().unwrap(), Arc::clone(&over));
                thread::spawn(move || relay(&from, &to, last, &over));
            }
        }
    });
    format!("redis://{address}")
}

fn relay(mut from: &TcpStream, mut to: &TcpStream, last: Option<&str>, over: &AtomicBool) {
    let mut buffer = [0; 8_192];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if over.load(Ordering::SeqCst) {
            continue;
        }
        let bytes = &buffer[..count];
        let is_last = last.is_some_and(|text| String::from_utf8_lossy(bytes).contains(text));
        if to.write_all(bytes).is_err() {
            break;
        }
        over.fetch_or(is_last, Ordering::SeqCst);
    }
    // The other side may have closed it already.
    let _ = to.shutdown(Shutdown::Both);
}

fn until_stderr_has(folder: &TempDir, what: &str) -> String {
    let mut told = String::new();
    until(what, || {
        told = fs::read_to_string(folder.path().join("said")).unwrap_or_default();
        told.contains(what)
    });
    told
}
