//! How do several processes count together, and lose no count?
//!
//! ```sh
//! cargo run --example shared_counter
//! cargo run --example shared_counter --features redis -- redis://127.0.0.1:6379 [PROCESSES] [ROUNDS]
//! ```
//!
//! The counter is a file that each process reads, and then writes: if two do so at once, a count is lost. To show that, the first run
//! takes no lock.

use std::{
    env,
    error::Error,
    fs,
    path::Path,
    process::{self, Child, Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

use distlock::{AcquireOptions, DistributedLock};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let Err(error) = start() else { return ExitCode::SUCCESS };
    eprintln!("{error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  because: {error}");
        cause = error.source();
    }
    ExitCode::FAILURE
}

fn start() -> Outcome<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["worker", url, name, counter, rounds] => worker(url, name, Path::new(counter), rounds.parse()?),
        ["careless", counter, rounds] => careless(Path::new(counter), rounds.parse()?),
        [] => several_processes("sqlite:", 4, 50),
        [url] => several_processes(url, 4, 50),
        [url, processes] => several_processes(url, processes.parse()?, 50),
        [url, processes, rounds] => several_processes(url, processes.parse()?, rounds.parse()?),
        _ => Err("give the URL of a store, such as redis://127.0.0.1:6379, or nothing".into()),
    }
}

fn several_processes(url: &str, processes: u64, rounds: u64) -> Outcome<()> {
    let counter = env::temp_dir().join(format!("distlock-counter-{}", process::id()));
    write(&counter, Count::default())?;
    let outcome = both_runs(url, processes, rounds, &counter);
    let removed = fs::remove_file(counter);
    outcome.and(Ok(removed?))
}

fn both_runs(url: &str, processes: u64, rounds: u64, counter: &Path) -> Outcome<()> {
    let (file, each, expected) = (counter.to_string_lossy(), rounds.to_string(), processes * rounds);
    // A new name for each run: an earlier run that was killed may hold its lock until the ttl ends.
    let name = format!("examples/counter-{}", process::id());
    // One process connects first, so that an outage of the store is reported once, and not by every process.
    all(1, &["worker", url, &name, &file, "0"])?;

    all(processes, &["careless", &file, &each])?;
    println!("without the lock: {} of {expected} counted", read(counter)?.value);

    write(counter, Count::default())?;
    let started = Instant::now();
    all(processes, &["worker", url, &name, &file, &each])?;
    let sum = read(counter)?;
    println!("with the lock: {} of {expected} counted, in {:?}", sum.value, started.elapsed());
    println!("the last token is {}, and each was greater than the one before", sum.token);
    if sum.value == expected { Ok(()) } else { Err("counts are lost".into()) }
}

/// Starts this program this many times at once, and waits for all of them.
fn all(processes: u64, args: &[&str]) -> Outcome<()> {
    let program = env::current_exe()?;
    let started: Vec<Child> =
        (0..processes).map(|_| Command::new(&program).args(args).spawn()).collect::<Result<_, _>>()?;
    let mut failed = 0;
    for mut child in started {
        failed += u32::from(!child.wait()?.success());
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} of {processes} processes failed").into()) }
}

/// One process: takes the lock, adds one, and releases it, again and again.
#[tokio::main(flavor = "current_thread")]
async fn worker(url: &str, name: &str, counter: &Path, rounds: u64) -> Outcome<()> {
    let options = AcquireOptions::new()
        .ttl(Duration::from_secs(5))
        .wait(Duration::from_secs(60))
        .label(format!("process {}", process::id()));
    let locks = distlock::connect(url).await?.with_options(options);
    let lock = locks.mutex(name)?;
    for _ in 0..rounds {
        let guard = lock.acquire().await?;
        add_one(counter, guard.token().get())?;
        guard.release().await?;
    }
    locks.close(Duration::from_secs(5)).await?;
    Ok(())
}

/// One process that takes no lock.
fn careless(counter: &Path, rounds: u64) -> Outcome<()> {
    (0..rounds).try_for_each(|_| add_one(counter, 0))
}

#[derive(Clone, Copy, Default)]
struct Count {
    value: u64,
    token: u64,
}

/// Reads the counter, waits for a moment, and writes it.
fn add_one(counter: &Path, token: u64) -> Outcome<()> {
    let before = read(counter)?;
    thread::sleep(Duration::from_micros(200));
    if token != 0 && token <= before.token {
        return Err(format!("token {token} came after {}", before.token).into());
    }
    write(counter, Count { value: before.value + 1, token })
}

fn read(counter: &Path) -> Outcome<Count> {
    let text = fs::read_to_string(counter)?;
    let (value, token) = text.split_once(' ').ok_or("the counter holds something else")?;
    Ok(Count { value: value.parse()?, token: token.parse()? })
}

/// Readers see the old file or the new one, and never an incomplete one.
fn write(counter: &Path, count: Count) -> Outcome<()> {
    let new = counter.with_extension(process::id().to_string());
    fs::write(&new, format!("{} {}", count.value, count.token))?;
    Ok(fs::rename(new, counter)?)
}
