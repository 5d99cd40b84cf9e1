//! Names that look like flags, or that a shell would expand.

use std::process::{Command, Stdio};

use crate::{
    process::{Process, holding, outcome},
    store::Store,
};

/// One looks like a flag, the other one plays tricks on a terminal.
const NAMES: [&str; 2] = ["-x", "it's\u{1b}[2Jhere \u{202e}\\"];

#[test]
fn every_name_can_be_used_with_every_command_that_takes_one() {
    let store = Store::any();
    for name in NAMES {
        for run in [
            &["run", "--try", "--", name, "echo", "ran"][..],
            &["run", "--try", "--", name, "--", "echo", "ran"],
        ] {
            let ran = outcome(&store.url, run);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "ran\n"), "{run:?}: {ran:?}");
        }
        let mut holder = holding(&store.url, name, &[]);
        let broken = outcome(&store.url, &["break", "--yes", "--", name]);
        assert_eq!(broken.code, Some(0), "{name:?}: {broken:?}");
        holder.close_input();
        assert_eq!(holder.end().code, Some(79), "{name:?}");
    }
}

#[test]
fn the_command_that_is_suggested_works_whatever_the_name_is() {
    let store = Store::any();
    for name in NAMES {
        let _holder = holding(&store.url, name, &[]);
        let busy = outcome(&store.url, &["run", "--try", "--", name, "true"]);
        assert_eq!(busy.code, Some(75), "{busy:?}");
        let suggested = busy.stderr.trim().split_once("or distlock ").expect("a command is suggested").1;
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("\"$D\" --url \"$U\" {suggested}")]).stdin(Stdio::null());
        shell
            .env("D", env!("CARGO_BIN_EXE_distlock"))
            .env("U", &store.url)
            .env("XDG_CONFIG_HOME", "/nonexistent");
        let shown = Process::start(&mut shell).end();
        assert_eq!(shown.code, Some(0), "{suggested:?}: {shown:?}");
        assert!(shown.stdout.contains(": held\n"), "{suggested:?}: {shown:?}");
    }
}

/// As with `timeout` and `env`.
#[test]
fn a_command_needs_no_escape_before_it() {
    let store = Store::any();
    let ran = outcome(&store.url, &["run", "a", "--try", "sh", "-c", "echo \"$0 $1\"", "--wait", "-q"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "--wait -q\n"), "{ran:?}");
}
