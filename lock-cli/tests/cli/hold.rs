//! `hold` as services use it: without a standard input, and with a parent that waits for the lock.

use std::{
    fs,
    io::Read,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    process::{Command, Stdio},
    time::Duration,
};

use nix::sys::signal::Signal;

use crate::{
    process::{Process, SLACK, answered, distlock, outcome, queue, until, until_queued, until_written},
    store::Store,
};

#[test]
fn hold_with_nobody_at_its_input_holds_until_a_signal() {
    let store = Store::any();
    let holder = Process::start(&mut distlock(&store.url, &["hold", "a"]));
    until_queued(&store.url, "a", 1);
    let other = answered(|| outcome(&store.url, &["run", "a", "--wait", "500ms", "--", "true"]));
    assert_eq!(other.code, Some(75), "{other:?}");
    holder.signal(Signal::SIGTERM);
    let ended = holder.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// As cron gives it: a pipe that nobody writes to.
#[test]
fn hold_with_a_pipe_that_has_ended_before_holds_until_a_signal() {
    let store = Store::any();
    let (mut input, writer) = std::io::pipe().unwrap();
    drop(writer);
    // A process that another test starts may have a copy of the writer, until it runs its program.
    assert_eq!(input.read(&mut [0]).unwrap(), 0);
    let holder = Process::start(distlock(&store.url, &["hold", "a"]).stdin(input));
    until_queued(&store.url, "a", 1);
    let other = answered(|| outcome(&store.url, &["run", "a", "--wait", "500ms", "--", "true"]));
    assert_eq!(other.code, Some(75), "{other:?}");
    holder.signal(Signal::SIGTERM);
    let ended = holder.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn hold_until_eof_ends_with_any_input() {
    let store = Store::any();
    let ended = outcome(&store.url, &["hold", "a", "--until-eof"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.starts_with("holding `a`"), "{ended:?}");
}

#[test]
fn a_service_manager_is_told_when_the_lock_is_held_and_not_before() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify").display().to_string();
    let name = format!("distlock-test-{}", std::process::id());
    let hidden = SocketAddr::from_abstract_name(&name).unwrap();
    for (socket, address) in [
        (UnixDatagram::bind(&path).unwrap(), path),
        (UnixDatagram::bind_addr(&hidden).unwrap(), format!("@{name}")),
    ] {
        let mut holder = Process::fed(&mut distlock(&store.url, &["hold", "a"]), b"");
        until_queued(&store.url, "a", 1);
        let service = Process::start(distlock(&store.url, &["hold", "a"]).env("NOTIFY_SOCKET", &address));
        until_queued(&store.url, "a", 2);
        let mut told = [0; 64];
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert!(socket.recv(&mut told).is_err(), "{address}: it does not hold the lock yet");
        holder.close_input();
        assert_eq!(holder.end().code, Some(0));
        socket.set_read_timeout(Some(SLACK)).unwrap();
        let length = socket.recv(&mut told).unwrap();
        assert_eq!(&told[..length], b"READY=1", "{address}");
        let holds = &queue(&store.url, "a")[0];
        assert_eq!(holds["state"], "holding", "{address}");
        assert_eq!(holds["pid"], service.pid().as_raw(), "{address}");
        service.signal(Signal::SIGTERM);
        assert_eq!(service.end().code, Some(0));
    }
}

#[test]
fn a_descriptor_gets_a_line_when_the_lock_is_held() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 3>ready", "sh", env!("CARGO_BIN_EXE_distlock")]);
    command.args(["--url", &store.url, "hold", "a", "--ready-fd", "3"]);
    command.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null()).current_dir(&folder);
    let holder = Process::start(&mut command);
    until_written(&folder.path().join("ready"));
    assert_eq!(queue(&store.url, "a")[0]["state"], "holding");
    holder.signal(Signal::SIGTERM);
    assert_eq!(holder.end().code, Some(0));

    let wrong = outcome(&store.url, &["hold", "a", "--ready-fd", "999"]);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (Some(64), ""), "{wrong:?}");
    assert!(wrong.stderr.contains("--ready-fd 999 cannot be written to"), "{wrong:?}");
}

#[test]
fn the_line_for_a_descriptor_of_a_file_overwrites_nothing_in_it() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ready");
    for redirection in ["3>>ready", "3<>ready"] {
        fs::write(&file, "abc\n").unwrap();
        let line = format!("exec \"$@\" {redirection}");
        let mut command = Command::new("sh");
        command.args(["-c", &line, "sh", env!("CARGO_BIN_EXE_distlock")]);
        command.args(["--url", &store.url, "hold", "a", "--ready-fd", "3"]);
        command.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null()).current_dir(&folder);
        let holder = Process::start(&mut command);
        until("a line more", || fs::read_to_string(&file).unwrap() == "abc\n\n");
        holder.signal(Signal::SIGTERM);
        assert_eq!(holder.end().code, Some(0), "{redirection}");
    }
}
