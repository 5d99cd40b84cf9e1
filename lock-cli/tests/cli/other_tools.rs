//! Habits of users of `flock`, `timeout`, `env` and systemd.

use std::{
    fs,
    os::unix::fs::symlink,
    process::{Command, Stdio},
};

use lock_conformance::{copy_program, ran_nothing};
use nix::sys::signal::Signal;

use crate::{
    process::{Process, answered, holding, outcome, until_queued},
    store::Store,
};

#[test]
fn what_flock_takes_is_taken() {
    let store = Store::any();
    let line = outcome(&store.url, &["run", "a", "-c", "echo \"$DISTLOCK_NAME\" | tr a b; exit 3"]);
    assert_eq!((line.code, line.stdout.as_str()), (Some(3), "b\n"), "{line:?}");

    let _holder = holding(&store.url, "a", &[]);
    for (args, code) in [
        (&["-n", "echo", "ran"][..], 75),
        (&["-n", "-E", "9", "-c", "echo ran"], 9),
        (&["-w", "0.2", "echo", "ran"], 75),
        (&["-w", "0", "-c", "echo ran"], 75),
    ] {
        let busy = answered(|| outcome(&store.url, &[&["run", "a"], args].concat()));
        assert_eq!((busy.code, busy.stdout.as_str()), (Some(code), ""), "{args:?}: {busy:?}");
    }
}

#[test]
fn seconds_need_no_unit() {
    let store = Store::sqlite();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "ttl = 7\nwait = \"60\"\n").unwrap();
    let show = format!("{} --url {} show a --json", env!("CARGO_BIN_EXE_distlock"), store.url);
    for (args, most) in [(&["--ttl", "9", "--grace", "1", "--max-hold", "60"][..], 9_000), (&[], 7_000)] {
        let settings = ["--config", file.path().to_str().unwrap(), "run", "a", "-c", &show];
        let shown = outcome(&store.url, &[&settings, args].concat());
        let shown: serde_json::Value = serde_json::from_str(&shown.stdout).expect("JSON");
        let left = shown["queue"][0]["lease_left_ms"].as_u64().unwrap();
        // The default would be 30 s.
        assert!((1..=most).contains(&left), "{args:?}: {left}");
    }
}

#[test]
fn a_busy_lock_is_told_to_who_asked_for_quiet_by_the_exit_code_alone() {
    let store = Store::any();
    let _holder = holding(&store.url, "a", &[]);
    for args in [&["-q", "run", "a", "-n", "true"][..], &["run", "-q", "a", "-w", "0.1", "true"]] {
        let busy = answered(|| outcome(&store.url, args));
        let told = (busy.code, busy.stdout.as_str(), busy.stderr.as_str());
        assert_eq!(told, (Some(75), "", ""), "{args:?}");
    }
    // An error is still reported.
    let wrong = outcome(&store.url, &["-q", "run", "a", "--of", "3", "-n", "true"]);
    assert!(wrong.code == Some(65) && wrong.stderr.contains("in use as a mutex"), "{wrong:?}");
}

#[test]
fn an_empty_list_is_told_to_who_asked_for_quiet_by_no_message() {
    let store = Store::any();
    for (args, message) in
        [(&["list"][..], "distlock: no lock is held or waited for\n"), (&["-q", "list"], "")]
    {
        let listed = outcome(&store.url, args);
        let told = (listed.code, listed.stdout.as_str(), listed.stderr.as_str());
        assert_eq!(told, (Some(0), "", message), "{args:?}");
    }
}

/// Every line that the manual gives to users of other tools works.
#[test]
fn the_lines_that_the_manual_gives_for_those_of_others_work() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    fs::write(&script, "#!/bin/sh\necho done\n").unwrap();
    copy_program(script, folder.path().join("job"), 0o755);
    symlink(env!("CARGO_BIN_EXE_distlock"), folder.path().join("distlock")).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let manual = manual();
    let table = manual.split_once("| your line | ours |").expect("the table is there").1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let lines = rows.filter_map(|row| {
        row.split('`').find(|text| text.starts_with("distlock ") && text.contains(" run "))
    });
    let mut tried = 0;
    for line in lines {
        let mut shell = Command::new("bash");
        shell
            .args(["-c", line])
            .env("PATH", &path)
            .env("DISTLOCK_URL", &store.url)
            .env("XDG_CONFIG_HOME", "/nonexistent");
        let ran = Process::start(shell.current_dir(&folder).stdin(Stdio::null())).end();
        assert!(ran.code == Some(0) && ran.stdout.starts_with("done\n"), "{line}: {ran:?}");
        tried += 1;
    }
    assert!(tried >= 8, "{tried}");
}

#[test]
fn systemd_understands_the_units_of_the_examples() {
    const TEST: &str = "other_tools::systemd_understands_the_units_of_the_examples";
    if !Command::new("systemd-analyze").arg("--version").output().is_ok_and(|tried| tried.status.success()) {
        return ran_nothing(TEST, "it takes systemd-analyze");
    }
    let folder = tempfile::tempdir().unwrap();
    let units = ["report.service", "report.timer"].map(|name| {
        let path = folder.path().join(name);
        let unit = unit(name).replace("/usr/local/bin/distlock", env!("CARGO_BIN_EXE_distlock"));
        fs::write(&path, unit).unwrap();
        path
    });
    let told = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&units).output().unwrap();
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    // It may complain of other units of this machine.
    let of_ours = told.lines().filter(|line| line.contains(folder.path().to_str().unwrap()));
    assert_eq!(of_ours.count(), 0, "{told}");
}

/// As systemd starts it: when the lock is free, and when another machine has it.
#[test]
fn the_unit_of_the_examples_runs_its_job_and_takes_busy_for_done() {
    let store = Store::any();
    let ran = start_unit(&store, "echo").end();
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "\n"), "{ran:?}");
    let _other = holding(&store.url, "report", &[]);
    let busy = start_unit(&store, "echo").end();
    assert_eq!((busy.code, busy.stdout.as_str()), (Some(75), ""), "{busy:?}");
    assert!(is_success(75));
    assert_eq!(value(&unit("report.service"), "KillMode"), "mixed");
}

/// `systemctl stop` is no failure of the unit.
#[test]
fn a_stop_of_the_unit_of_the_examples_is_a_success() {
    let store = Store::any();
    let service = start_unit(&store, "sleep 60");
    until_queued(&store.url, "report", 1);
    service.signal(Signal::SIGTERM);
    let code = service.end().code.expect("it is not ended by a signal");
    assert!(is_success(code), "{code}");
}

/// Starts what the unit starts, with another job.
fn start_unit(store: &Store, job: &str) -> Process {
    let line = value(&unit("report.service"), "ExecStart")
        .replace("/usr/local/bin/distlock", env!("CARGO_BIN_EXE_distlock"))
        .replace("/usr/local/bin/report", job);
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command.args(words).env("DISTLOCK_URL", &store.url).env("XDG_CONFIG_HOME", "/nonexistent");
    Process::start(command.stdin(Stdio::null()))
}

/// Whether the unit names an exit code as a success.
fn is_success(code: i32) -> bool {
    let code = code.to_string();
    value(&unit("report.service"), "SuccessExitStatus").split(' ').any(|named| named == code)
}

fn unit(name: &str) -> String {
    let path = format!("{}/../examples/systemd/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).unwrap()
}

/// The value of a key.
fn value<'a>(unit: &'a str, key: &str) -> &'a str {
    let found = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("{key} is missing"))
}

fn manual() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md")).unwrap()
}
