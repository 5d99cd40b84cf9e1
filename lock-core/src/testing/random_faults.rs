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
    Delivery, Faults, Request, RequestFault, SeededEntropy, WireProbe,
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

/// What becomes of a request, how long its sender waits for the answer, and who watches it arrive.
type Drawn = (Fate, Duration, Option<Arc<dyn WireProbe>>);

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
    probe: Option<Arc<dyn WireProbe>>,
}

impl RandomFaults {
    /// A wire to `inner`.
    ///
    /// # Panics
    /// If it is not called on a tokio runtime with time.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>, entropy: SeededEntropy, faults: Faults) -> Self {
        let busy = (Instant::now(), 0);
        let state = State { faults, cut: false, tokens: VecDeque::new(), busy, probe: None };
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

    /// Lets a probe see the requests from now on, and choose what becomes of them.
    pub fn set_probe(&self, probe: Arc<dyn WireProbe>) {
        self.state.lock().probe = Some(probe);
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

    /// Draws what becomes of the next request, and when it is given up. `None`: nothing ever.
    fn draw_fate(&self, request: Request<'_>) -> Option<Drawn> {
        let mut state = self.state.lock();
        let now = Instant::now();
        state.busy = if state.busy.0 == now { (now, state.busy.1 + 1) } else { (now, 1) };
        assert!(state.busy.1 < ENDLESS, "a client sends requests in an endless loop, while no time goes by");
        if state.cut {
            return None;
        }
        let (faults, probe) = (state.faults, state.probe.clone());
        drop(state);
        let choose = |drawn| probe.as_ref().map_or(drawn, |probe| probe.sent(request, drawn));
        let fate = faults.fate(&self.entropy, choose);
        Some((fate, faults.limit, probe))
    }

    /// Sends a request that can be carried out several times.
    async fn send<T: Send + 'static>(
        &self,
        request: Request<'_>,
        carry_out: impl Fn() -> BoxFuture<'static, T> + Send + Sync + 'static,
    ) -> Result<T, BackendError> {
        let Some((fate, limit, probe)) = self.draw_fate(request) else { return std::future::pending().await };
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
            tokio::spawn(carry(fate, probe, carry_out, sender));
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
    probe: Option<Arc<dyn WireProbe>>,
    carry_out: impl Fn() -> BoxFuture<'static, T> + Send + Sync,
    answer: oneshot::Sender<T>,
) {
    let arrives = |fault, given_up| {
        if let Some(probe) = &probe {
            probe.arrives(Delivery { fault, given_up });
        }
    };
    let first = async {
        let Some(at) = fate.arrives else { return };
        pause(at).await;
        let fault = if fate.again.is_some() { RequestFault::InTime } else { fate.fault };
        arrives(fault, answer.is_closed());
        let result = carry_out().await;
        if let Some(back) = fate.answered {
            pause(back).await;
            // A client that has given up needs no answer.
            let _ = answer.send(result);
        }
    };
    let second = async {
        if let Some(again) = fate.again {
            pause(again).await;
            arrives(fate.fault, false);
            drop(carry_out().await);
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
        let request = Request::Enter { entry, step, wait };
        let (inner, entry) = (Arc::clone(&self.inner), entry.clone());
        let carry_out = move || -> BoxFuture<'static, _> {
            let (inner, entry) = (Arc::clone(&inner), entry.clone());
            Box::pin(async move { inner.enter(&entry, step, wait).await })
        };
        let mut standing = self.send(request, carry_out).await??;
        self.on_wire(&mut standing);
        Ok(standing)
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let (inner, sent) = (Arc::clone(&self.inner), leases.to_vec());
        let carry_out = move || -> BoxFuture<'static, _> {
            let (inner, sent) = (Arc::clone(&inner), sent.clone());
            Box::pin(async move { inner.renew(&sent).await })
        };
        let answers = self.send(Request::Renew { leases }, carry_out).await;
        answers.unwrap_or_else(|error| leases.iter().map(|_| Err(error.clone())).collect())
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        let request = Request::Leave { entry, creates };
        let (inner, entry) = (Arc::clone(&self.inner), entry.clone());
        let carry_out = move || -> BoxFuture<'static, _> {
            let (inner, entry) = (Arc::clone(&inner), entry.clone());
            Box::pin(async move { inner.leave(&entry, creates).await })
        };
        self.send(request, carry_out).await?
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
