//! [`Listener`]: one connection on which the server speaks unasked, and the channel it hears.

use std::{
    fmt,
    future::pending,
    mem,
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use futures_channel::mpsc::UnboundedSender;
use futures_util::future::{AbortHandle, AbortRegistration, Abortable, FutureExt};
use lock_core::{
    BackendErrorKind as Kind, Entropy, EntryId, Hint, Hints, Keeper, Switchboard, SystemEntropy,
};
use tokio::{
    runtime::{Handle, Id},
    sync::watch,
};

use super::{
    message::{self, Message},
    subscription::Subscription,
    voice::Voice,
};
use crate::{
    connection::{Endpoint, Homes, by},
    error::Failure,
};

/// How often the mark of somebody who may not publish is left: several times while it stands.
const MARK_AGAIN: Duration = Duration::from_secs(20);

const LEAST_PAUSE: Duration = Duration::from_millis(50);
const MOST_PAUSE: Duration = Duration::from_secs(2);

/// Hints for the entries that were entered at one home, on a connection (R1) that this home drives.
///
/// After every new subscription all its waiters look again (PR14), because what was published before it is lost. While
/// there is none, waiters poll: nothing here is needed for a lock to be right. The task ends with its runtime, or when
/// the listener is dropped; its waiters look again then, and are entered for another listener.
pub(crate) struct Listener {
    pub(super) home: Option<Id>,
    pub(super) news: Arc<News>,
    homes: Arc<Homes>,
    started: AtomicBool,
    task: AbortHandle,
    registration: Mutex<Option<AbortRegistration>>,
}

/// What the task and its owner share.
pub(super) struct News {
    endpoint: Arc<Endpoint>,
    channel: Vec<u8>,
    evictions: Option<Evictions>,
    pub(super) phase: watch::Sender<Phase>,
    over: AtomicBool,
    hints: Switchboard,
    voice: Arc<Voice>,
}

/// Where everybody is told that an entry was evicted, and who of us wants to know.
pub(super) struct Evictions {
    pub(super) channel: Vec<u8>,
    pub(super) alarms: Arc<Mutex<Vec<UnboundedSender<EntryId>>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No try has ended yet.
    Starting,
    Live,
    /// A try failed, or a connection ended. There will be another, unless it is over.
    Down,
}

impl Listener {
    /// No connection is opened yet.
    pub(super) fn new(
        home: Option<Id>,
        endpoint: &Arc<Endpoint>,
        homes: &Arc<Homes>,
        evictions: Option<Evictions>,
        voice: &Arc<Voice>,
    ) -> Self {
        let (task, registration) = AbortHandle::new_pair();
        let client = format!("h:{:032x}", SystemEntropy.bits());
        let news = News {
            channel: super::channel(endpoint, &client),
            endpoint: Arc::clone(endpoint),
            evictions,
            phase: watch::Sender::new(Phase::Starting),
            over: AtomicBool::new(false),
            hints: Switchboard::default(),
            voice: Arc::clone(voice),
        };
        let (homes, registration) = (Arc::clone(homes), Mutex::new(Some(registration)));
        Self { home, news: Arc::new(news), homes, started: AtomicBool::new(false), task, registration }
    }

    /// Where the server tells that an entry of this listener was admitted. Nobody else has it.
    pub(crate) fn channel(&self) -> &[u8] {
        &self.news.channel
    }

    /// What the server said in an answer instead of a message.
    pub(crate) fn told(&self, payload: &[u8]) {
        self.news.hand_on_to_waiters(payload, false);
    }

    pub(super) fn hints(&self, entry: EntryId) -> Hints {
        self.news.hints.listen(entry)
    }

    /// Whether it hears what is said.
    pub(crate) fn is_live(&self) -> bool {
        *self.news.phase.borrow() == Phase::Live
    }

    /// How many wait for hints here.
    pub(crate) fn waiters(&self) -> usize {
        self.news.hints.listeners()
    }

    /// Whether it will hear nothing any more.
    pub(super) fn is_over(&self) -> bool {
        self.news.over.load(Ordering::Acquire)
    }

    /// Subscribes if that was not done.
    pub(super) fn start(&self, runtime: Option<&Handle>) {
        if self.started.load(Ordering::Relaxed) {
            return;
        }
        // Nothing panics while it is held.
        let registration = self.registration.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(registration) = registration {
            self.started.store(true, Ordering::Relaxed);
            let (news, homes) = (Arc::clone(&self.news), Arc::clone(&self.homes));
            let ending = Ending { home: self.home, news: Arc::clone(&news), homes: Arc::clone(&homes) };
            let listening = Abortable::new(
                async move {
                    let _ending = ending;
                    news.go_on(&homes.keeper).await;
                },
                registration,
            );
            self.homes.spawn(runtime, async move { listening.await.unwrap_or_default() });
        }
    }

    /// Waits until a subscription has succeeded or failed once, for `command_timeout` at the most. Without one there are
    /// no hints, and a waiter has to poll; it is told when there is one again.
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub(super) async fn live(&self) {
        if *self.news.phase.borrow() != Phase::Starting {
            return;
        }
        let mut phase = self.news.phase.subscribe();
        let keeper = &self.homes.keeper;
        let until = keeper.now() + self.news.endpoint.config.command_timeout;
        // Either way the waiter goes on. The sender lives in `self`, so that there is always a phase.
        let _ = by(keeper, until, phase.wait_for(|phase| *phase != Phase::Starting)).await;
    }
}

impl News {
    /// What is logged, and whom a hint wakes, is code of others: when it panics, the listener goes on. A panic before it was
    /// ever subscribed is that of a runtime without I/O, and its end.
    async fn go_on(&self, keeper: &Keeper) {
        while let Err(panic) = AssertUnwindSafe(self.run(keeper)).catch_unwind().await {
            if *self.phase.borrow() == Phase::Starting {
                resume_unwind(panic);
            }
            keeper.sleep_until(keeper.now() + LEAST_PAUSE).await;
        }
    }

    /// Subscribes again and again.
    async fn run(&self, keeper: &Keeper) {
        let mut failures: u32 = 0;
        // Some waiters sleep as long as those do who will be told.
        let mut relied_on = false;
        loop {
            let opened_by = keeper.now() + self.endpoint.config.connect_timeout;
            let failure = match by(keeper, opened_by, self.open(keeper)).await {
                Some(Ok(subscription)) => {
                    // Whoever listens from now on misses nothing, and those before look again.
                    self.hints.changed_for_all();
                    self.phase.send_replace(Phase::Live);
                    tracing::debug!(server = %self.endpoint.address, "redis notifications are live");
                    self.voice.hears(&self.endpoint);
                    relied_on = true;
                    self.listen(subscription, keeper, &mut failures).await
                }
                failed => {
                    let failure = failed.and_then(Result::err).unwrap_or_else(|| {
                        let limit = self.endpoint.config.connect_timeout;
                        Failure::timed_out(&self.endpoint.address, "subscribing", limit)
                    });
                    // While there is no server, it does not help to look.
                    if *failure.kind() == Kind::Denied && mem::take(&mut relied_on) {
                        self.hints.changed_for_all();
                    }
                    failure
                }
            };
            self.phase.send_replace(Phase::Down);
            self.voice.is_deaf(&self.endpoint, &failure);
            failures = failures.saturating_add(1);
            keeper.sleep_until(keeper.now() + pause(failures)).await;
        }
    }

    async fn open(&self, keeper: &Keeper) -> Result<Subscription, Failure> {
        let evictions = self.evictions.as_ref().map(|evictions| evictions.channel.as_slice());
        let channels: Vec<&[u8]> = [self.channel.as_slice()].into_iter().chain(evictions).collect();
        let mut socket = self.endpoint.open(keeper).await?;
        if evictions.is_some() {
            self.voice.try_out(&mut socket, &self.endpoint, &self.channel).await?;
        }
        Subscription::over(socket, &self.endpoint, &channels).await
    }

    /// Leaves the mark again and again while we may not publish.
    async fn remain_mute(&self, keeper: &Keeper) -> Failure {
        while self.evictions.is_some() && self.voice.is_mute() {
            keeper.sleep_until(keeper.now() + MARK_AGAIN).await;
            let marking = async {
                let mut socket = self.endpoint.open(keeper).await?;
                self.voice.try_out(&mut socket, &self.endpoint, &self.channel).await
            };
            // What is in the way is seen by the heartbeats, too.
            let _ = by(keeper, keeper.now() + self.endpoint.config.connect_timeout, marking).await;
        }
        pending().await
    }

    /// Hands on what comes, until the connection ends or does not answer.
    async fn listen(&self, subscription: Subscription, keeper: &Keeper, failures: &mut u32) -> Failure {
        let Subscription { mut pulse, mut messages } = subscription;
        let every = self.endpoint.config.heartbeat;
        let heartbeats = async {
            loop {
                keeper.sleep_until(keeper.now() + every).await;
                match by(keeper, keeper.now() + every, pulse.beat(&self.endpoint)).await {
                    Some(Ok(())) => *failures = 0,
                    Some(Err(failure)) => return failure,
                    None => return Failure::timed_out(&self.endpoint.address, "a heartbeat", every),
                }
            }
        };
        let reading = async {
            while let Some((channel, payload)) = messages.next().await {
                self.hand_on(&channel, &payload);
            }
            let address = &self.endpoint.address;
            Failure::new(Kind::Unreachable, format!("the notification connection to {address} ended"))
        };
        tokio::select! {
            failure = heartbeats => failure,
            failure = reading => failure,
            failure = self.remain_mute(keeper) => failure,
        }
    }

    fn hand_on(&self, channel: &[u8], payload: &[u8]) {
        if let Some(evictions) = self.evictions.as_ref().filter(|evictions| evictions.channel == channel) {
            if let Some(entry) = message::entry(payload) {
                let alarms = || evictions.alarms.lock().unwrap_or_else(PoisonError::into_inner);
                let listening = alarms().clone();
                // They wake tasks, for which nothing may be locked.
                for alarm in listening {
                    // One that has ended needs no word.
                    drop(alarm.unbounded_send(entry));
                }
                alarms().retain(|alarm| !alarm.is_closed());
            }
            return;
        }
        self.hand_on_to_waiters(payload, self.endpoint.config.confirm_hints);
    }

    /// Whoever may publish can say that somebody has the lock. Where that is to be confirmed, it makes a waiter look.
    fn hand_on_to_waiters(&self, payload: &[u8], confirm: bool) {
        for message in message::messages(payload) {
            match message {
                Message::Admitted { entry, .. } if confirm => self.hints.send(entry, Hint::Changed),
                Message::Admitted { entry, token } => self.hints.send(entry, Hint::Admitted { token }),
                Message::Changed => self.hints.changed_for_all(),
            }
        }
    }
}

/// Doubles with every failure in a row; up to a half of it is left to chance, so that processes come back one by one.
pub(super) fn pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let full = LEAST_PAUSE.saturating_mul(1 << doublings).min(MOST_PAUSE);
    let chance = (SystemEntropy.bits() >> 96) as u32;
    full.saturating_sub((full / 2).mul_f64(f64::from(chance) / f64::from(u32::MAX)))
}

/// Says that the listener is over, however its task ends: aborted, with its runtime, in a panic.
struct Ending {
    home: Option<Id>,
    news: Arc<News>,
    homes: Arc<Homes>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        // Tokio panics where a runtime was built without its I/O driver, and has no other way to tell.
        let unfit = thread::panicking() && *self.news.phase.borrow() == Phase::Starting;
        if let Some(home) = self.home.filter(|_| unfit) {
            self.homes.is_unfit(home);
        }
        // In this order: who listens and does not see that it is over gets the hint.
        self.news.over.store(true, Ordering::Release);
        self.news.phase.send_replace(Phase::Down);
        self.news.hints.changed_for_all();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("home", &self.home)
            .field("phase", &*self.news.phase.borrow())
            .finish_non_exhaustive()
    }
}
