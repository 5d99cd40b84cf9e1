//! Benchmarks of distlock: one table for a server that it starts itself, always beside the floors of that server, measured
//! in the same run.
//!
//! `rows` has a file for each group of rows, `store` one for each store; `README.md` says what each row means.
#![allow(clippy::cast_precision_loss, reason = "figures have three digits")]

mod args;
mod compare;
mod contenders;
mod counting_backend;
mod held_locks;
mod plan;
mod report;
mod rows;
mod samples;
mod store;
mod timestamp;
mod uncontended;
mod usage;
mod worker;
mod worker_process;
mod workers;

use std::{error, fs::File, process::ExitCode, sync::Arc};

use clap::Parser;
use tokio::runtime;

use self::{
    args::{Args, Subcommand, WorkerArgs},
    counting_backend::CountingBackend,
    plan::Plan,
    report::Report,
    rows::Bench,
    worker::Worker,
    worker_process::serve,
};

/// What goes wrong in a benchmark is told to a person, and ends it.
type Result<T, E = Box<dyn error::Error + Send + Sync>> = std::result::Result<T, E>;

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
    // One worker. On the two cores of a small machine the server has the other; with two workers the floors and we would
    // be measured against the server's own need for a core, and against tasks that are stolen from each other. What is
    // measured runs on the worker, not on this thread, so that it shares a thread with the drivers of its connections, as
    // tasks of a service do.
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let measuring = runtime.spawn(async move {
        match args.subcommand.clone() {
            Some(Subcommand::Worker(worker)) => work(&worker).await.map(|()| ExitCode::SUCCESS),
            Some(Subcommand::Driver(driver)) => compare::drive(&driver).await.map(|()| ExitCode::SUCCESS),
            subcommand => tokio::select! {
                code = measure(&args, subcommand.as_ref()) => code,
                // The server that was started is ended on the way out.
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
    let plan = Plan::new(args, &measurements)?;
    // Now: a path that cannot be written is not noticed only when all is measured.
    let json =
        args.json.as_ref().map(|path| File::create(path).map_err(|e| format!("{}: {e}", path.display())));
    let json = json.transpose()?;
    let store = store::start(args.store()?).await?;
    println!("{}{}", store.description(), if args.quick { ", quick" } else { "" });
    let bench = Bench::new(plan, store)?;
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

async fn work(args: &WorkerArgs) -> Result<()> {
    let store = store::connect(args.store, &args.address)?;
    let backend = CountingBackend::new(store.backend()?);
    serve(Worker::new(Arc::from(store), backend)).await
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
