//! Benchmarks of distlock. Each run starts a server, and measures our locks beside the floors of that server: what it does
//! without locks.
//!
//! `rows` has a file for each group of rows, `store` one for each store, `drivers` the programs that run what is measured, and
//! `compare` compares distlock with other lock libraries. `README.md` says what each row means.
#![allow(clippy::cast_precision_loss, reason = "figures have three digits")]

mod args;
mod compare;
mod counting_backend;
mod drivers;
mod error;
mod line_process;
mod report;
mod rows;
mod samples;
mod store;
mod timestamp;
mod usage;

use std::{fs::File, process::ExitCode, sync::Arc};

use clap::Parser;
use tokio::runtime;

use self::{
    args::{Args, Subcommand},
    error::Result,
    report::Report,
    rows::{Bench, Plan},
};

fn main() -> ExitCode {
    match start(Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lock-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: Args) -> Result<ExitCode> {
    // One worker thread, so that on two cores the server has the other one. With two, floors and locks would compete with the
    // server for a core, and tasks would be stolen. Measurements run on the worker thread and not on this one, so that they
    // share a thread with the drivers of their connections, as the tasks of a service do.
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let measuring = runtime.spawn(async move {
        match args.subcommand.clone() {
            Some(Subcommand::Driver(driver)) => drivers::drive(&driver).await.map(|()| ExitCode::SUCCESS),
            subcommand => tokio::select! {
                code = measure(&args, subcommand.as_ref()) => code,
                // Dropping the measurement ends the server.
                name = interrupted() => Err(format!("interrupted by {}", name?).into()),
            },
        }
    });
    runtime.block_on(measuring)?
}

async fn measure(args: &Args, subcommand: Option<&Subcommand>) -> Result<ExitCode> {
    match subcommand {
        Some(Subcommand::Compare(wanted)) => compare::compare(wanted).await,
        _ => bench(args).await,
    }
}

async fn bench(args: &Args) -> Result<ExitCode> {
    let measurements = rows::all();
    let kind = args.store()?;
    let plan = Plan::new(args, &rows::specs(&measurements, kind))?;
    // Before measuring, so that a path that cannot be written is an error immediately.
    let json =
        args.json.as_ref().map(|path| File::create(path).map_err(|e| format!("{}: {e}", path.display())));
    let json = json.transpose()?;
    let store = store::start(kind).await?;
    println!("{}{}", store.description(), if args.quick { ", quick" } else { "" });
    let bench = Bench { plan, store: Arc::from(store) };
    let mut report = Report::default();
    for measurement in measurements {
        report.add(&bench, measurement).await;
    }
    println!("{report}");
    if let Some(json) = json {
        report.write_json(json)?;
    }
    Ok(report.exit_code(args.check))
}

#[cfg(unix)]
async fn interrupted() -> Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};

    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
}

#[cfg(not(unix))]
async fn interrupted() -> Result<&'static str> {
    tokio::signal::ctrl_c().await?;
    Ok("Ctrl-C")
}
