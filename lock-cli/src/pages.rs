//! Completions and manual pages, made from the command line's own description.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{args::Args, exit::Exit, failure::Failure, print};

pub(crate) fn completions(shell: Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "distlock", &mut script);
    print::text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::DONE)
}

/// The page of one command, or the page of all with their names.
pub(crate) fn man(of: Option<&str>) -> Result<Exit, Failure> {
    let mut all = Args::command();
    // It puts in what all commands have in common.
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
