//! [`Notifications`]: the one connection on which the server speaks unasked.

mod message;
mod subscription;

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_channel::mpsc::{UnboundedSender, unbounded};
use futures_util::future::{AbortHandle, AbortRegistration, Abortable};
use lock_core::{
    Alarms, BackendErrorKind as Kind, Entropy, EntryId, Hint, Keeper, Switchboard, SystemEntropy,
};
use tokio::sync::watch;

use self::{message::Message, subscription::Subscription};
use crate::{
    connection::{Endpoint, by},
    error::Failure,
};

const LEAST_PAUSE: Duration = Duration::from_millis(50);
const MOST_PAUSE: Duration = Duration::from_secs(2);

/// Hints and alarms from the server, on a connection of their own (R1) that the keeper drives and replaces.
///
/// After every new subscription all waiters look again (PR14), because what was published before it is lost. While
/// there is none, waiters poll: nothing here is needed for a lock to be right. Dropping it closes the connection.
pub(crate) struct Notifications {
    news: Arc<News>,
    keeper: Keeper,
    started: AtomicBool,
    task: AbortHandle,
    registration: Mutex<Option<AbortRegistration>>,
}

/// What the task and its owner share.
struct News {
    endpoint: Arc<Endpoint>,
    process_channel: Vec<u8>,
    eviction_channel: Vec<u8>,
    phase: watch::Sender<Phase>,
    hints: Switchboard,
    alarms: Mutex<Vec<UnboundedSender<EntryId>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No try has ended yet.
    Starting,
    Live,
    /// A try failed, or a connection ended. There will be another.
    Down,
}

impl Notifications {
    /// No connection is opened yet.
    pub(crate) fn new(endpoint: Arc<Endpoint>, keeper: Keeper) -> Self {
        let prefix = endpoint.config.prefix.as_bytes();
        let channel = |rest: &[u8]| [prefix, b"\xff1", rest].concat();
        let client = format!("h:{:032x}", SystemEntropy.bits());
        let (task, registration) = AbortHandle::new_pair();
        let news = News {
            process_channel: channel(client.as_bytes()),
            eviction_channel: channel(b"e"),
            phase: watch::Sender::new(Phase::Starting),
            hints: Switchboard::default(),
            alarms: Mutex::default(),
            endpoint,
        };
        let registration = Mutex::new(Some(registration));
        Self { news: Arc::new(news), keeper, started: AtomicBool::new(false), task, registration }
    }

    /// Where this process is told that an entry of its own was admitted. Nobody else has it.
    pub(crate) fn channel(&self) -> &[u8] {
        &self.news.process_channel
    }

    /// Where everybody is told that an entry was evicted.
    pub(crate) fn eviction_channel(&self) -> &[u8] {
        &self.news.eviction_channel
    }

    /// What the server said to this process in an answer instead of a message.
    pub(crate) fn told(&self, payload: &[u8]) {
        self.news.hand_on(&self.news.process_channel, payload);
    }

    /// Hints for the entries of this process.
    pub(crate) fn hints(&self) -> &Switchboard {
        &self.news.hints
    }

    /// Subscribes if that was not done, and waits until it has succeeded or failed once, for `command_timeout` at the
    /// most. Without a subscription there are no hints, and a waiter has to poll; it is told when there is one again.
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub(crate) async fn live(&self) {
        self.start();
        if *self.news.phase.borrow() != Phase::Starting {
            return;
        }
        let mut phase = self.news.phase.subscribe();
        let until = self.keeper.now() + self.news.endpoint.config.command_timeout;
        // Either way the waiter goes on. The sender lives in `self`, so that there is always a phase.
        let _ = by(&self.keeper, until, phase.wait_for(|phase| *phase != Phase::Starting)).await;
    }

    /// Entries of whichever process that were evicted, from now on. Subscribes if that was not done, but does not wait.
    pub(crate) fn alarms(&self) -> Alarms {
        self.start();
        let (sender, alarms) = unbounded();
        self.news.alarms.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        Box::pin(alarms)
    }

    fn start(&self) {
        if self.started.load(Ordering::Relaxed) {
            return;
        }
        // Nothing panics while it is held.
        let registration = self.registration.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(registration) = registration {
            self.started.store(true, Ordering::Relaxed);
            let (news, keeper) = (Arc::clone(&self.news), self.keeper.clone());
            let listening = Abortable::new(news.run(keeper), registration);
            self.keeper.spawn(async move { listening.await.unwrap_or_default() });
        }
    }
}

impl News {
    /// Subscribes again and again.
    async fn run(self: Arc<Self>, keeper: Keeper) {
        let mut failures: u32 = 0;
        loop {
            let opened_by = keeper.now() + self.endpoint.config.connect_timeout;
            let channels = [self.process_channel.as_slice(), self.eviction_channel.as_slice()];
            let opening = Subscription::open(&self.endpoint, &channels);
            let failure = match by(&keeper, opened_by, opening).await {
                Some(Ok(subscription)) => {
                    // Whoever listens from now on misses nothing, and those before look again.
                    self.hints.changed_for_all();
                    self.phase.send_replace(Phase::Live);
                    tracing::debug!(server = %self.endpoint.address, "redis notifications are live");
                    self.listen(subscription, &keeper, &mut failures).await
                }
                Some(Err(failure)) => failure,
                None => Failure::timed_out(
                    &self.endpoint.address,
                    "subscribing",
                    self.endpoint.config.connect_timeout,
                ),
            };
            self.phase.send_replace(Phase::Down);
            tracing::warn!(server = %self.endpoint.address, "redis notifications are down, waiters poll: {}", failure.message());
            failures = failures.saturating_add(1);
            keeper.sleep_until(keeper.now() + pause(failures)).await;
        }
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
        }
    }

    fn hand_on(&self, channel: &[u8], payload: &[u8]) {
        if channel == self.eviction_channel {
            if let Some(entry) = message::entry(payload) {
                let mut alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
                alarms.retain(|alarm| alarm.unbounded_send(entry).is_ok());
            }
            return;
        }
        for message in message::messages(payload) {
            match message {
                Message::Admitted { entry, token } => self.hints.send(entry, Hint::Admitted { token }),
                Message::Changed => self.hints.changed_for_all(),
            }
        }
    }
}

/// Doubles with every failure in a row; up to a half of it is left to chance, so that processes come back one by one.
fn pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let full = LEAST_PAUSE.saturating_mul(1 << doublings).min(MOST_PAUSE);
    let chance = (SystemEntropy.bits() >> 96) as u32;
    full.saturating_sub((full / 2).mul_f64(f64::from(chance) / f64::from(u32::MAX)))
}

impl Drop for Notifications {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Notifications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifications").field("phase", &*self.news.phase.borrow()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
