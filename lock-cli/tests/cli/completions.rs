//! Completions of the shells.

use std::{
    os::unix::fs::symlink,
    process::{Command, Stdio},
};

use crate::{
    process::{Outcome, Process, distlock, outcome, until_queued},
    store::Store,
};

/// A file would be created if this was expanded.
const HOSTILE: &str = "jobs/$(touch expanded)";

/// Completes the last of some words as bash does, and prints what there is.
const TRY_BASH: &str = r#"
source <(distlock completions bash)
try() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _distlock_locks distlock "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s|' "${COMPREPLY[@]}"
    echo
}
try distlock show jo
try distlock run --wait 5 -w 3 jobs/
try distlock --url redis : //h hold jobs/a
try distlock break zzz
try distlock sho
try distlock run jobs/a --gra
try distlock run jobs/a -- realpat
"#;

#[test]
fn bash_completes_the_names_of_locks_and_expands_nothing_in_them() {
    let told = in_shell(&["jobs/a", "jobs/b", HOSTILE], &["bash", "-c", TRY_BASH]);
    let lines: Vec<_> = told.stdout.lines().collect();
    let jobs = "jobs/\\$\\(touch\\ expanded\\)|jobs/a|jobs/b|";
    assert_eq!(lines[..6], [jobs, jobs, "jobs/a|", "|", "show|", "--grace|"], "{told:?}");
    assert!(lines[6].split('|').any(|command| command == "realpath"), "{told:?}");
}

/// What is typed in the other shells, up to the tab.
const TYPED: [&str; 8] = [
    "distlock show be",
    "distlock run --wait 5 -w 3 jo",
    "distlock break zzz",
    "distlock sho",
    "distlock run --gra",
    "distlock run berta realpat",
    "distlock run berta -- realpat",
    "distlock run -- berta realpat",
];

/// Types these lines on a terminal of its own, a tab behind each, and prints what becomes of them. The completions are loaded as zsh
/// loads those that are installed.
const TRY_ZSH: &str = r#"
zmodload zsh/zpty
mkdir functions
distlock completions zsh >functions/_distlock
print -r -- '
PROMPT=
bindkey -e
fpath=($PWD/functions $fpath)
autoload -Uz compinit && compinit -u -D
report() { print -r -- "$BUFFER" >>told; BUFFER= }
zle -N report
bindkey "^B" report
: >ready
' >setup
: >told
zpty shell zsh -f -i
zpty -w shell 'source ./setup'
until [[ -e ready ]]; do sleep 0.05; done
for line in "$@"; do
    zpty -w -n shell "$line"$'\t\C-b'
done
until (( $(wc -l <told) == $# )); do sleep 0.05; done
cat told
"#;

#[test]
fn zsh_completes_the_names_of_locks_and_the_command() {
    let zsh = ["zsh", "-f", "-c", TRY_ZSH, "zsh"];
    let told = in_shell(&["berta", HOSTILE], &[&zsh[..], &TYPED].concat());
    let expected = [
        "distlock show berta ",
        "distlock run --wait 5 -w 3 jobs/\\$\\(touch\\ expanded\\) ",
        "distlock break zzz",
        "distlock show ",
        "distlock run --grace=",
        "distlock run berta realpath ",
        "distlock run berta -- realpath ",
        "distlock run -- berta realpath ",
    ];
    assert_eq!(told.stdout.lines().collect::<Vec<_>>(), expected, "{told:?}");
}

/// Prints what there is for each line.
const TRY_FISH: &str = r"
distlock completions fish | source
for line in $argv
    echo (complete -C $line | string replace -r '\t.*' '' | string join '|')
end
";

#[test]
fn fish_completes_the_names_of_locks_and_the_command() {
    let fish = ["fish", "--no-config", "-c", TRY_FISH];
    let told = in_shell(&["berta", HOSTILE], &[&fish[..], &TYPED].concat());
    // It quotes a name when it puts it on the line.
    let expected = ["berta", HOSTILE, "", "show", "--grace", "realpath", "realpath", "realpath"];
    assert_eq!(told.stdout.lines().collect::<Vec<_>>(), expected, "{told:?}");
}

/// Runs a script of a shell while these locks are held, in a folder of its own.
fn in_shell(names: &[&str], shell: &[&str]) -> Outcome {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    symlink(env!("CARGO_BIN_EXE_distlock"), folder.path().join("distlock")).unwrap();
    let hold = |name: &&str| {
        let holder = Process::fed(&mut distlock(&store.url, &["hold", *name]), b"");
        until_queued(&store.url, name, 1);
        holder
    };
    let _holders: Vec<Process> = names.iter().map(hold).collect();
    let there = Command::new(shell[0]).arg("--version").output();
    assert!(there.is_ok_and(|there| there.status.success()), "{} is missing: run scripts/setup", shell[0]);
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).env("PATH", path).env("DISTLOCK_URL", &store.url);
    // A shell makes folders of its own there.
    command.env("XDG_CONFIG_HOME", folder.path().join("config")).stdin(Stdio::null());
    let told = Process::start(command.current_dir(&folder)).end();
    assert!(!folder.path().join("expanded").exists(), "a name was expanded: {told:?}");
    told
}

#[test]
fn list_writes_the_names_alone_on_request() {
    let store = Store::any();
    let _holder = Process::fed(&mut distlock(&store.url, &["hold", "a b"]), b"");
    until_queued(&store.url, "a b", 1);
    let listed = outcome(&store.url, &["list", "--names"]);
    assert_eq!((listed.code, listed.stdout.as_str()), (Some(0), "a b\n"), "{listed:?}");
    let none = outcome(&store.url, &["list", "zzz", "--names"]);
    assert_eq!((none.code, none.stdout.as_str(), none.stderr.as_str()), (Some(0), "", ""), "{none:?}");
}
