//! [`GivenOptions`]: what a command line asks for although there is a mistake in it.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

use clap::CommandFactory;

use crate::args::Args;

/// The options that decide how a mistake is reported. `clap` stops at the mistake, and knows none of the options behind it.
#[derive(Debug, Default)]
pub(crate) struct GivenOptions {
    /// The file of `run --status-file`.
    pub(crate) status_file: Option<PathBuf>,
    /// Whether the output is JSON: `--json`, which `run` does not have.
    pub(crate) is_json: bool,
}

impl GivenOptions {
    /// Reads the words up to `--` or the command of `run`, which has options of its own.
    pub(crate) fn read(words: impl Iterator<Item = OsString>) -> Self {
        let with_values = options_with_values();
        let mut words = words.peekable();
        let (mut given, mut positionals) = (Self::default(), Vec::new());
        while let Some(word) = words.next() {
            let text = word.to_string_lossy().into_owned();
            if text == "--" {
                break;
            }
            given.is_json |= text == "--json";
            if let Some(path) = word.as_bytes().strip_prefix(b"--status-file=") {
                given.status_file = Some(OsStr::from_bytes(path).into());
            } else if takes_next_word(&text, &with_values) {
                let value = words.next_if(|next| !is_option(next));
                if text == "--status-file" {
                    given.status_file = value.map(PathBuf::from);
                }
            } else if !is_option(&word) {
                positionals.push(word);
                if is_run(&positionals) && positionals.len() > 2 {
                    break;
                }
            }
        }
        let is_run = is_run(&positionals);
        Self { status_file: given.status_file.filter(|_| is_run), is_json: given.is_json && !is_run }
    }
}

fn is_run(positionals: &[OsString]) -> bool {
    positionals.first().is_some_and(|task| task == "run")
}

/// Whether a word is an option. A dash alone, and an empty word, are values.
fn is_option(word: &OsStr) -> bool {
    word.len() > 1 && word.as_bytes().starts_with(b"-")
}

/// Whether the next word is the value of this option. In `-nw5`, the first option that takes a value takes the rest of the word.
fn takes_next_word(option: &str, with_values: &BTreeSet<String>) -> bool {
    if !option.starts_with('-') || option.starts_with("--") {
        return with_values.contains(option);
    }
    let first = option.chars().skip(1).position(|short| with_values.contains(&format!("-{short}")));
    first.is_some_and(|at| at + 2 == option.chars().count())
}

/// The options of all commands that take a value. None of them is a flag of another command.
pub(crate) fn options_with_values() -> BTreeSet<String> {
    let all = Args::command();
    let of_all = all.get_arguments();
    let arguments = of_all.chain(all.get_subcommands().flat_map(clap::Command::get_arguments));
    let with_value = arguments.filter(|arg| !arg.is_positional() && arg.get_action().takes_values());
    let mut options = BTreeSet::new();
    for argument in with_value {
        options.extend(argument.get_long().map(|long| format!("--{long}")));
        options.extend(argument.get_short().map(|short| format!("-{short}")));
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_file(line: &str) -> Option<PathBuf> {
        GivenOptions::read(line.split(' ').map(OsString::from)).status_file
    }

    #[test]
    fn a_status_file_is_found_before_the_command_alone() {
        // Two spaces have an empty word between them: a variable that is not set.
        for line in [
            "run  --status-file s -- true",
            "run a --wait  --status-file s true",
            "-q --url sqlite: run -nE 5 a --status-file=s -c true",
            "run --status-file s -w5 --no-such-option a -- true --status-file t",
            "run a --ttl --status-file s true --status-file t",
        ] {
            assert_eq!(status_file(line), Some("s".into()), "{line}");
        }
        for line in [
            "",
            "run a true --status-file t",
            "run a -- true --status-file t",
            "run -w 5 --url=sqlite: a true --status-file t",
            "run a --status-file",
            "run --status-file --wait 5 a true",
            "show a --status-file t",
        ] {
            assert_eq!(status_file(line), None, "{line}");
        }
    }
}
