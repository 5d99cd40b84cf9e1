//! One client on a memory store, on simulated time: a paused runtime, whose clock jumps to the next timer.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_channel::mpsc::{UnboundedSender, unbounded};
use lock_core::{
    Alarms, BackOff, Backend, BackendError, BackendErrorKind, BootTime, Clock, Creates, Departure, Entropy,
    Entry, Guarantees, Hint, Keeper, Lease, LockName, Locks, Memory, Operator, QueueRow, Renewal, Standing,
    Step, WaitMode,
};
use tokio::time::Instant;

/// The paused runtime's time, and what the machine slept: timers do not count that.
#[derive(Debug)]
pub(crate) struct SimClock {
    start: Instant,
    slept_ms: AtomicU64,
}

impl Clock for SimClock {
    fn now(&self) -> BootTime {
        let slept = Duration::from_millis(self.slept_ms.load(Ordering::Relaxed));
        BootTime::new(Duration::from_secs(1_000) + (Instant::now() - self.start) + slept)
    }
}

#[derive(Debug)]
struct Counting(AtomicU64);

impl Entropy for Counting {
    fn bits(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Enter,
    Renew,
    Leave,
}

/// What happens to one request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It never arrives, and the client gets an error after the given time.
    Lost(Duration),
    /// It is carried out, and answered after the given time.
    Late(Duration),
    /// It is carried out after the given time, and answered at once.
    Slow(Duration),
    /// It is carried out, and the answer is lost.
    ReplyLost,
    /// The client gets an error immediately, and the request arrives after the given time.
    ArrivesLate(Duration),
    /// The store cannot be reached: it never left the client.
    Refused,
    /// It is never answered.
    Hangs,
}

/// Memory behind a wire that fails as a test orders. Records every request.
#[derive(Debug)]
pub(crate) struct Wire {
    memory: Memory,
    clock: Arc<dyn Clock>,
    faults: Mutex<BTreeMap<Verb, VecDeque<Fault>>>,
    always: Mutex<BTreeMap<Verb, Fault>>,
    log: Mutex<Vec<(Verb, BootTime, usize)>>,
    silent: Mutex<bool>,
    hasty: Mutex<bool>,
    /// The longest lease that is granted to a waiter.
    longest: Mutex<Option<Duration>>,
    guarantees: OnceLock<Guarantees>,
    /// Receives the hints that a test makes up.
    injected: Mutex<Option<UnboundedSender<Hint>>>,
}

impl Wire {
    /// The next request of this kind fails in this way.
    pub(crate) fn once(&self, verb: Verb, fault: Fault) {
        self.faults.lock().unwrap().entry(verb).or_default().push_back(fault);
    }

    /// Every request of this kind fails in this way, until the next call.
    pub(crate) fn always(&self, verb: Verb, fault: Option<Fault>) {
        match fault {
            Some(fault) => self.always.lock().unwrap().insert(verb, fault),
            None => self.always.lock().unwrap().remove(&verb),
        };
    }

    /// The store keeps entries by a session that they share, as etcd and ZooKeeper do.
    pub(crate) fn share_leases(&self) {
        let guarantees = Guarantees { shared_leases: true, ..self.memory.guarantees().clone() };
        self.guarantees.set(guarantees).expect("it is told first");
    }

    /// The store has no notifications, and waiters look again after these pauses.
    pub(crate) fn polls(&self, polls: BackOff) {
        self.silence();
        let guarantees = Guarantees { polls: Some(polls), ..self.memory.guarantees().clone() };
        self.guarantees.set(guarantees).expect("it is told first");
    }

    /// No hint arrives any more.
    pub(crate) fn silence(&self) {
        *self.silent.lock().unwrap() = true;
    }

    /// Every answer to a waiter says to look again immediately.
    pub(crate) fn hurry(&self) {
        *self.hasty.lock().unwrap() = true;
    }

    /// The store grants no waiter a longer lease than this.
    pub(crate) fn grants(&self, longest: Duration) {
        *self.longest.lock().unwrap() = Some(longest);
    }

    /// Gives a made-up hint to the entry that began to wait last.
    pub(crate) fn inject(&self, hint: Hint) {
        self.injected.lock().unwrap().as_ref().unwrap().unbounded_send(hint).unwrap();
    }

    /// When requests of this kind were sent.
    pub(crate) fn sent(&self, verb: Verb) -> Vec<BootTime> {
        self.log.lock().unwrap().iter().filter(|(v, ..)| *v == verb).map(|(_, at, _)| *at).collect()
    }

    /// How many entries all requests of this kind had together.
    pub(crate) fn entries(&self, verb: Verb) -> usize {
        self.log.lock().unwrap().iter().filter(|(v, ..)| *v == verb).map(|(_, _, n)| n).sum()
    }

    async fn pass<T: Send + 'static>(
        &self,
        verb: Verb,
        entries: usize,
        request: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, BackendError> {
        self.log.lock().unwrap().push((verb, self.clock.now(), entries));
        let once = self.faults.lock().unwrap().get_mut(&verb).and_then(VecDeque::pop_front);
        let fault = once.or_else(|| self.always.lock().unwrap().get(&verb).copied());
        let error = |kind| BackendError::new("wire", kind, "told to fail");
        match fault {
            None => Ok(request.await),
            Some(Fault::Lost(after)) => {
                tokio::time::sleep(after).await;
                Err(error(BackendErrorKind::TimedOut))
            }
            Some(Fault::Late(by)) => {
                let answer = request.await;
                tokio::time::sleep(by).await;
                Ok(answer)
            }
            Some(Fault::Slow(by)) => {
                tokio::time::sleep(by).await;
                Ok(request.await)
            }
            Some(Fault::ReplyLost) => {
                request.await;
                Err(error(BackendErrorKind::Unreachable))
            }
            Some(Fault::ArrivesLate(after)) => {
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    request.await
                });
                Err(error(BackendErrorKind::Unreachable))
            }
            Some(Fault::Refused) => Err(error(BackendErrorKind::Unreachable).unsent()),
            Some(Fault::Hangs) => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Backend for Wire {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        let (memory, late) = (self.memory.clone(), entry.clone());
        let request = async move { memory.enter(&late, step, wait).await };
        let mut standing = self.pass(Verb::Enter, 1, request).await??;
        if let Standing::Waiting { hints, look_again, ttl, valid_until, .. } = &mut standing {
            if let Some(longest) = *self.longest.lock().unwrap() {
                *ttl = longest.min(*ttl);
                *valid_until = (*valid_until).min(self.clock.now() + lease(longest));
            }
            if *self.hasty.lock().unwrap() {
                *look_again = self.clock.now();
            }
            let (sender, injected) = unbounded();
            *self.injected.lock().unwrap() = Some(sender);
            let silent = *self.silent.lock().unwrap();
            let real = std::mem::replace(hints, Box::pin(futures_util::stream::empty()));
            if !silent {
                *hints = Box::pin(futures_util::stream::select(real, injected));
            }
        }
        Ok(standing)
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let (memory, late) = (self.memory.clone(), leases.to_vec());
        let request = async move { memory.renew(&late).await };
        self.pass(Verb::Renew, leases.len(), request).await.unwrap_or_else(|_| {
            let error = || BackendError::new("wire", BackendErrorKind::TimedOut, "told to fail");
            leases.iter().map(|_| Err(error())).collect()
        })
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        let (memory, late) = (self.memory.clone(), entry.clone());
        self.pass(Verb::Leave, 1, async move { memory.leave(&late, creates).await }).await?
    }

    async fn give_back(&self) {
        self.memory.give_back().await;
    }

    fn alarms(&self) -> Alarms {
        self.memory.alarms()
    }

    fn guarantees(&self) -> &Guarantees {
        self.guarantees.get_or_init(|| self.memory.guarantees().clone())
    }

    fn operator(&self) -> &dyn Operator {
        self.memory.operator()
    }
}

/// A simulated store, with one clock for all its clients.
#[derive(Debug)]
pub(crate) struct Sim {
    clock: Arc<SimClock>,
    pub(crate) memory: Memory,
    clients: AtomicU64,
}

/// A client of a simulated store, with a wire and a keeper of its own.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) locks: Locks,
    pub(crate) wire: Arc<Wire>,
    pub(crate) keeper: Keeper,
}

impl Sim {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(SimClock { start: Instant::now(), slept_ms: AtomicU64::new(0) });
        Self { memory: Memory::with_clock(Arc::clone(&clock) as _), clock, clients: AtomicU64::new(0) }
    }

    pub(crate) fn client(&self) -> Client {
        let keeper = Keeper::on_current_runtime(Arc::clone(&self.clock) as _);
        let wire = Arc::new(Wire {
            memory: self.memory.clone(),
            clock: Arc::clone(&self.clock) as _,
            faults: Mutex::default(),
            always: Mutex::default(),
            log: Mutex::default(),
            silent: Mutex::default(),
            hasty: Mutex::default(),
            longest: Mutex::default(),
            guarantees: OnceLock::new(),
            injected: Mutex::default(),
        });
        let first_id = (self.clients.fetch_add(1, Ordering::Relaxed) + 1) << 32;
        let entropy = Arc::new(Counting(AtomicU64::new(first_id)));
        let locks = Locks::with(Arc::clone(&wire) as Arc<dyn Backend>, keeper.clone(), entropy);
        Client { locks, wire, keeper }
    }

    /// The machine sleeps: the clock advances, and timers do not.
    pub(crate) fn suspend(&self, time: Duration) {
        self.clock.slept_ms.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> BootTime {
        self.clock.now()
    }

    pub(crate) async fn rows(&self, name: &str) -> Vec<QueueRow> {
        self.memory.queue(&LockName::new(name).unwrap()).await.unwrap()
    }
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// The timers of the runtime tick in milliseconds: what is to happen at an instant happens then or in the next one.
pub(crate) fn assert_at(happened: BootTime, due: BootTime) {
    assert!(happened >= due, "{:?} too early", due.since(happened));
    assert!(happened.since(due) <= ms(2), "{:?} too late", happened.since(due));
}

/// How long a fresh lease of this ttl may be relied on.
pub(crate) fn lease(ttl: Duration) -> Duration {
    ttl.saturating_sub(lock_core::margin(ttl))
}

pub(crate) async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}
