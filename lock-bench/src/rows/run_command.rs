//! `run`: what `distlock run` takes around a command that does nothing, against `flock` around the same.

use std::{
    env,
    io::ErrorKind,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_util::future::try_join_all;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::{Bench, Bound, Measurement, Outcome, RowFigures, RowSpec};
use crate::{error::Result, samples::Samples, store::StoreKind};

pub(super) struct RunCommand;

const START: &str = "run.start.p50";
const PARALLEL: &str = "run.parallel.200";

/// How many are started one after the other in a round.
const STARTS: u32 = 20;

/// How many are started at once.
const CROWD: usize = 200;

/// How often that is done at the most: it takes seconds.
const MAX_CROWDS: u32 = 3;

/// What runs under the lock.
const COMMAND: &str = "true";

#[async_trait]
impl Measurement for RunCommand {
    fn rows(&self, store: StoreKind) -> Vec<RowSpec> {
        let (start, parallel) = (RowSpec::new(START, "ms"), RowSpec::new(PARALLEL, "s"));
        if store.is_sqlite() {
            return vec![start.bound(Bound::ValueAtMost(7.0)), parallel.bound(Bound::ValueAtMost(2.0))];
        }
        // The command has the others only if it is built with their features, or not at all.
        if store == StoreKind::Redis { vec![start, parallel] } else { Vec::new() }
    }

    async fn run(&self, bench: &Bench) -> Result<Outcome> {
        let Some(address) = bench.store.address() else {
            return Ok(Outcome::NotPossible("other processes cannot reach this store"));
        };
        let scheme = if bench.store.kind().is_sqlite() { "sqlite:" } else { "redis://" };
        let url = format!("{scheme}{address}");
        let (ours, floor) = (Distlock { program: program()?, url }, Flock::find().await?);
        // Creates the file.
        run(ours.command()).await?;
        let mut figures = RowFigures::default();
        if bench.plan.wants(START) {
            starts(bench, &ours, &floor, &mut figures).await?;
        }
        if bench.plan.wants(PARALLEL) {
            crowds(bench, &ours, &floor, &mut figures).await?;
        }
        Ok(Outcome::Measured(figures))
    }
}

/// The command, with the store that is measured.
struct Distlock {
    program: PathBuf,
    url: String,
}

/// What takes a lock of a file.
struct Flock {
    folder: TempDir,
    /// Without it the floor is the command under the lock, alone.
    is_there: bool,
}

impl Distlock {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--quiet", "--url", &self.url, "run", "bench:run", "--", COMMAND]);
        // The settings of the user are not measured.
        command.env("XDG_CONFIG_HOME", "/nonexistent").env_remove("DISTLOCK_URL");
        command
    }
}

impl Flock {
    async fn find() -> Result<Self> {
        let flock = Self { folder: tempfile::tempdir()?, is_there: true };
        match flock.command().stdin(Stdio::null()).status().await {
            Ok(_) => Ok(flock),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                eprintln!("run: there is no `flock` here, so the floor is `{COMMAND}` alone");
                Ok(Self { is_there: false, ..flock })
            }
            Err(error) => Err(format!("flock: {error}").into()),
        }
    }

    fn command(&self) -> Command {
        if !self.is_there {
            return Command::new(COMMAND);
        }
        let mut command = Command::new("flock");
        command.arg(self.folder.path().join("lock")).arg(COMMAND);
        command
    }
}

/// The binary that was built beside this one.
fn program() -> Result<PathBuf> {
    let program = env::current_exe()?.with_file_name(format!("distlock{}", env::consts::EXE_SUFFIX));
    if program.is_file() {
        return Ok(program);
    }
    let profile = if cfg!(debug_assertions) { "" } else { " --release" };
    let how = format!("build it with `cargo build{profile} -p lock-cli`");
    Err(format!("{} is missing: {how}", program.display()).into())
}

/// From the start of a process to its end, in milliseconds.
async fn starts(bench: &Bench, ours: &Distlock, floor: &Flock, figures: &mut RowFigures) -> Result<()> {
    for _ in bench.rounds(START) {
        let (mut ours_took, mut floor_took) = (Samples::default(), Samples::default());
        for _ in 0..STARTS {
            floor_took.record(run(floor.command()).await?);
            ours_took.record(run(ours.command()).await?);
        }
        let median = |took: &Samples| took.percentile(50.0) / 1000.0;
        figures.value(START, median(&ours_took), Some(median(&floor_took)));
    }
    Ok(())
}

/// From the first start to the last end, in seconds.
async fn crowds(bench: &Bench, ours: &Distlock, floor: &Flock, figures: &mut RowFigures) -> Result<()> {
    let crowds = bench.plan.rounds().min(MAX_CROWDS);
    for round in 0..crowds {
        eprintln!("{PARALLEL}: crowd {} of {crowds}", round + 1);
        let floor = crowd(|| floor.command()).await?.as_secs_f64();
        figures.value(PARALLEL, crowd(|| ours.command()).await?.as_secs_f64(), Some(floor));
    }
    Ok(())
}

async fn run(command: Command) -> Result<Duration> {
    let started = Instant::now();
    let ended = start(command)?.wait().await?;
    let took = started.elapsed();
    check(ended)?;
    Ok(took)
}

/// All want the same lock.
async fn crowd(command: impl Fn() -> Command) -> Result<Duration> {
    let started = Instant::now();
    let mut crowd = (0..CROWD).map(|_| start(command())).collect::<Result<Vec<Child>>>()?;
    let ended = try_join_all(crowd.iter_mut().map(Child::wait)).await?;
    let took = started.elapsed();
    ended.into_iter().try_for_each(check)?;
    Ok(took)
}

/// The process is killed when this is dropped. What it says on its standard error is an error, and for the user.
fn start(mut command: Command) -> Result<Child> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn();
    child.map_err(|error| format!("{}: {error}", command.as_std().get_program().display()).into())
}

fn check(ended: ExitStatus) -> Result<()> {
    if ended.success() { Ok(()) } else { Err(format!("run: a process ended with {ended}").into()) }
}
