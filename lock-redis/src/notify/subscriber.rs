//! [`Subscriber`]: a connection that receives notifications for this process, and its channel.

use std::{
    fmt,
    future::pending,
    mem,
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use futures_channel::mpsc::UnboundedSender;
use futures_util::future::{AbortHandle, AbortRegistration, Abortable, FutureExt};
use lock_core::{
    BackendErrorKind as Kind, Entropy, EntryId, Hint, Hints, Keeper, Notifier, RuntimeSelector,
    SystemEntropy, isolate, sync::Mutex,
};
use tokio::{
    runtime::{Handle, Id},
    sync::watch,
};

use super::{
    health::Health,
    message::{self, Message},
    subscription::Subscription,
};
use crate::{client::Endpoint, error::Failure, keys};

/// How often the mark of a process that may not publish is written: several times within its ttl.
const MARK_INTERVAL: Duration = Duration::from_secs(20);

const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Hints for the entries that were entered on one runtime, on a connection (R1) that this runtime drives.
///
/// After every new subscription all its waiters look again (PR14), because what was published before is lost. Without a
/// subscription, waiters poll: no lock depends on hints. The task ends with its runtime, or when the subscriber is dropped;
/// then its waiters look again, and enter with another subscriber.
pub(crate) struct Subscriber {
    pub(super) runtime: Option<Id>,
    pub(super) shared: Arc<Shared>,
    runtimes: Arc<RuntimeSelector>,
    started: AtomicBool,
    task: AbortHandle,
    registration: Mutex<Option<AbortRegistration>>,
}

/// What the task and its owner share.
pub(super) struct Shared {
    endpoint: Arc<Endpoint>,
    channel: Vec<u8>,
    evictions: Option<Evictions>,
    pub(super) phase: watch::Sender<Phase>,
    closed: AtomicBool,
    hints: Notifier,
    health: Arc<Health>,
}

/// The channel that announces evicted entries to all processes, and the alarms of this process.
pub(super) struct Evictions {
    pub(super) channel: Vec<u8>,
    pub(super) alarms: Arc<Mutex<Vec<UnboundedSender<EntryId>>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No attempt has ended yet.
    Starting,
    Live,
    /// An attempt failed, or a connection ended. Another follows, unless the subscriber is closed.
    Down,
}

impl Subscriber {
    /// No connection is opened yet.
    pub(super) fn new(
        runtime: Option<Id>,
        endpoint: &Arc<Endpoint>,
        runtimes: &Arc<RuntimeSelector>,
        evictions: Option<Evictions>,
        health: &Arc<Health>,
    ) -> Self {
        let (task, registration) = AbortHandle::new_pair();
        let id = format!("h:{:032x}", SystemEntropy.bits());
        let shared = Shared {
            channel: keys::channel(&endpoint.config.prefix, &id),
            endpoint: Arc::clone(endpoint),
            evictions,
            phase: watch::Sender::new(Phase::Starting),
            closed: AtomicBool::new(false),
            hints: Notifier::default(),
            health: Arc::clone(health),
        };
        let (runtimes, registration) = (Arc::clone(runtimes), Mutex::new(Some(registration)));
        Self {
            runtime,
            shared: Arc::new(shared),
            runtimes,
            started: AtomicBool::new(false),
            task,
            registration,
        }
    }

    /// The channel on which the server tells that an entry of this subscriber was admitted. No other subscriber has it.
    pub(crate) fn channel(&self) -> &[u8] {
        &self.shared.channel
    }

    /// Delivers hints that came in an answer instead of a message.
    pub(crate) fn deliver(&self, payload: &[u8]) {
        self.shared.dispatch_hints(payload, false);
    }

    pub(super) fn hints(&self, entry: EntryId) -> Hints {
        self.shared.hints.listen(entry)
    }

    /// Whether the subscription is live.
    pub(crate) fn is_live(&self) -> bool {
        *self.shared.phase.borrow() == Phase::Live
    }

    /// How many entries wait for hints here.
    pub(crate) fn waiters(&self) -> usize {
        self.shared.hints.listeners()
    }

    /// Whether the subscriber has ended for good.
    pub(super) fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// Subscribes if that is not done yet.
    pub(super) fn start(&self, runtime: Option<&Handle>) {
        if self.started.load(Ordering::Relaxed) {
            return;
        }
        let registration = self.registration.lock().take();
        if let Some(registration) = registration {
            self.started.store(true, Ordering::Relaxed);
            let (shared, runtimes) = (Arc::clone(&self.shared), Arc::clone(&self.runtimes));
            let end_guard = EndGuard {
                runtime: self.runtime,
                shared: Arc::clone(&shared),
                runtimes: Arc::clone(&runtimes),
            };
            let listening = Abortable::new(
                async move {
                    let _end_guard = end_guard;
                    shared.run(runtimes.keeper()).await;
                },
                registration,
            );
            self.runtimes.spawn(runtime, async move { listening.await.unwrap_or_default() });
        }
    }

    /// Waits until subscribing has succeeded or failed once, for at most `command_timeout`. Without a subscription there are no
    /// hints, and a waiter has to poll; it gets a hint when there is one again.
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub(super) async fn live(&self) {
        if *self.shared.phase.borrow() != Phase::Starting {
            return;
        }
        let mut phase = self.shared.phase.subscribe();
        let keeper = self.runtimes.keeper();
        let until = keeper.now() + self.shared.endpoint.config.server.command_timeout;
        // The waiter continues in any case. The sender is in `self`, so the channel never closes.
        let _ = keeper.timeout_at(until, phase.wait_for(|phase| *phase != Phase::Starting)).await;
    }
}

impl Shared {
    /// Loggers and wakers are foreign code: when one panics, the subscriber goes on. A panic before the first attempt has ended means
    /// that the runtime has no I/O driver, and ends it.
    async fn run(&self, keeper: &Keeper) {
        while let Err(panic) = AssertUnwindSafe(self.resubscribe(keeper)).catch_unwind().await {
            if *self.phase.borrow() == Phase::Starting {
                resume_unwind(panic);
            }
            keeper.sleep_until(keeper.now() + MIN_PAUSE).await;
        }
    }

    /// Subscribes again whenever the subscription has ended or failed.
    async fn resubscribe(&self, keeper: &Keeper) {
        let mut failures: u32 = 0;
        // Whether waiters may sleep for longer because they rely on hints.
        let mut relied_on = false;
        loop {
            let opened_by = keeper.now() + self.endpoint.config.server.connect_timeout;
            let failure = match keeper.timeout_at(opened_by, self.open(keeper)).await {
                Some(Ok(subscription)) => {
                    // Waiters that listen from now on miss nothing, and the earlier ones look again.
                    self.hints.changed_for_all();
                    self.phase.send_replace(Phase::Live);
                    isolate(|| {
                        tracing::debug!(server = %self.endpoint.address, "redis notifications are live");
                    });
                    self.health.mark_live(&self.endpoint);
                    relied_on = true;
                    self.receive(subscription, keeper, &mut failures).await
                }
                failed => {
                    let failure = failed.and_then(Result::err).unwrap_or_else(|| {
                        let limit = self.endpoint.config.server.connect_timeout;
                        Failure::timed_out(&self.endpoint.address, "subscribing", limit)
                    });
                    // Without a server, it does not help to look again.
                    if *failure.kind() == Kind::Denied && mem::take(&mut relied_on) {
                        self.hints.changed_for_all();
                    }
                    failure
                }
            };
            self.phase.send_replace(Phase::Down);
            self.health.mark_down(&self.endpoint, &failure);
            failures = failures.saturating_add(1);
            keeper.sleep_until(keeper.now() + pause(failures)).await;
        }
    }

    async fn open(&self, keeper: &Keeper) -> Result<Subscription, Failure> {
        let evictions = self.evictions.as_ref().map(|evictions| evictions.channel.as_slice());
        let channels: Vec<&[u8]> = [self.channel.as_slice()].into_iter().chain(evictions).collect();
        let mut socket = self.endpoint.open_in_turn(keeper).await?;
        if evictions.is_some() {
            self.health.check_publish(&mut socket, &self.endpoint, &self.channel).await?;
        }
        Subscription::open(socket, &self.endpoint, &channels).await
    }

    /// Writes the mark again and again while this process may not publish.
    async fn keep_denied_mark(&self, keeper: &Keeper) -> Failure {
        while self.evictions.is_some() && self.health.is_publish_denied() {
            keeper.sleep_until(keeper.now() + MARK_INTERVAL).await;
            let marking = async {
                let mut socket = self.endpoint.open_in_turn(keeper).await?;
                self.health.check_publish(&mut socket, &self.endpoint, &self.channel).await
            };
            // If this fails because of the connection, the heartbeats notice.
            let _ =
                keeper.timeout_at(keeper.now() + self.endpoint.config.server.connect_timeout, marking).await;
        }
        pending().await
    }

    /// Dispatches messages until the connection ends or does not answer.
    async fn receive(&self, subscription: Subscription, keeper: &Keeper, failures: &mut u32) -> Failure {
        let Subscription { mut heartbeat, mut messages } = subscription;
        let every = self.endpoint.config.heartbeat;
        let heartbeats = async {
            loop {
                keeper.sleep_until(keeper.now() + every).await;
                match keeper.timeout_at(keeper.now() + every, heartbeat.ping(&self.endpoint)).await {
                    Some(Ok(())) => *failures = 0,
                    Some(Err(failure)) => return failure,
                    None => return Failure::timed_out(&self.endpoint.address, "a heartbeat", every),
                }
            }
        };
        let reading = async {
            while let Some((channel, payload)) = messages.next().await {
                self.dispatch(&channel, &payload);
            }
            let address = &self.endpoint.address;
            Failure::new(Kind::Unreachable, format!("the notification connection to {address} ended"))
        };
        tokio::select! {
            failure = heartbeats => failure,
            failure = reading => failure,
            failure = self.keep_denied_mark(keeper) => failure,
        }
    }

    fn dispatch(&self, channel: &[u8], payload: &[u8]) {
        if let Some(evictions) = self.evictions.as_ref().filter(|evictions| evictions.channel == channel) {
            if let Some(entry) = message::entry(payload) {
                let alarms = || evictions.alarms.lock();
                let listening = alarms().clone();
                // Outside the lock, because this wakes tasks.
                for alarm in listening {
                    // The receiver may have been dropped.
                    drop(alarm.unbounded_send(entry));
                }
                alarms().retain(|alarm| !alarm.is_closed());
            }
            return;
        }
        self.dispatch_hints(payload, self.endpoint.config.confirm_hints);
    }

    /// Any user that may publish can claim that a waiter has the lock. With `confirm`, the waiter looks instead of trusting the message.
    fn dispatch_hints(&self, payload: &[u8], confirm: bool) {
        for message in message::messages(payload) {
            match message {
                Message::Admitted { entry, .. } if confirm => self.hints.send(entry, Hint::Changed),
                Message::Admitted { entry, token } => self.hints.send(entry, Hint::Admitted { token }),
                Message::Changed => self.hints.changed_for_all(),
            }
        }
    }
}

/// The pause before the next attempt. It doubles with every failure in a row. Up to half of it is random, so that processes do not
/// reconnect all at once.
pub(super) fn pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let full = MIN_PAUSE.saturating_mul(1 << doublings).min(MAX_PAUSE);
    let chance = (SystemEntropy.bits() >> 96) as u32;
    full.saturating_sub((full / 2).mul_f64(f64::from(chance) / f64::from(u32::MAX)))
}

/// Marks the subscriber as closed, however its task ends: aborted, with its runtime, in a panic.
struct EndGuard {
    runtime: Option<Id>,
    shared: Arc<Shared>,
    runtimes: Arc<RuntimeSelector>,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        // Tokio panics if the runtime was built without its I/O driver, and offers no other way to detect that.
        let without_io = thread::panicking() && *self.shared.phase.borrow() == Phase::Starting;
        if let Some(runtime) = self.runtime.filter(|_| without_io) {
            self.runtimes.mark_without_io(runtime);
        }
        // In this order: a waiter that starts to listen and does not see the subscriber closed gets the hint.
        self.shared.closed.store(true, Ordering::Release);
        self.shared.phase.send_replace(Phase::Down);
        self.shared.hints.changed_for_all();
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber")
            .field("runtime", &self.runtime)
            .field("phase", &*self.shared.phase.borrow())
            .finish_non_exhaustive()
    }
}
