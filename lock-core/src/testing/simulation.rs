//! [`Simulation`], and the clients in it.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{runtime, task::JoinHandle};

use super::{Faults, Machine, RandomFaults, SeededEntropy, VirtualClock, clock_skew::ClockSkew};
use crate::{Backend, BootTime, Clock, Hold, Keeper, Locks, Memory};

/// The longest simulated time. Without a limit, a simulation that waits for an event that never comes would hang its test.
const STUCK: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A seeded run of clients on a store, on one thread and on paused time. See [`testing`](super).
#[must_use = "a simulation does nothing until it is run"]
pub struct Simulation {
    seed: u64,
    store: Box<MakeStore>,
}

type MakeStore = dyn FnOnce(Arc<dyn Clock>) -> Arc<dyn Backend>;

impl Simulation {
    /// A simulation over [`Memory`], without faults.
    pub fn new(seed: u64) -> Self {
        Self { seed, store: Box::new(|clock| Arc::new(Memory::with_clock(clock))) }
    }

    /// Runs over another store, which is to reckon its leases on the clock that is given.
    pub fn over(mut self, store: impl FnOnce(Arc<dyn Clock>) -> Arc<dyn Backend> + 'static) -> Self {
        self.store = Box::new(store);
        self
    }

    /// Runs `body` to its end, and returns its output. Tasks that are left are dropped. Time stands still while anything
    /// can run, and jumps to the next timer when nothing can.
    ///
    /// # Panics
    /// If the body panics; if it waits for what never comes; if a client sends requests in an endless loop.
    pub fn run<T>(self, body: impl AsyncFnOnce(Sim) -> T) -> T {
        let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without I/O needs nothing from the operating system");
        runtime.block_on(async {
            let clock = VirtualClock::new();
            let store = (self.store)(Arc::new(clock.clone()));
            let entropy = Arc::new(SeededEntropy::new(self.seed));
            tokio::select! {
                biased;
                result = body(Sim { clock, store, entropy }) => result,
                () = tokio::time::sleep(STUCK) => panic!("the simulation with seed {} is stuck", self.seed),
            }
        })
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("seed", &self.seed).finish_non_exhaustive()
    }
}

/// What is given to the body of a [`Simulation`]: the store, the time, and new clients. Clones share it.
#[derive(Clone, Debug)]
pub struct Sim {
    clock: VirtualClock,
    store: Arc<dyn Backend>,
    entropy: Arc<SeededEntropy>,
}

impl Sim {
    /// A client without faults on its wire, with its own keeper and a correct clock.
    #[must_use]
    pub fn client(&self) -> SimClient {
        self.client_through(0, |backend, _| backend)
    }

    /// A client whose clock runs fast by so many millionths of the store's (slow if negative; more than 10 000, which is
    /// 1 %, is more than a [margin](crate::margin) pays for), and with a backend of yours around its wire.
    #[must_use]
    pub fn client_through(
        &self,
        fast_by: i32,
        wrap: impl FnOnce(Arc<dyn Backend>, &VirtualClock) -> Arc<dyn Backend>,
    ) -> SimClient {
        let clock = self.clock.with_rate(fast_by);
        let wire =
            Arc::new(RandomFaults::new(Arc::clone(&self.store), self.entropy.branch(), Faults::none()));
        let skewed = Arc::new(ClockSkew::new(Arc::clone(&wire) as _, self.clock.clone(), clock.clone()));
        let machine = Machine::new();
        let keeper = Keeper::on_machine(machine.clone(), Arc::new(clock.clone()));
        let locks = Locks::with(wrap(skewed, &clock), keeper, Arc::new(self.entropy.branch()));
        SimClient { locks, wire, machine, clock, store_clock: self.clock.clone() }
    }

    /// The store itself, as it is seen without a wire.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Backend> {
        &self.store
    }

    /// The time on the clock of the store.
    #[must_use]
    pub fn now(&self) -> BootTime {
        self.clock.now()
    }

    /// Randomness that the seed repeats.
    #[must_use]
    pub fn entropy(&self) -> SeededEntropy {
        self.entropy.branch()
    }

    /// Lets the clients run for so long, in simulated time.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait. The clients go on.
    pub async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// All machines sleep for so long, the store's too: the clocks go on, and nothing runs.
    pub fn suspend(&self, time: Duration) {
        self.clock.suspend(time);
    }
}

/// A client of a simulated store, like a separate process: with its own keeper, clock, randomness and wire.
#[derive(Debug)]
pub struct SimClient {
    locks: Locks,
    wire: Arc<RandomFaults>,
    machine: Machine,
    clock: VirtualClock,
    store_clock: VirtualClock,
}

impl SimClient {
    /// Where its locks come from.
    #[must_use]
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Its wire to the store.
    #[must_use]
    pub fn wire(&self) -> &Arc<RandomFaults> {
        &self.wire
    }

    /// What its wire is like from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.wire.set(faults);
    }

    /// Runs a future as a part of this client: it stands still while the client is blocked, and ends when it crashes.
    pub fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.machine.spawn(future)
    }

    /// Nothing of the client runs until [`unblock`](Self::unblock), neither its keeper nor what was
    /// [spawned](Self::spawn): as a process that is stopped. What it had sent goes on.
    pub fn block(&self) {
        self.machine.block();
    }

    /// The client runs again.
    pub fn unblock(&self) {
        self.machine.unblock();
    }

    /// The client crashes and sends nothing more: its keeper and the [spawned](Self::spawn) tasks end where they are. Requests that it had
    /// sent still arrive.
    pub fn crash(&self) {
        self.wire.cut();
        self.machine.crash();
    }

    /// Until when a lock of this client may be relied on if nothing more is heard, on the clock of the store. Once the
    /// lock is lost: until when it could be.
    #[must_use]
    pub fn deadline(&self, hold: &Hold) -> BootTime {
        self.clock.on(&self.store_clock, hold.deadline())
    }
}
