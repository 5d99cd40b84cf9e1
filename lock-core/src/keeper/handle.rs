//! [`Keeper`]: the thread that renews, watches deadlines and cleans up, whatever the user's runtime does.

use std::{
    fmt,
    future::{Future, poll_fn},
    io,
    pin::pin,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Poll, Waker},
    thread,
};

use tokio::{runtime, sync::Notify};

use super::{
    log_writer::LogWriter,
    restart_on_panic::restart_on_panic,
    timers::{Sleep, Timers},
    watchdog::{Watchdog, Watched},
};
#[cfg(feature = "testing")]
use crate::testing::Machine;
use crate::{BootTime, Clock, SystemClock, panic_isolation::isolate, telemetry};

/// One thread with a runtime of its own, started at first use.
///
/// It renews leases, tells guards that their deadline has passed, and releases what dropped guards and futures left behind. Because it is
/// not part of the user's runtime, a runtime that is blocked, starved or shut down loses no lock. A backend runs there what must live on as
/// well: sessions, keep-alive streams, a connection for notifications.
///
/// All clients of a process share one keeper by default ([`Keeper::shared`]). Nothing is hard-wired to it: a test can have one for each
/// simulated client, and a simulation runs it as a task on its own paused runtime.
///
/// Beside it a watchdog, a thread that sleeps, fires `lost()` at the deadline if the keeper does not. A panic on the keeper's thread is
/// logged (`keeper panicked`), and the keeper goes on. If it cannot, it has ended: that is logged (`keeper ended`), locks are refused with
/// [`Error::KeeperEnded`](crate::Error::KeeperEnded), and the next [`Keeper::shared`] is a new one.
///
/// ### To ensure correctness
/// Nothing that runs here may block: no blocking I/O, no long computation, no lock held over an await. Wakers of the tasks that wait for
/// a keeper's answer run here too, and must not block either.
#[derive(Clone)]
pub struct Keeper(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    timers: Arc<Timers>,
    home: Home,
    stop: Arc<Notify>,
    /// None in simulated time, where nothing is kept from running but by the simulation.
    watchdog: Option<Arc<Watchdog>>,
    /// Its thread has ended by a panic.
    ended: Arc<AtomicBool>,
    /// It was told to end.
    stopped: AtomicBool,
    /// The process that started it: a fork has no such thread.
    pid: u32,
}

/// A keeper that is not kept alive by this.
#[derive(Clone, Debug)]
pub(crate) struct WeakKeeper(Weak<Inner>);

impl WeakKeeper {
    pub(crate) fn upgrade(&self) -> Option<Keeper> {
        self.0.upgrade().map(Keeper)
    }
}

/// Where its tasks run.
enum Home {
    Runtime(runtime::Handle),
    #[cfg(feature = "testing")]
    Machine(Machine),
}

impl Keeper {
    /// The keeper of this process, started at first use. Lives as long as the process; one that has ended by a panic is
    /// replaced, and a fork of the process has one of its own.
    ///
    /// # Panics
    /// Like `std::thread::spawn`, if the operating system cannot start one more thread.
    #[must_use]
    pub fn shared() -> Self {
        static FIRST: OnceLock<Box<Shared>> = OnceLock::new();
        let mut shared = Shared::at(&FIRST);
        while shared.keeper.has_ended() || shared.keeper.is_forked() {
            shared = Shared::at(&shared.next);
        }
        shared.keeper.clone()
    }

    /// A keeper with a thread of its own, for more than one client in a process.
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
            let clock: Arc<dyn Clock> = Arc::new(SystemClock);
            let log_writer = Arc::new(LogWriter::default());
            let watchdog = Arc::new(Watchdog::new(Arc::clone(&clock), Arc::clone(&log_writer)));
            let keeper = Self::on(Home::Runtime(runtime.handle().clone()), clock, Some(watchdog));
            let (timers, stop) = (Arc::clone(&keeper.0.timers), Arc::clone(&keeper.0.stop));
            let ended = Arc::clone(&keeper.0.ended);
            started.send(Ok(keeper)).unwrap_or_default();
            let mut done = run(&runtime, &timers, &stop, &log_writer);
            // The runtime drops its tasks where they are, as a crash would. One that has panicked may panic again.
            isolate(|| runtime.shutdown_background());
            if let Err(panic) = done.clone() {
                ended.store(true, Ordering::Release);
                log_writer.write(move || telemetry::keeper_ended(&panic));
            }
            // Waiters still have to be told that their time is over.
            while done.is_err()
                && let Ok(runtime) = runtime::Builder::new_current_thread().enable_time().build()
            {
                done = run(&runtime, &timers, &stop, &log_writer);
            }
        })?;
        keeper.recv().unwrap_or_else(|_| Err(io::Error::other("the keeper's thread ended at its start")))
    }

    /// A keeper as a task on the runtime that this is called on, with a clock of its own: for simulations.
    ///
    /// # Panics
    /// If it is not called on a tokio runtime.
    #[must_use]
    pub fn on_current_runtime(clock: Arc<dyn Clock>) -> Self {
        Self::on(Home::Runtime(runtime::Handle::current()), clock, None).driven()
    }

    /// A keeper whose tasks are those of a simulated machine.
    #[cfg(feature = "testing")]
    pub(crate) fn on_machine(machine: Machine, clock: Arc<dyn Clock>) -> Self {
        Self::on(Home::Machine(machine), clock, None).driven()
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

    fn on(home: Home, clock: Arc<dyn Clock>, watchdog: Option<Arc<Watchdog>>) -> Self {
        let timers = Arc::new(Timers::new(Arc::clone(&clock)));
        let (stop, ended, pid) = (Arc::default(), Arc::default(), std::process::id());
        let stopped = AtomicBool::new(false);
        Self(Arc::new(Inner { clock, timers, home, stop, watchdog, ended, stopped, pid }))
    }

    /// Ends the keeper at once, with nothing cleaned up, as a crash of the client does. Its locks are lost when their leases end. To end in
    /// an orderly way, use [`Locks::close`](crate::Locks::close). In a fork it does nothing.
    pub fn stop(&self) {
        self.0.stop();
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

    /// The output of a future, or `None` if it has none by `until` on the keeper's clock. Needs no runtime where it is awaited.
    ///
    /// An output that is ready counts, even if `until` has passed. [`BootTime::FAR_FUTURE`] waits for as long as it takes. The time that
    /// the machine sleeps counts, which tokio's timers do not promise.
    ///
    /// ```
    /// # use std::{future::pending, time::Duration};
    /// use lock_core::Keeper;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let keeper = Keeper::shared();
    /// let soon = keeper.now() + Duration::from_millis(10);
    /// assert_eq!(keeper.timeout_at(soon, async { "an answer" }).await, Some("an answer"));
    /// assert_eq!(keeper.timeout_at(soon, pending::<()>()).await, None);
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping it drops the future, as the end of the time does.
    pub async fn timeout_at<T>(&self, until: BootTime, future: impl Future<Output = T> + Send) -> Option<T> {
        let mut future = pin!(future);
        let mut timer = pin!(self.sleep_until(until));
        let mut set_for: Option<Waker> = None;
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            // What the future waits for may wake its task many times: the timer is set once for each waker.
            let is_set = set_for.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
            if until == BootTime::FAR_FUTURE || (is_set && self.now() < until) {
                return Poll::Pending;
            }
            set_for = Some(cx.waker().clone());
            timer.as_mut().poll(cx).map(|()| None)
        })
        .await
    }

    /// Whether its thread has ended by a panic: nothing is renewed any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.ended.load(Ordering::Acquire)
    }

    /// Whether the keeper has its own thread, which works while the caller waits.
    pub(crate) fn is_at_work(&self) -> bool {
        let on_its_own = self.0.watchdog.is_some();
        on_its_own && !self.is_forked() && !self.has_ended() && !self.0.stopped.load(Ordering::Acquire)
    }

    /// The same, without keeping its thread.
    pub(crate) fn downgrade(&self) -> WeakKeeper {
        WeakKeeper(Arc::downgrade(&self.0))
    }

    /// Has the watchdog check the deadlines of a client.
    pub(crate) fn watch(&self, watched: Weak<dyn Watched>) {
        if let Some(watchdog) = self.0.watchdog.as_ref().filter(|_| !self.is_forked())
            && let Err(error) = watchdog.watch(watched)
        {
            telemetry::no_watchdog(&error);
        }
    }

    /// Tells the watchdog that a lock will be over then, if nothing happens.
    pub(crate) fn expect_by(&self, deadline: BootTime) {
        if let Some(watchdog) = &self.0.watchdog {
            watchdog.expect_by(deadline);
        }
    }

    /// Whether this process is a fork of the one that started the keeper.
    #[must_use]
    pub fn is_forked(&self) -> bool {
        std::process::id() != self.0.pid
    }

    /// The process that started it.
    pub(crate) fn pid(&self) -> u32 {
        self.0.pid
    }
}

/// Drives the timers and the tasks of a keeper until it is stopped.
fn run(
    runtime: &runtime::Runtime,
    timers: &Timers,
    stop: &Notify,
    log_writer: &Arc<LogWriter>,
) -> Result<(), String> {
    let work = || {
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = stop.notified() => {}
                () = timers.drive() => {}
            }
        });
    };
    // Those who wait for a timer are woken by what is run again, however long the log takes.
    restart_on_panic(work, |panic| log_writer.write(move || telemetry::keeper_panicked(&panic)))
}

/// The keeper of the process, and the one after it.
struct Shared {
    keeper: Keeper,
    next: OnceLock<Box<Self>>,
}

impl Shared {
    /// The one that stands there, or a new one. It is started before the place is touched: a fork that is made meanwhile finds it empty,
    /// and not about to be filled by a thread that it has not.
    fn at(place: &OnceLock<Box<Self>>) -> &Self {
        if let Some(shared) = place.get() {
            return shared;
        }
        let keeper = Keeper::start().expect("the keeper's thread can be started");
        let started = Box::new(Self { keeper, next: OnceLock::new() });
        // Of two that are started at the same time, one ends again.
        place.get_or_init(|| started)
    }
}

impl Inner {
    fn stop(&self) {
        // In a fork it is the parent's, and a mutex may stay locked forever.
        if self.pid != std::process::id() {
            return;
        }
        self.stopped.store(true, Ordering::Release);
        self.stop.notify_one();
        if let Some(watchdog) = &self.watchdog {
            watchdog.stop();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("clock", &self.0.clock).finish_non_exhaustive()
    }
}
