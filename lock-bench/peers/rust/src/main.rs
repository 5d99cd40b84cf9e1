//! One program for all libraries in Rust: `peers --system NAME --address ADDRESS --ttl-ms MILLISECONDS` drives one of them.

mod distkit;
mod distributed_lock;
mod driver;
mod etcd;
mod protocol;
mod rslock;
mod setting;
mod zookeeper;

use std::{env, process::ExitCode, time::Duration};

use crate::{
    driver::{LibraryDriver, Result, say, serve},
    protocol::{Hello, Kind},
    setting::Setting,
};

fn main() -> ExitCode {
    // One worker, as the driver of our own locks has.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let ended = runtime
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(async { tokio::spawn(drive()).await? }));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn drive() -> Result<()> {
    let (system, setting) = arguments()?;
    match connect(&system, &setting).await {
        Ok((hello, locks)) => serve(hello, locks).await,
        Err(error) => say(&Hello::Failed(error.to_string())).await,
    }
}

async fn connect(system: &str, setting: &Setting) -> Result<(Hello, LibraryDriver)> {
    let ready =
        |version: &str, kinds: &[Kind]| Hello::Ready { version: version.to_owned(), kinds: kinds.to_vec() };
    let (mutex, rw) = ([Kind::Mutex], [Kind::Mutex, Kind::Rw]);
    Ok(match system {
        "rslock" => (ready("0.10.0", &mutex), LibraryDriver::new(rslock::connect(setting)?)),
        "distkit" => (ready("0.7.1", &rw), LibraryDriver::new(distkit::connect(setting).await?)),
        "distributed-lock" => {
            (ready("0.2.0", &mutex), LibraryDriver::new(distributed_lock::connect(setting).await?))
        }
        "etcd-client" => (ready("0.21.1", &mutex), LibraryDriver::new(etcd::connect(setting).await?)),
        "zookeeper-client" => {
            (ready("0.11.2", &mutex), LibraryDriver::new(zookeeper::connect(setting).await?))
        }
        _ => return Err(format!("there is no system {system}").into()),
    })
}

fn arguments() -> Result<(String, Setting)> {
    let given: Vec<String> = env::args().collect();
    let value = |name: &str| {
        let at = given.iter().position(|argument| argument == name);
        at.and_then(|at| given.get(at + 1)).cloned().ok_or_else(|| format!("{name} is missing"))
    };
    let ttl = Duration::from_millis(value("--ttl-ms")?.parse()?);
    Ok((value("--system")?, Setting { address: value("--address")?, ttl }))
}
