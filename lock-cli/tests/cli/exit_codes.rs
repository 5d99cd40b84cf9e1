//! Exit codes, status files and errors as JSON.

use std::{
    collections::BTreeSet,
    fs,
    process::{Command, Stdio},
};

use crate::{
    process::{Process, answered, distlock, holding, outcome},
    store::Store,
};

#[test]
fn every_code_of_ours_can_be_chosen() {
    let store = Store::redis();
    let port = store.address().port().to_string();
    let _holder = holding(&store.url, "a", &[]);
    let url = store.url.as_str();
    let nowhere = "redis://127.0.0.1:1?connect_timeout=500ms";
    for (url, args, code) in [
        (url, &["--exit", "busy=0", "-n", "true"][..], 0),
        (url, &["--exit", "busy=3,lost=4", "-w", "0.1", "true"], 3),
        // A busy code that is equal to that of a lost lock is not replaced by `lost`.
        (url, &["--exit", "busy=79,lost=4", "-n", "true"], 79),
        (url, &["--exit", "kind=5", "--shared", "-n", "true"], 5),
        (nowhere, &["--exit", "busy=0,unavailable=6", "true"], 6),
    ] {
        let ended = answered(|| outcome(url, &[&["run", "a"], args].concat()));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{args:?}: {ended:?}");
    }
    let lost = outcome(&store.url, &["run", "b", "--exit", "lost=7", "redis-cli", "-p", &port, "flushall"]);
    assert_eq!((lost.code, lost.stdout.as_str()), (Some(7), "OK\n"), "{lost:?}");
    // A code of the command is never replaced.
    let own = outcome(&store.url, &["run", "b", "--exit", "busy=0,lost=0,unavailable=0", "-c", "exit 79"]);
    assert_eq!(own.code, Some(79), "{own:?}");
}

#[test]
fn codes_that_are_wrong_are_told_with_the_names_there_are() {
    let store = Store::any();
    for codes in ["late=3", "busy=256", "busy"] {
        let told = outcome(&store.url, &["run", "a", "--exit", codes, "true"]);
        assert!(
            told.code == Some(64) && told.stderr.contains("names are busy, unavailable, lost"),
            "{told:?}"
        );
    }
}

#[test]
fn a_status_file_tells_the_codes_of_the_command_from_ours() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("status");
    let path = file.to_str().unwrap();
    let run = |args: &[&str]| {
        let ended = outcome(&store.url, &[&["run", "a", "--status-file", path], args].concat());
        (ended.code, fs::read_to_string(&file).unwrap())
    };
    assert_eq!(run(&["-c", "exit 75"]), (Some(75), "command 75\n".to_owned()));
    assert_eq!(run(&["-c", "kill -9 $$"]), (Some(137), "command 137\n".to_owned()));
    assert_eq!(run(&["-c", "exit 127"]), (Some(127), "command 127\n".to_owned()));
    assert_eq!(run(&["/nonexistent/job"]), (Some(127), "failed 127\n".to_owned()));
    assert_eq!(run(&["/"]), (Some(126), "failed 126\n".to_owned()));
    // The file is emptied at the start: if distlock is killed, the last status does not stay.
    let line = format!("wc -c < {path}");
    let size = outcome(&store.url, &["run", "a", "--status-file", path, "-c", &line]);
    assert_eq!(size.stdout.trim(), "0", "{size:?}");
    let _holder = holding(&store.url, "a", &[]);
    assert_eq!(run(&["-n", "true"]), (Some(75), "busy 75\n".to_owned()));
    assert_eq!(run(&["-n", "-E", "0", "true"]), (Some(0), "busy 0\n".to_owned()));
    let nowhere = outcome(&store.url, &["run", "a", "--status-file", "/nonexistent/status", "true"]);
    assert!(
        nowhere.code == Some(64) && nowhere.stderr.contains("--status-file cannot be written to"),
        "{nowhere:?}"
    );
}

/// Otherwise the `command 0` of yesterday passes for the end of this run.
#[test]
fn a_mistake_in_the_command_line_is_in_the_status_file_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("status");
    let path = file.to_str().unwrap();
    let status_after = |args: &[&str]| {
        fs::write(&file, "command 0\n").unwrap();
        let wrong = outcome("sqlite:", args);
        assert_eq!(wrong.code, Some(64), "{args:?}: {wrong:?}");
        fs::read_to_string(&file).unwrap()
    };
    for args in [
        &["run", "", "--status-file", path, "--", "true"][..],
        &["run", "a", "--wait", "", "--status-file", path, "true"],
        &["run", "--status-file", path, "a"],
    ] {
        assert_eq!(status_after(args), "usage 64\n", "{args:?}");
    }
    // That is an option of the command.
    let of_command = ["run", "a", "--wait", "", "true", "--status-file", path];
    assert_eq!(status_after(&of_command), "command 0\n");
}

/// As where the log is on a full disk, or the terminal has hung up.
#[test]
fn a_message_that_cannot_be_written_changes_no_code_and_no_status() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let _holder = holding(&store.url, "a", &[]);
    let run = |url: &str, args: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 2>/dev/full", "sh", env!("CARGO_BIN_EXE_distlock")]);
        command.args(["--url", url]).args(args).current_dir(&folder);
        Process::start(command.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null())).end()
    };
    let nowhere = "redis://127.0.0.1:1?connect_timeout=500ms";
    for (url, args, code) in [
        (store.url.as_str(), &["a", "-n", "true"][..], 75),
        (store.url.as_str(), &["a", "-n", "-E", "0", "true"], 0),
        (store.url.as_str(), &["b", "/nonexistent/job"], 127),
        (nowhere, &["b", "true"], 69),
    ] {
        let ended = run(url, &[&["run", "--status-file", "status"], args].concat());
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
        let status = fs::read_to_string(folder.path().join("status")).unwrap();
        assert!(status.ends_with(&format!(" {code}\n")), "{args:?}: {status:?}");
    }
    // A pipe that nobody reads any more.
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    let mut missing = distlock(&store.url, &["run", "b", "--status-file", "status", "/nonexistent/job"]);
    let ended = missing.current_dir(&folder).stderr(closed).status().unwrap();
    assert_eq!(ended.code(), Some(127));
    assert_eq!(fs::read_to_string(folder.path().join("status")).unwrap(), "failed 127\n");
    let listed = run(&store.url, &["list", "none/"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
}

#[test]
fn show_tells_who_asked_for_quiet_by_its_code_whether_a_lock_is_held() {
    let store = Store::any();
    let _holder = holding(&store.url, "a", &[]);
    for (args, code) in [(&["show", "-q", "a"][..], 0), (&["-q", "show", "b", "--json"], 1)] {
        let shown = outcome(&store.url, args);
        let told = (shown.code, shown.stdout.as_str(), shown.stderr.as_str());
        assert_eq!(told, (Some(code), "", ""), "{args:?}");
    }
}

/// The error is on the standard error alone.
#[test]
fn a_program_that_reads_json_gets_errors_as_json() {
    let store = Store::any();
    let _holder = holding(&store.url, "a", &[]);
    let busy = outcome(&store.url, &["hold", "a", "-n", "--exit", "busy=9", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&busy.stderr).expect("one line of JSON");
    assert_eq!((busy.code, busy.stdout.as_str()), (Some(9), ""), "{busy:?}");
    assert_eq!(told["error"], "lock `a` is busy", "{told}");
    assert_eq!(told["kind"], "busy", "{told}");
    assert_eq!(told["code"], 9, "{told}");
    assert!(told["try"].as_str().is_some_and(|hint| hint.contains("distlock show a")), "{told}");

    let away = outcome("redis://127.0.0.1:1?connect_timeout=500ms", &["list", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&away.stderr).expect("one line of JSON");
    assert_eq!((away.code, told["kind"].as_str()), (Some(69), Some("unavailable")), "{told}");
    assert!(told["because"][0].as_str().is_some_and(|why| why.starts_with("redis: ")), "{told}");
}

#[test]
fn a_program_that_reads_json_gets_its_mistakes_as_json() {
    for (args, expected) in [
        (&["show", "--json"][..], "the following required arguments were not provided: <NAME>"),
        (&["hold", "", "--json"], "a lock name is empty"),
        (&["list", "--no-such-option", "--json"], "unexpected argument '--no-such-option' found"),
        (&["list", "--names", "--json"], "cannot be used with"),
    ] {
        let wrong = outcome("sqlite:", args);
        let told: serde_json::Value = serde_json::from_str(&wrong.stderr).expect("one line of JSON");
        assert_eq!((wrong.code, wrong.stdout.as_str()), (Some(64), ""), "{args:?}: {wrong:?}");
        assert!(told["error"].as_str().is_some_and(|error| error.contains(expected)), "{args:?}: {told}");
        assert_eq!(told["kind"], "usage", "{args:?}: {told}");
        assert_eq!(told["code"], 64, "{args:?}: {told}");
    }
    // That is an option of the command.
    let of_command = outcome("sqlite:", &["run", "a", "--wait", "x", "tool", "--json"]);
    assert!(of_command.stderr.starts_with("error: "), "{of_command:?}");
}

/// Scripts rely on the table wherever they find it: in the help, on the manual pages and in the documentation.
#[test]
fn the_table_of_codes_is_the_same_everywhere() {
    let print = |args: &[&str]| outcome("sqlite:", args).stdout;
    let help = print(&["--help"]);
    let (_, table) = help.split_once("Exit codes:\n").expect("help has the table");
    assert!(print(&["run", "--help"]).ends_with(table), "the help of `run` has another one");
    // A manual page has a backslash before each hyphen, and its own line breaks.
    let in_one_line = |text: &str| text.replace('\\', "").split_whitespace().collect::<Vec<_>>().join(" ");
    for page in [&["man"][..], &["man", "run"]] {
        let page = in_one_line(&print(page));
        for line in table.lines().map(in_one_line) {
            assert!(page.contains(&line), "`{line}` is missing in {page}");
        }
    }
    let codes =
        |cells: &str| cells.split(',').filter_map(|code| code.trim().parse::<u8>().ok()).collect::<Vec<_>>();
    let in_help: BTreeSet<u8> =
        table.lines().filter_map(|line| line.split_whitespace().next()).flat_map(codes).collect();
    let manual = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md")).unwrap();
    let (_, rows) = manual.split_once("| code | meaning |\n").expect("the manual has the table");
    let rows = rows.lines().take_while(|line| line.starts_with('|'));
    let in_manual: BTreeSet<u8> = rows.filter_map(|row| row.split('|').nth(1)).flat_map(codes).collect();
    assert_eq!(in_help, BTreeSet::from([0, 1, 64, 65, 69, 75, 77, 79, 126, 127]));
    assert_eq!(in_manual, in_help);
}
