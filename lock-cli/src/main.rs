//! The `distlock` command: runs a command under a distributed lock, and shows who holds one. See `docs/cli.md`.

#[cfg(not(unix))]
compile_error!("the `distlock` command needs process groups and signals, as Unix has them");

mod acquire;
mod args;
mod docs;
mod doctor;
mod entry_view;
mod evict;
mod exit;
mod failure;
mod given_options;
mod hold;
mod list;
mod machine;
mod outage_throttle;
mod output;
mod print;
mod progress;
mod ready;
mod render;
mod run;
mod settings;
mod shell;
mod show;
mod signals;
mod status_file;
mod store;
mod watch;

use std::{path::Path, process::ExitCode};

use clap::{
    Parser,
    error::{ContextKind, ContextValue},
};
use distlock::escape_unprintable;
use tokio::runtime;

use self::{
    args::{Args, Task},
    exit::Exit,
    failure::Failure,
    given_options::GivenOptions,
    output::Output,
    settings::Settings,
    status_file::StatusFile,
};

fn main() -> ExitCode {
    if let Some(code) = run::internal(std::env::args_os().skip(1)) {
        return code;
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return end_without_task(error),
    };
    let output = Output::new(args.store.quiet);
    let (codes, is_json) = (args.task.codes(), args.task.is_json());
    let path = args.task.status_file().map(Path::to_owned);
    let status = StatusFile::begin(path.as_deref());
    let (status, done) = match status {
        Ok(status) => (Some(status), carry_out(args, &output)),
        Err(failure) => (None, Err(failure)),
    };
    output.flush();
    let (what, exit) = match done {
        Ok(exit) => ("command", exit),
        Err(failure) => {
            let exit = codes.of(failure.exit());
            match (failure.is_silent(), is_json) {
                (true, _) => {}
                (false, true) => print::message(&failure.json(exit)),
                (false, false) => print::message(&failure.to_string()),
            }
            (failure.exit().name(), exit)
        }
    };
    if let Some(status) = status {
        status.end(what, exit);
    }
    run::die_if_interrupted(exit);
    exit.into()
}

/// Prints the help, or what is wrong with the command line.
fn end_without_task(error: clap::Error) -> ExitCode {
    let error = shortened(error);
    if !error.use_stderr() {
        // Nothing can be done if it cannot be printed.
        let _ = error.print();
        return Exit::DONE.into();
    }
    let given = GivenOptions::read(std::env::args_os().skip(1));
    if given.is_json {
        print::message(&Failure::of_command_line(&error).json(Exit::USAGE));
    } else {
        let _ = error.print();
    }
    // If it cannot be written to, that is one more mistake, with the same exit code.
    if let Ok(status) = StatusFile::begin(given.status_file.as_deref()) {
        status.end(Exit::USAGE.name(), Exit::USAGE);
    }
    Exit::USAGE.into()
}

/// Cuts and escapes a wrong value, which may be of any length and content.
fn shortened(mut error: clap::Error) -> clap::Error {
    const SHOWN: usize = 120;
    if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) {
        let cut = if value.chars().nth(SHOWN).is_some() { "…" } else { "" };
        let shown: String = value.chars().take(SHOWN).collect();
        let shown = format!("{}{cut}", escape_unprintable(&shown));
        error.insert(ContextKind::InvalidValue, ContextValue::String(shown));
    }
    error
}

fn carry_out(args: Args, output: &Output) -> Result<Exit, Failure> {
    match &args.task {
        Task::Completions(asked) => return docs::completions(asked.shell),
        Task::Man(asked) => return docs::man(asked.command.as_deref()),
        Task::SetupMachine(asked) => return machine::setup(asked),
        _ => {}
    }
    let settings = Settings::load(&args.store)?;
    settings.warnings.iter().for_each(|warning| output.line(warning));
    // One thread: the parent-death signal of the command is tied to the thread that starts it, which has to live as long as the process.
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(Exit::STORE, "no runtime can be started").because(&error))?;
    runtime.block_on(async {
        match args.task {
            Task::Run(asked) => run::run(asked, &settings, output).await,
            Task::Hold(asked) => hold::hold(asked, &settings, output).await,
            Task::Show(asked) => show::show(&asked, &settings, output).await,
            Task::List(asked) => list::list(&asked, &settings, output).await,
            Task::Break(asked) => evict::evict(&asked, &settings).await,
            Task::Watch(asked) => watch::watch(&asked, &settings, output).await,
            Task::Doctor(asked) => doctor::doctor(&asked, &settings).await,
            Task::SetupMachine(_) | Task::Completions(_) | Task::Man(_) => Ok(Exit::DONE),
        }
    })
}
