//! [`RandomFaults`]: a backend behind a network that fails at random, as its seed says.

use std::{
    collections::VecDeque,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{StreamExt, future::BoxFuture};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, sleep_until},
};

use super::{
    Faults, SeededEntropy,
    faults::{End, Fate},
    faulty_hints::{FaultyHints, ListenerCount},
};
use crate::{
    Alarms, Backend, BackendError, BackendErrorKind, Creates, Departure, Entry, EntryId, FencingToken,
    Guarantees, Hint, Hints, Lease, Operator, Renewal, Standing, Step, WaitMode, sync::Mutex,
};

/// This number of requests at one instant means an endless loop, which on paused time would hang the test.
const ENDLESS: usize = 20_000;

/// How many tokens are remembered, to make hints for former lives of them.
const REMEMBERED: usize = 8;

/// A wrapper around any backend that loses, delays, repeats and refuses requests and hints at random, at the rate of its [`Faults`].
///
/// A request that was sent goes on to the store even if the future that sent it is dropped. Has to be used on a tokio
/// runtime; on a paused one the same seed gives the same faults.
#[derive(Debug)]
pub struct RandomFaults {
    inner: Arc<dyn Backend>,
    entropy: Arc<SeededEntropy>,
    state: Arc<Mutex<State>>,
    listening: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct State {
    faults: Faults,
    cut: bool,
    tokens: VecDeque<FencingToken>,
    /// The instant of the last request, and how many were sent at it.
    busy: (Instant, usize),
}

impl RandomFaults {
    /// A wire to `inner`.
    ///
    /// # Panics
    /// If it is not called on a tokio runtime with time.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>, entropy: SeededEntropy, faults: Faults) -> Self {
        let state = State { faults, cut: false, tokens: VecDeque::new(), busy: (Instant::now(), 0) };
        Self {
            inner,
            entropy: Arc::new(entropy),
            state: Arc::new(Mutex::new(state)),
            listening: Arc::default(),
        }
    }

    /// What the wire is like from now on. What is on its way already arrives as it would have.
    pub fn set(&self, faults: Faults) {
        self.state.lock().faults = faults;
    }

    /// How many streams of hints are listened to.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.listening.load(Ordering::Relaxed)
    }

    /// Nothing is sent any more and nothing is answered: the client is gone.
    pub(crate) fn cut(&self) {
        self.state.lock().cut = true;
    }

    /// Draws what becomes of the next request. `None`: nothing ever.
    fn draw_fate(&self) -> Option<(Fate, Duration)> {
        let mut state = self.state.lock();
        let now = Instant::now();
        state.busy = if state.busy.0 == now { (now, state.busy.1 + 1) } else { (now, 1) };
        assert!(state.busy.1 < ENDLESS, "a client sends requests in an endless loop, while no time goes by");
        let faults = state.faults;
        (!state.cut).then(|| (faults.fate(&self.entropy), faults.limit))
    }

    /// Sends a request that can be carried out several times.
    async fn send<T: Send + 'static>(
        &self,
        request: impl Fn() -> BoxFuture<'static, T> + Send + Sync + 'static,
    ) -> Result<T, BackendError> {
        let Some((fate, limit)) = self.draw_fate() else { return std::future::pending().await };
        let error = |kind, what| BackendError::new("faulty", kind, what);
        let (end, failure) = match fate.end {
            End::Limit => (limit, error(BackendErrorKind::TimedOut, "no answer in time")),
            End::Refused => {
                return Err(error(BackendErrorKind::Unreachable, "connection refused").unsent());
            }
            End::NotReady(after) => (after, error(BackendErrorKind::Unavailable, "not ready")),
            End::Broken(after) => (after, error(BackendErrorKind::Unreachable, "the connection broke")),
        };
        let end = Instant::now() + end;
        let (sender, answer) = oneshot::channel();
        if fate.arrives.is_some() {
            tokio::spawn(carry(fate, request, sender));
        }
        tokio::select! {
            biased;
            Ok(answer) = answer => Ok(answer),
            () = sleep_until(end) => Err(failure),
        }
    }

    /// Puts the hints of a standing on the wire.
    fn on_wire(&self, standing: &mut Standing) {
        let mut state = self.state.lock();
        if let Standing::Admitted { token, .. } | Standing::Waiting { token, .. } = standing {
            if !state.tokens.contains(token) {
                state.tokens.push_back(*token);
            }
            if state.tokens.len() > REMEMBERED {
                state.tokens.pop_front();
            }
        }
        let Standing::Waiting { token, hints, .. } = standing else { return };
        let inner: Hints = std::mem::replace(hints, Box::pin(futures_util::stream::empty()));
        let count = ListenerCount::new(&self.listening);
        let mut faulty = FaultyHints::new(inner, state.faults, self.entropy.branch(), count);
        if self.entropy.chance(state.faults.per_mille) {
            let former: Vec<_> = state.tokens.iter().filter(|known| *known != token).collect();
            let drawn = self.entropy.below(former.len() as u64);
            // The position is below the length, which fits.
            if let Some(&&token) = former.get(drawn as usize) {
                faulty.add_stale(Hint::Admitted { token });
            }
        }
        if self.entropy.chance(state.faults.per_mille) {
            faulty.break_off();
        }
        *hints = Box::pin(faulty);
    }
}

/// Carries a request to the store, once or twice, and its first answer back.
async fn carry<T: Send + 'static>(
    fate: Fate,
    request: impl Fn() -> BoxFuture<'static, T> + Send + Sync,
    answer: oneshot::Sender<T>,
) {
    let first = async {
        let Some(arrives) = fate.arrives else { return };
        pause(arrives).await;
        let result = request().await;
        if let Some(back) = fate.answered {
            pause(back).await;
            // A client that has given up needs no answer.
            let _ = answer.send(result);
        }
    };
    let second = async {
        if let Some(again) = fate.again {
            pause(again).await;
            drop(request().await);
        }
    };
    futures_util::future::join(first, second).await;
}

fn pause(time: Duration) -> impl Future<Output = ()> {
    let wait = (!time.is_zero()).then(|| sleep(time));
    async {
        if let Some(wait) = wait {
            wait.await;
        }
    }
}

#[async_trait]
impl Backend for RandomFaults {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        let (inner, entry) = (Arc::clone(&self.inner), entry.clone());
        let request = move || -> BoxFuture<'static, _> {
            let (inner, entry) = (Arc::clone(&inner), entry.clone());
            Box::pin(async move { inner.enter(&entry, step, wait).await })
        };
        let mut standing = self.send(request).await??;
        self.on_wire(&mut standing);
        Ok(standing)
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let (inner, sent) = (Arc::clone(&self.inner), leases.to_vec());
        let request = move || -> BoxFuture<'static, _> {
            let (inner, sent) = (Arc::clone(&inner), sent.clone());
            Box::pin(async move { inner.renew(&sent).await })
        };
        self.send(request).await.unwrap_or_else(|error| leases.iter().map(|_| Err(error.clone())).collect())
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        let (inner, entry) = (Arc::clone(&self.inner), entry.clone());
        let request = move || -> BoxFuture<'static, _> {
            let (inner, entry) = (Arc::clone(&inner), entry.clone());
            Box::pin(async move { inner.leave(&entry, creates).await })
        };
        self.send(request).await?
    }

    // It bypasses the wire: nothing relies on it.
    async fn give_back(&self) {
        self.inner.give_back().await;
    }

    fn alarms(&self) -> Alarms {
        let (state, entropy) = (Arc::clone(&self.state), Arc::clone(&self.entropy));
        let arrives = move |_: &EntryId| {
            let per_mille = state.lock().faults.per_mille;
            std::future::ready(!entropy.chance(per_mille))
        };
        Box::pin(self.inner.alarms().filter(arrives))
    }

    fn guarantees(&self) -> &Guarantees {
        self.inner.guarantees()
    }

    // Requests of operators bypass the wire.
    fn operator(&self) -> &dyn Operator {
        self.inner.operator()
    }
}
