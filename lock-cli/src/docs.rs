//! Completions and manual pages, made from the command line's own description.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{args::Args, exit::Exit, failure::Failure, given_options::options_with_values, print};

/// These complete the names of locks, by asking the store, and the command of `run`. `clap` completes the rest.
const BASH: &str = include_str!("completions.bash");
const FISH: &str = include_str!("completions.fish");
const ZSH: &str = include_str!("completions.zsh");

pub(crate) fn completions(shell: Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "distlock", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let options = options_with_values().into_iter().collect::<Vec<_>>().join(" ");
    let with_values = |ours: &str| ours.replace("@WITH_VALUES@", &options);
    let script = match shell {
        Shell::Bash => script + &with_values(BASH),
        Shell::Fish => script + &with_values(FISH),
        Shell::Zsh => for_zsh(&script),
        _ => script,
    };
    print::text(&script)?;
    Ok(Exit::DONE)
}

/// In zsh, each argument names the function that completes it. The command of `run` gets three colons: with the two that `clap` writes,
/// zsh takes the name of the lock for the command.
fn for_zsh(script: &str) -> String {
    let line = |line: &str| match line.strip_suffix(":_default' \\") {
        Some(name) if name.starts_with("':name -- ") => format!("{name}:_distlock_names' \\"),
        _ => line.replacen("'*::command -- ", "'*:::command -- ", 1),
    };
    let lines: Vec<_> = script.lines().map(line).collect();
    // When zsh loads the file, the end of it completes for the first time.
    let end = "\nif [ \"$funcstack[1]\" = ";
    (lines.join("\n") + "\n").replacen(end, &format!("{ZSH}{end}"), 1)
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
