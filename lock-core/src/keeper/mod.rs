//! [`Keeper`]: the thread that renews, watches deadlines and cleans up, whatever the user's runtime does.

mod cleanup;
mod renewals;
mod tenure;
mod timers;

use std::{
    fmt,
    future::Future,
    io,
    sync::{Arc, OnceLock, mpsc},
    thread,
};

use tokio::{runtime, sync::Notify};

pub use self::timers::Sleep;
use self::timers::Timers;
pub(crate) use self::{
    cleanup::{Cleanup, guarded},
    renewals::Renewals,
    tenure::Tenure,
};
#[cfg(feature = "testing")]
use crate::testing::Machine;
use crate::{BootTime, Clock, SystemClock};

/// One thread with a runtime of its own, started at first use.
///
/// It renews leases, tells guards that their deadline has passed, and carries out what dropped guards and futures left
/// to be done. Because it is no part of the user's runtime, a runtime that is blocked, starved or shut down loses no
/// lock. A backend puts there what must live on as well: sessions, keep-alive streams, a notification connection.
///
/// The process-wide keeper ([`Keeper::shared`]) is what everybody uses by default. Nothing is hard-wired to it: a test
/// can have one for each simulated client, and a simulation runs it as a task on its own paused runtime.
///
/// ### To ensure correctness
/// Nothing that runs here may block: no blocking I/O, no long computation, no lock held over an await.
#[derive(Clone)]
pub struct Keeper(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    timers: Arc<Timers>,
    home: Home,
    stop: Arc<Notify>,
    /// The process that started it: a fork has no such thread.
    pid: u32,
}

/// Where its tasks run.
enum Home {
    Runtime(runtime::Handle),
    #[cfg(feature = "testing")]
    Machine(Machine),
}

impl Keeper {
    /// The keeper of this process, started at first use. Lives as long as the process.
    ///
    /// # Panics
    /// Like `std::thread::spawn`, if the operating system cannot start one more thread.
    #[must_use]
    pub fn shared() -> Self {
        static SHARED: OnceLock<Keeper> = OnceLock::new();
        SHARED.get_or_init(|| Self::start().expect("the keeper's thread can be started")).clone()
    }

    /// A keeper with a thread of its own, for whoever wants more than one client in a process.
    ///
    /// # Errors
    /// If the operating system cannot start one more thread, or gives it no I/O driver.
    pub fn start() -> io::Result<Self> {
        let (started, keeper) = mpsc::channel();
        thread::Builder::new().name("distlock-keeper".into()).spawn(move || {
            let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return started.send(Err(error)).unwrap_or_default(),
            };
            let keeper = Self::on(Home::Runtime(runtime.handle().clone()), Arc::new(SystemClock));
            let (timers, stop) = (Arc::clone(&keeper.0.timers), Arc::clone(&keeper.0.stop));
            started.send(Ok(keeper)).unwrap_or_default();
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = stop.notified() => {}
                    () = timers.drive() => {}
                }
            });
            // A task may be in the middle of something; the runtime drops it where it stands, as a crash would.
            runtime.shutdown_background();
        })?;
        keeper.recv().unwrap_or_else(|_| Err(io::Error::other("the keeper's thread ended at its start")))
    }

    /// A keeper as a task on the runtime that this is called on, with a clock of its own: for simulations.
    ///
    /// # Panics
    /// If it is not called on a tokio runtime.
    #[must_use]
    pub fn on_current_runtime(clock: Arc<dyn Clock>) -> Self {
        Self::on(Home::Runtime(runtime::Handle::current()), clock).driven()
    }

    /// A keeper whose tasks are those of a simulated machine.
    #[cfg(feature = "testing")]
    pub(crate) fn on_machine(machine: Machine, clock: Arc<dyn Clock>) -> Self {
        Self::on(Home::Machine(machine), clock).driven()
    }

    /// Fires its timers as one of its own tasks.
    fn driven(self) -> Self {
        let (timers, stop) = (Arc::clone(&self.0.timers), Arc::clone(&self.0.stop));
        self.spawn(async move {
            tokio::select! {
                biased;
                () = stop.notified() => {}
                () = timers.drive() => {}
            }
        });
        self
    }

    fn on(home: Home, clock: Arc<dyn Clock>) -> Self {
        let timers = Arc::new(Timers::new(Arc::clone(&clock)));
        let stop = Arc::new(Notify::new());
        Self(Arc::new(Inner { clock, timers, home, stop, pid: std::process::id() }))
    }

    /// Ends the keeper where it stands, with nothing cleaned up: what a crash of the client would do. Its locks are lost
    /// when their leases end. To end in an orderly way, use [`Locks::close`](crate::Locks::close).
    pub fn stop(&self) {
        self.0.stop.notify_one();
    }

    /// The clock that deadlines are counted on.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> BootTime {
        self.0.clock.now()
    }

    /// Runs a future on the keeper. Can be called from any thread, with or without a runtime. In a fork of the process,
    /// and after [`stop`](Self::stop), the future is dropped.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        if self.is_forked() {
            return;
        }
        match &self.0.home {
            Home::Runtime(runtime) => drop(runtime.spawn(future)),
            #[cfg(feature = "testing")]
            Home::Machine(machine) => drop(machine.spawn(future)),
        }
    }

    /// A future that is ready at `until` on the keeper's clock, and never before. Needs no runtime where it is awaited.
    pub fn sleep_until(&self, until: BootTime) -> Sleep {
        Sleep::new(Arc::clone(&self.0.timers), until)
    }

    /// Whether this process is a fork of the one that started the keeper.
    #[must_use]
    pub fn is_forked(&self) -> bool {
        std::process::id() != self.0.pid
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("clock", &self.0.clock).finish_non_exhaustive()
    }
}
