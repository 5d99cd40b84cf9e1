//! A fault rig: breaks real clusters while clients take locks on them, and checks what the clients saw.
//!
//! | role | file |
//! |---|---|
//! | what goes wrong, and when | `fault`, `plan` |
//! | what is broken | `cluster`, `network`, `crew` |
//! | who breaks and heals it | `nemesis` |
//! | a client, in a process of its own | `client`, `worker`, `attempt`, `stall_watch` |
//! | what clients write down | `record`, `recorder`, `log_file` |
//! | what that says | `history`, `held`, `excuse`, `checker`, `starvation`, `timeline`, `verdict` |
//!
//! `README.md` says what each fault is, and what is left out.

mod args;
mod attempt;
mod checker;
mod client;
mod cluster;
mod crew;
mod error;
mod excuse;
mod fault;
mod held;
mod history;
mod log_file;
mod nemesis;
mod network;
mod plan;
mod record;
mod recorder;
mod rig;
mod stall_watch;
mod starvation;
mod store_kind;
mod timeline;
mod verdict;
mod worker;

use std::{fs, process::ExitCode};

use clap::Parser;

use self::{
    args::{Args, RunArgs},
    error::Result,
};

/// A promise was broken.
const BROKEN: u8 = 1;
/// The rig could not do its work.
const FAILED: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let ended = match Args::parse() {
        Args::Run(args) => tokio::select! {
            code = run(args) => code,
            // Dropping the run ends the servers and the clients.
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        },
        Args::Client(args) => client::serve(args).await.map(|()| ExitCode::SUCCESS),
    };
    ended.unwrap_or_else(|why| {
        eprintln!("lock-chaos: {why}");
        ExitCode::from(FAILED)
    })
}

async fn run(args: RunArgs) -> Result<ExitCode> {
    let folder = args.folder.clone();
    // As a task, so that a panic, as that of a server that does not start, is an error like any other.
    let verdict = tokio::spawn(rig::run(args)).await??;
    for finding in &verdict.findings {
        println!("{finding}\n");
    }
    println!("{verdict}");
    fs::write(folder.join("row"), format!("{verdict}\n"))?;
    Ok(if verdict.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(BROKEN) })
}
