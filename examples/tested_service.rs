//! How do I test what my service does when its lock is lost?
//!
//! The service writes to a journal that checks no tokens, so it has to stop by itself when its lock is lost. The tests below run it in
//! simulations: it is stopped, cut off or put to sleep for longer than its lease, and must not write after the next holder has begun to. Two
//! versions with a common mistake each show that the tests find it.
//!
//! ```sh
//! cargo run --example tested_service
//! cargo test -p examples --example tested_service
//! ```

use std::{error::Error, sync::Arc, time::Duration};

use distlock::{AcquireOptions, DistributedLock, FencingToken, LockName, Locks, LostReason};
use parking_lot::{Mutex, MutexGuard};

const TTL: Duration = Duration::from_secs(3);
const PERIOD: Duration = Duration::from_millis(100);

/// A journal, whose lines are the tokens of the writers. It checks no token, like a mail server or a machine tool.
#[derive(Clone, Debug, Default)]
struct Journal(Arc<Mutex<Vec<FencingToken>>>);

impl Journal {
    fn write(&self, by: FencingToken) {
        self.lines_mut().push(by);
    }

    fn lines(&self) -> Vec<FencingToken> {
        self.lines_mut().clone()
    }

    fn lines_mut(&self) -> MutexGuard<'_, Vec<FencingToken>> {
        self.0.lock()
    }
}

/// The service: writes a line every 100 ms for as long as it holds the lock. Returns why it stopped.
///
/// It checks the lock before each write, because it may have been stopped since the last one, and a loss ends its sleep.
async fn serve(locks: Locks, journal: Journal) -> Result<LostReason, distlock::Error> {
    let guard = locks.mutex("journal")?.acquire_with(&AcquireOptions::new().ttl(TTL)).await?;
    while guard.is_held() {
        journal.write(guard.token());
        tokio::select! {
            _ = guard.lost() => {}
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
    Ok(guard.lost().await)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = distlock::connect("memory:").await?;
    let journal = Journal::default();
    let service = tokio::spawn(serve(locks.clone(), journal.clone()));
    while journal.lines().len() < 3 {
        tokio::time::sleep(PERIOD).await;
    }
    let name = LockName::new("journal")?;
    for row in locks.operator().queue(&name).await? {
        if let Some(holder) = row.entry {
            locks.operator().evict(&name, holder).await?;
        }
    }
    println!("the service stopped: {}", service.await??);
    let lines = journal.lines().len();
    tokio::time::sleep(3 * PERIOD).await;
    if journal.lines().len() > lines {
        return Err("it wrote after that".into());
    }
    println!("it wrote {lines} lines, and none after that");
    locks.close(Duration::from_secs(5)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use distlock::testing::{Faults, Sim, SimClient, Simulation};

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Trouble {
        /// The process is stopped, or its runtime is blocked.
        Stopped,
        /// No message of the service arrives in time.
        CutOff,
        /// All machines sleep.
        Asleep,
    }

    const TROUBLES: [Trouble; 3] = [Trouble::Stopped, Trouble::CutOff, Trouble::Asleep];
    const SEEDS: u64 = 50;

    #[test]
    fn the_example_runs() {
        main().expect("the service stops");
    }

    #[test]
    fn the_service_writes_nothing_once_somebody_else_does() {
        for trouble in TROUBLES {
            for seed in 0..SEEDS {
                assert_eq!(stale_lines(serve, trouble, seed), 0, "{trouble:?}, seed {seed}");
            }
        }
    }

    #[test]
    fn a_service_that_does_not_look_at_its_lock_is_found_in_every_trouble() {
        for trouble in TROUBLES {
            let found = (0..SEEDS).filter(|&seed| stale_lines(serve_blindly, trouble, seed) > 0).count();
            assert_eq!(found as u64, SEEDS, "{trouble:?}");
        }
    }

    /// The fault needs a stop between the check and the write, which not every seed has.
    #[test]
    fn a_service_that_looks_and_then_takes_its_time_is_found() {
        let found = (0..SEEDS).filter(|&seed| stale_lines(serve_late, Trouble::Stopped, seed) > 0).count();
        assert!(found > 0, "no seed of {SEEDS} has found it");
    }

    /// The first mistake: to assume that a lock is still held because it was granted.
    async fn serve_blindly(locks: Locks, journal: Journal) -> Result<LostReason, distlock::Error> {
        let guard = locks.mutex("journal")?.acquire_with(&AcquireOptions::new().ttl(TTL)).await?;
        loop {
            journal.write(guard.token());
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// The second mistake: to check the lock only before the sleep.
    async fn serve_late(locks: Locks, journal: Journal) -> Result<LostReason, distlock::Error> {
        let guard = locks.mutex("journal")?.acquire_with(&AcquireOptions::new().ttl(TTL)).await?;
        while guard.is_held() {
            tokio::time::sleep(PERIOD).await;
            journal.write(guard.token());
        }
        Ok(guard.lost().await)
    }

    /// Runs two instances of a service, gets the first into trouble, and counts its lines after the first line of the second.
    fn stale_lines<F>(service: fn(Locks, Journal) -> F, trouble: Trouble, seed: u64) -> usize
    where
        F: Future<Output = Result<LostReason, distlock::Error>> + Send + 'static,
    {
        Simulation::new(seed).run(async |sim| {
            let journal = Journal::default();
            let (first, second) = (client(&sim), client(&sim));
            for client in [&first, &second] {
                client.spawn(service(client.locks().clone(), journal.clone()));
                sim.sleep(PERIOD).await;
            }
            // The trouble begins at a random moment of its work.
            sim.sleep(sim.entropy().up_to(TTL)).await;
            get_into(trouble, &sim, &first).await;
            sim.sleep(2 * TTL).await;

            let lines = journal.lines();
            let takeover = lines.iter().position(|&line| line != lines[0]);
            let takeover = takeover.expect("the second is the holder in the end, or nothing was tested");
            lines[takeover..].iter().filter(|&&line| line == lines[0]).count()
        })
    }

    /// A client whose clock runs as fast as that of the store, to 1 %.
    fn client(sim: &Sim) -> SimClient {
        let fast_by = sim.entropy().below(20_001) as i32 - 10_000;
        sim.client_through(fast_by, |store, _| store)
    }

    async fn get_into(trouble: Trouble, sim: &Sim, client: &SimClient) {
        match trouble {
            Trouble::Stopped => {
                client.block();
                sim.sleep(2 * TTL).await;
                client.unblock();
            }
            Trouble::CutOff => {
                client.set_faults(Faults { latency: Duration::from_secs(24 * 60 * 60), ..Faults::none() });
                sim.sleep(2 * TTL).await;
            }
            Trouble::Asleep => sim.suspend(2 * TTL),
        }
    }
}
