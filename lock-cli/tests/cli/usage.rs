//! The command line, the settings, and the messages about mistakes in them.

use std::{
    ffi::OsStr,
    fs::{self, Permissions},
    io::Read,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, chown},
    },
    path::Path,
    process::{Command, Stdio},
};

use lock_conformance::{copy_program, ran_nothing};
use nix::unistd::User;

use crate::{
    process::{Outcome, Process, distlock, outcome, until},
    store::Store,
};

/// A URL without a server.
const NOWHERE: &str = "redis://127.0.0.1:1?connect_timeout=500ms";

#[test]
fn mistakes_are_told_with_what_there_is() {
    for (args, expected) in [
        (&[][..], "Usage: distlock"),
        (&["steal"], "unrecognized subcommand 'steal'"),
        (&["run", "a"], "<COMMAND>"),
        (&["run", "", "--", "true"], "a lock name is empty"),
        (&["run", "a", "--ttl", "five", "--", "true"], "write seconds, or a unit as well, such as 500ms"),
        (&["run", "a", "-c", "true", "--", "true"], "cannot be used with"),
        (&["run", "a", "--ttl", "0s", "--", "true"], "`ttl` cannot be 0s; use 100ms to 1day"),
        (&["run", "a", "--max-hold", "0", "--", "true"], "`max-hold` cannot be 0s; use 100ms or more"),
        (&["run", "a", "--ttl", "500ms", "--", "true"], "use 1s or more"),
        (&["run", "a", "--grace", "20s", "--", "true"], "half of the ttl"),
        (&["run", "a", "--try", "--wait", "1s", "--", "true"], "cannot be used with"),
        (&["run", "a", "--shared", "--of", "3", "--", "true"], "cannot be used with"),
        (&["run", "a", "--permits", "3", "--", "true"], "--of <N>"),
        (&["run", "a", "--permits", "4", "--of", "3", "--", "true"], "use 1 to 3"),
        (&["break", "a", "--entry", "1", "--yes"], "32 lower-case hexadecimal digits"),
        (&["man", "steal"], "there is no command `steal`"),
        (&["--url", "paper:", "list"], "`paper:` is not the scheme of a store"),
        (&["--url", "memory:", "list"], "is in the memory of one process"),
    ] {
        let store = Store::any();
        let mut command = distlock(&store.url, &[]);
        if args.first() == Some(&"--url") {
            command = Command::new(env!("CARGO_BIN_EXE_distlock"));
        }
        let told = Process::start(command.args(args).stdin(Stdio::null())).end();
        assert_eq!(told.code, Some(64), "{args:?}: {told:?}");
        assert!(told.stderr.contains(expected), "{args:?}: {told:?}");
    }
}

/// Otherwise a script takes its own mistake for an outage, and tries again.
#[test]
fn a_mistake_in_the_options_is_told_while_the_store_is_away_too() {
    let long = "x".repeat(300);
    let long = long.as_str();
    for (args, expected) in [
        (&["run", "a", "--ttl", "0s", "true"][..], "`ttl` cannot be 0s"),
        (&["run", "a", "--ttl", "500ms", "true"], "use 1s or more"),
        (&["run", "a", "--grace", "20s", "true"], "half of the ttl"),
        (&["run", "a", "--label", long, "true"], "--label is too long"),
        (&["run", "a", "--permits", "4", "--of", "3", "true"], "use 1 to 3"),
        (&["hold", "a", "--label", long], "--label is too long"),
    ] {
        let told = outcome(NOWHERE, args);
        assert!(told.code == Some(64) && told.stderr.contains(expected), "{args:?}: {told:?}");
    }
}

#[test]
fn help_has_the_exit_codes_and_completions_and_pages_are_printed() {
    let print = |args: &[&str]| {
        let printed = outcome(NOWHERE, args);
        assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""), "{args:?}: {printed:?}");
        printed.stdout
    };
    let help = print(&["--help"]);
    for expected in ["79   the lock was lost", "--url-file", "password_file="] {
        assert!(help.contains(expected), "`{expected}` is missing in\n{help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = print(&["completions", shell]);
        assert!(script.contains("distlock") && script.contains("max-hold"), "{shell}: {script}");
        assert!(
            !script.contains("__exec") && !script.contains("__watchdog"),
            "what is started by itself is not for users: {script}"
        );
    }
    let page = print(&["man"]);
    for expected in [".TH distlock", "\\-\\-url\\-file", "password_file="] {
        assert!(page.contains(expected), "`{expected}` is missing in\n{page}");
    }
    let page = print(&["man", "run"]);
    assert!(page.contains("distlock\\-run") && page.contains("max\\-hold"), "{page}");
}

#[test]
fn a_flag_is_stronger_than_a_variable_and_a_variable_than_a_file() {
    let store = Store::any();
    let home = Home::new(&format!("url = {NOWHERE:?}\n"));
    assert_eq!(home.list(None, None).code, Some(69));
    assert_eq!(home.list(None, Some(&store.url)).code, Some(0));
    assert_eq!(home.list(Some(&store.url), Some(NOWHERE)).code, Some(0));
    home.write(&format!("url = {:?}\n", store.url));
    assert_eq!(home.list(None, None).code, Some(0));
    assert_eq!(home.list(None, Some(NOWHERE)).code, Some(69));
}

/// Otherwise a script whose variable was never set would exclude nobody on other machines.
#[test]
fn a_url_that_is_empty_or_no_text_is_a_mistake_and_not_the_default() {
    let store = Store::any();
    let file = |text: &str| Home::new(&format!("url = {text:?}\n"));
    for (home, flag, variable, expected) in [
        (file(&store.url), None, Some(""), "the variable DISTLOCK_URL is empty"),
        (file(&store.url), Some(" "), None, "--url is empty"),
        (file(""), None, None, "`url` of the settings file is empty"),
    ] {
        let told = home.list(flag, variable);
        assert!(told.code == Some(64) && told.stderr.contains(expected), "{expected}: {told:?}");
    }
    assert_eq!(file("").list(Some(&store.url), Some("")).code, Some(0), "what is not used is not looked at");
    let mut command = distlock(&store.url, &[]);
    command = without_flags(&command);
    command.env("DISTLOCK_URL", OsStr::from_bytes(b"redis://\xff"));
    let told = Process::start(command.arg("list")).end();
    assert!(told.code == Some(64) && told.stderr.contains("DISTLOCK_URL is not UTF-8"), "{told:?}");
}

/// As cron and services start it, and `env -i`.
/// Where something has made it, many tests are red without a fault: they give it to the program as a folder that is missing, and it is the
/// home folder of `nobody`.
#[test]
fn the_folder_that_tests_take_for_missing_is_missing() {
    assert!(
        !Path::new("/nonexistent").exists(),
        "something has made /nonexistent on this machine: remove it"
    );
}

#[test]
fn without_a_home_folder_there_is_no_default_store_and_that_is_said() {
    const TEST: &str = "usage::without_a_home_folder_there_is_no_default_store_and_that_is_said";
    if !nix::unistd::geteuid().is_root() {
        return ran_nothing(TEST, "it takes a user whom the database does not know");
    }
    let folder = for_everybody();
    let program = folder.path().join("distlock");
    for url in [&[][..], &["--url", "sqlite:"]] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=54321", "--regid=54321", "--clear-groups"]).arg(&program).args(url);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).stdin(Stdio::null());
        let told = Process::start(command.args(["run", "cron", "--", "true"])).end();
        assert!(told.code == Some(64) && told.stderr.contains("HOME is not set: use --url"), "{told:?}");
    }
    // With HOME, the file is in the same place below it.
    let mut command = Command::new(&program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", folder.path());
    let told = Process::start(command.args(["run", "cron", "--", "true"]).stdin(Stdio::null())).end();
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(folder.path().join(".local/state/distlock/locks.db").exists());
}

/// As cron and services start it, too. This user may not create the folder there, so the error names it.
#[test]
fn without_the_variable_the_home_folder_is_that_of_the_user_database() {
    const TEST: &str = "usage::without_the_variable_the_home_folder_is_that_of_the_user_database";
    let nobody = User::from_name("nobody").unwrap().filter(|_| nix::unistd::geteuid().is_root());
    let Some(nobody) = nobody else { return ran_nothing(TEST, "it takes another user, called nobody") };
    let folder = for_everybody();
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={}", nobody.uid), format!("--regid={}", nobody.gid)]);
    command.arg("--clear-groups").arg(folder.path().join("distlock")).args(["run", "cron", "--", "true"]);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).stdin(Stdio::null());
    let told = Process::start(&mut command).end();
    let home = nobody.dir.join(".local/state/distlock");
    assert_eq!(told.code, Some(64), "{told:?}");
    assert!(told.stderr.contains(&format!("because: {}: ", home.display())), "{told:?}");
}

/// A folder with the program, which other users may run.
pub(crate) fn for_everybody() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    copy_program(env!("CARGO_BIN_EXE_distlock"), folder.path().join("distlock"), 0o755);
    folder
}

/// The command without arguments.
fn without_flags(with: &Command) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_distlock"));
    for (name, value) in with.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null());
    command
}

#[test]
fn a_url_can_come_from_a_file_that_has_nothing_else() {
    let store = Store::any();
    let home = Home::new("");
    let path = home.0.path().join("url");
    let list = || home.run(None, None, &["--url-file", path.to_str().unwrap(), "list"]);
    assert_eq!(list().code, Some(64), "there is none");
    for (text, code, expected) in [
        (format!("{}\n", store.url), 0, "no lock"),
        (store.url.clone(), 0, "no lock"),
        (" \n".to_owned(), 64, "has no URL in it"),
        (format!("{}\nredis://u:hunter2@h\n", store.url), 64, "more than one line"),
    ] {
        fs::write(&path, &text).unwrap();
        let told = list();
        assert!(told.code == Some(code) && told.stderr.contains(expected), "{text:?}: {told:?}");
        assert!(!told.stderr.contains("hunter2"), "{told:?}");
    }
}

#[test]
fn a_password_that_everybody_may_read_is_told() {
    let home = Home::new("url = \"redis://u:hunter2@127.0.0.1:1?connect_timeout=100ms\"\n");
    let path = home.0.path().join("distlock/config.toml");
    for (mode, told) in [(0o644, true), (0o640, false), (0o600, false)] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let listed = home.list(None, None);
        assert_eq!(listed.stderr.contains("everybody may read it: chmod o-r"), told, "{mode:o}: {listed:?}");
        assert!(!listed.stderr.contains("hunter2"), "{listed:?}");
    }
    // There is nothing to read.
    let home = Home::new(&format!("url = {NOWHERE:?}\n"));
    assert!(!home.list(None, None).stderr.contains("chmod"));
}

#[test]
fn a_file_with_a_url_whose_password_everybody_may_read_is_told() {
    let home = Home::new("");
    let path = home.0.path().join("url");
    fs::write(&path, "redis://u:hunter2@127.0.0.1:1?connect_timeout=100ms\n").unwrap();
    for (mode, told) in [(0o644, true), (0o640, false), (0o600, false)] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let listed = home.run(None, None, &["--url-file", path.to_str().unwrap(), "list"]);
        let warning =
            format!("{} has a password in it, and everybody may read it: chmod o-r", path.display());
        assert_eq!(listed.stderr.contains(&warning), told, "{mode:o}: {listed:?}");
        assert!(!listed.stderr.contains("hunter2"), "{listed:?}");
    }
}

/// Also if the password is alone in its file.
#[test]
fn a_file_for_the_password_that_others_may_read_is_told() {
    let home = Home::new("");
    let path = home.0.path().join("the password");
    fs::write(&path, "hunter2\n").unwrap();
    let escaped = path.display().to_string().replace(' ', "%20");
    let url = format!("redis://u@127.0.0.1:1?connect_timeout=100ms&password_file={escaped}");
    for (mode, told) in [(0o644, true), (0o640, false), (0o600, false)] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let listed = home.list(Some(&url), None);
        let warned = listed.stderr.contains("the password has a password in it, and everybody may read it");
        assert_eq!(warned, told, "{mode:o}: {listed:?}");
        assert!(!listed.stderr.contains("hunter2"), "{listed:?}");
    }
}

#[test]
fn a_password_that_another_group_may_read_is_told() {
    const TEST: &str = "usage::a_password_that_another_group_may_read_is_told";
    if !nix::unistd::geteuid().is_root() {
        return ran_nothing(TEST, "it takes other groups");
    }
    let home = Home::new("url = \"redis://u:hunter2@127.0.0.1:1?connect_timeout=100ms\"\n");
    let path = home.0.path().join("distlock/config.toml");
    let warning = |owner, mode| {
        chown(&path, Some(owner), Some(65534)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let listed = home.list(None, None);
        listed.stderr.lines().find(|line| line.contains("may read it")).map(str::to_owned)
    };
    assert!(warning(0, 0o640).unwrap().ends_with("and group 65534 may read it: chmod g-r"));
    assert!(warning(0, 0o644).unwrap().ends_with("and everybody may read it: chmod go-r"));
    assert_eq!(warning(0, 0o600), None);
    assert_eq!(warning(65534, 0o640), None, "its owner has given it to us");
}

#[test]
fn a_file_has_defaults_for_how_a_lock_is_taken() {
    let store = Store::any();
    let home = Home::new("wait = \"100ms\"\nttl = \"7s\"\n");
    // The wait of the file is for the inner command alone: a busy store may take longer to grant a free lock.
    let run = |inner: &str| {
        home.run(Some(&store.url), None, &["run", "a", "--wait", "30s", "--shell", "--", inner])
    };
    let inner = format!("{} --url {} show a --json", env!("CARGO_BIN_EXE_distlock"), store.url);
    let shown = run(&inner);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).expect("JSON");
    let left = shown["queue"][0]["lease_left_ms"].as_u64().unwrap();
    // etcd counts in seconds, and ZooKeeper has few timeouts for sessions: the longest possible rest is shown. Without the file it would be
    // 30 s.
    let most =
        if store.url.starts_with("sqlite:") || store.url.starts_with("redis:") { 7_000 } else { 11_500 };
    assert!((1..=most).contains(&left), "{left}");
    let inner = format!("{} --url {} run a -- true; echo $?", env!("CARGO_BIN_EXE_distlock"), store.url);
    assert_eq!(run(&inner).stdout, "75\n");
}

#[test]
fn a_wrong_file_is_told_by_its_line_and_without_what_is_in_it() {
    for (text, expected) in [
        ("url = \"redis://u:hunter2@h\"\nttll = \"5s\"\n", "line 2: unknown field `ttll`"),
        ("ttl = \"five\"\n", "line 1: "),
        ("ttl = -5\n", "line 1: "),
        ("url = \"redis://u:hunter2@h\n", "line 1: "),
        ("url = 5\n", "line 1: "),
    ] {
        let told = Home::new(text).list(None, None);
        assert_eq!(told.code, Some(64), "{text}: {told:?}");
        assert!(told.stderr.contains("config.toml: ") && told.stderr.contains(expected), "{text}: {told:?}");
        assert!(!told.stderr.contains("hunter2"), "{told:?}");
    }
    let missing = outcome(NOWHERE, &["--config", "/nonexistent/settings", "list"]);
    assert_eq!(missing.code, Some(64), "{missing:?}");
    assert!(missing.stderr.contains("there is no settings file /nonexistent/settings"), "{missing:?}");
}

#[test]
fn a_password_is_never_told() {
    for url in [
        "redis://user:hunter2@127.0.0.1:1?connect_timeout=500ms",
        "redis://user:hunter2@:x",
        "user:hunter2@host",
    ] {
        for args in [&["list"][..], &["doctor"], &["run", "a", "--", "true"]] {
            let told = outcome(url, args);
            assert!(matches!(told.code, Some(64 | 69)), "{told:?}");
            assert!(!format!("{told:?}").contains("hunter2"), "{told:?}");
        }
    }
}

#[test]
fn what_nobody_reads_any_more_ends_without_a_word() {
    let store = Store::any();
    let mut watch = distlock(&store.url, &["watch", "a", "--interval", "50ms"]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut free = [0; 8];
    watch.stdout.take().unwrap().read_exact(&mut free).unwrap();
    // Each change of the lock is one more line that cannot be written.
    until("the end of the watcher", || {
        assert_eq!(outcome(&store.url, &["run", "a", "--", "sleep", "0.2"]).code, Some(0));
        watch.try_wait().unwrap().is_some()
    });
    let watched = watch.wait_with_output().unwrap();
    assert_eq!((watched.status.code(), String::from_utf8_lossy(&watched.stderr).as_ref()), (Some(0), ""));
}

/// A folder for settings.
struct Home(tempfile::TempDir);

impl Home {
    fn new(text: &str) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::create_dir(home.0.path().join("distlock")).unwrap();
        home.write(text);
        home
    }

    fn write(&self, text: &str) {
        fs::write(self.0.path().join(Path::new("distlock/config.toml")), text).unwrap();
    }

    fn list(&self, flag: Option<&str>, variable: Option<&str>) -> Outcome {
        self.run(flag, variable, &["list"])
    }

    fn run(&self, flag: Option<&str>, variable: Option<&str>, args: &[&str]) -> Outcome {
        let mut command = Command::new(env!("CARGO_BIN_EXE_distlock"));
        command.env_remove("DISTLOCK_URL").env("XDG_CONFIG_HOME", self.0.path()).stdin(Stdio::null());
        variable.map(|url| command.env("DISTLOCK_URL", url));
        flag.map(|url| command.args(["--url", url]));
        Process::start(command.args(args)).end()
    }
}
