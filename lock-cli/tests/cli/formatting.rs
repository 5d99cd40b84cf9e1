//! How durations, limits, long names and help are written.

use serde_json::Value;

use crate::{
    process::{answered, holding, outcome},
    store::Store,
};

#[test]
fn a_wait_says_how_long_it_was_however_short() {
    let store = Store::any();
    let _holder = holding(&store.url, "a", &[]);
    for (wait, told) in [("0", "within 0s;"), ("30ms", "within 30ms;"), ("1", "within 1.0s;")] {
        let busy = answered(|| outcome(&store.url, &["run", "a", "--wait", wait, "--", "true"]));
        assert_eq!(busy.code, Some(75), "{wait}: {busy:?}");
        assert!(busy.stderr.contains(told), "{wait}: {busy:?}");
    }
}

#[test]
fn no_limit_is_no_number_in_json() {
    let store = Store::any();
    let _writer = holding(&store.url, "a", &["--exclusive"]);
    let _permits = holding(&store.url, "b", &["--of", "3", "--permits", "2"]);
    let shown = |name: &str| -> Value {
        serde_json::from_str(&outcome(&store.url, &["show", name, "--json"]).stdout).expect("JSON")
    };
    let (writer, permits) = (shown("a"), shown("b"));
    assert_eq!((&writer["limit"], &writer["queue"][0]["permits"]), (&Value::Null, &Value::Null), "{writer}");
    assert_eq!(
        (&permits["limit"], &permits["queue"][0]["permits"]),
        (&Value::from(3), &Value::from(2)),
        "{permits}"
    );
}

#[test]
fn a_name_too_long_is_not_repeated_whole_and_a_long_one_is_listed() {
    let store = Store::any();
    let name = "x\u{1b}".repeat(2_500);
    let refused = outcome(&store.url, &["show", &name]);
    assert_eq!(refused.code, Some(64), "{refused:?}");
    assert!(refused.stderr.contains("5000 bytes") && refused.stderr.len() < 1_500, "{refused:?}");
    assert!(!refused.stderr.contains('\u{1b}'), "{refused:?}");

    let name = "x".repeat(300);
    let _holder = holding(&store.url, &name, &[]);
    let listed = outcome(&store.url, &["list"]);
    assert!(listed.stdout.contains(&format!("{name}  mutex")), "{listed:?}");
}

#[test]
fn help_has_the_options_of_a_command_before_those_of_all() {
    let help = outcome("sqlite:", &["run", "--help"]).stdout;
    let (own, all) = help.split_once("For all commands:").expect("they stand apart");
    let options = |text: &str| -> Vec<String> {
        let words = text.lines().filter(|line| line.trim_start().starts_with('-'));
        words
            .filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")))
            .map(str::to_owned)
            .collect()
    };
    let (own, all) = (options(own), options(all));
    assert_eq!(all, ["--url", "--url-file", "--machine", "--config", "--quiet"], "{help}");
    assert_eq!(own[..4], ["--shared", "--exclusive", "--permits", "--of"], "{help}");
    assert!(own.contains(&"--grace".to_owned()) && !own.contains(&"--quiet".to_owned()), "{help}");
}

/// `ps` shows the command line.
#[test]
fn help_and_pages_say_who_sees_a_password_in_a_url() {
    const SEEN: &str =
        "Every user of this machine can see a password in the URL, in the list of processes: use ";
    for args in [&["--help"][..], &["run", "--help"], &["man"], &["man", "run"]] {
        let told = outcome("sqlite:", args);
        let text = told.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        // A manual page has a backslash before each hyphen.
        let what_to_use = text.split_once(SEEN).map(|(_, rest)| rest.replace('\\', ""));
        assert!(what_to_use.is_some_and(|text| text.starts_with("`--url-file`")), "{args:?}: {told:?}");
    }
}
