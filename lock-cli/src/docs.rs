//! Completions and manual pages, made from the command line's own description.

use std::collections::BTreeSet;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{args::Args, exit::Exit, failure::Failure, print};

/// Completes the names of locks in bash, by asking the store. `clap` completes the rest.
const LOCKS: &str = include_str!("completions.bash");

pub(crate) fn completions(shell: Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "distlock", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if shell == Shell::Bash {
        script.push_str(&LOCKS.replace("@WITH_VALUES@", &options_with_values()));
    }
    print::text(&script)?;
    Ok(Exit::DONE)
}

/// The options of all commands that take a value. None of them is a flag of another command.
fn options_with_values() -> String {
    let all = Args::command();
    let of_all = all.get_arguments();
    let arguments = of_all.chain(all.get_subcommands().flat_map(clap::Command::get_arguments));
    let with_value = arguments.filter(|arg| !arg.is_positional() && arg.get_action().takes_values());
    let mut options = BTreeSet::new();
    for argument in with_value {
        options.extend(argument.get_long().map(|long| format!("--{long}")));
        options.extend(argument.get_short().map(|short| format!("-{short}")));
    }
    options.into_iter().collect::<Vec<_>>().join(" ")
}

/// The page of one command, or the page of `distlock` itself.
pub(crate) fn man(of: Option<&str>) -> Result<Exit, Failure> {
    let mut all = Args::command();
    // Adds the options for all commands to each.
    all.build();
    let command = match of {
        None => all,
        Some(name) => {
            let found = all.find_subcommand(name).cloned();
            found.ok_or_else(|| {
                let failure = Failure::new(Exit::USAGE, format!("there is no command `{name}`"));
                failure.hint("distlock --help")
            })?
        }
    };
    let mut page = Vec::new();
    let title = of.map_or_else(|| "distlock".to_owned(), |name| format!("distlock-{name}"));
    let written = clap_mangen::Man::new(command).title(title).render(&mut page);
    written.map_err(|error| Failure::new(Exit::NO, "the page cannot be made").because(&error))?;
    print::text(&String::from_utf8_lossy(&page))?;
    Ok(Exit::DONE)
}
