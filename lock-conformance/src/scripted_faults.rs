//! [`ScriptedFaults`]: a layer that injects the faults that a test has ordered.

use std::{collections::VecDeque, panic::resume_unwind, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Backend, BackendError, BackendErrorKind, Creates, Departure, Entry, Keeper, Lease, Renewal, Standing,
    Step, WaitMode, sync::Mutex,
};

use crate::{Gate, Layer};

/// A layer that loses, delays and refuses requests as its script says, which [`next`](Self::next), [`pass`](Self::pass) and
/// [`always`](Self::always) write. Without faults it only keeps the session of its client open until the client is dropped, so that late
/// requests find it. Clones share their faults.
#[derive(Clone, Debug, Default)]
pub struct ScriptedFaults {
    script: Arc<Mutex<Script>>,
}

/// A verb of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// [`Backend::enter`].
    Enter,
    /// [`Backend::renew`].
    Renew,
    /// [`Backend::leave`].
    Leave,
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It never arrives, and the client gets a timeout.
    LoseRequest,
    /// It is carried out, and the client gets a timeout.
    LoseReply,
    /// It is carried out, and the client gets this error, as when the connection breaks before the reply.
    FailReply(BackendErrorKind),
    /// It is refused with an error, and not carried out.
    Fail(BackendErrorKind),
    /// It is refused before it was sent.
    FailUnsent(BackendErrorKind),
    /// It is carried out after this time.
    DelayRequest(Duration),
    /// It is carried out immediately, and its reply comes after this time.
    DelayReply(Duration),
    /// It is in flight until the gate opens, and carried out then, even if the client has dropped its future.
    InFlight(Gate),
    /// It is carried out immediately, and its reply comes when the gate opens.
    HoldReply(Gate),
    /// The backend panics.
    Panic,
}

#[derive(Debug, Default)]
struct Script {
    plans: [Plan; 3],
}

#[derive(Debug, Default)]
struct Plan {
    next: VecDeque<Option<Fault>>,
    always: Option<Fault>,
    calls: usize,
    answers: usize,
}

impl ScriptedFaults {
    /// Adds a fault for one call of a verb, after those that were added before.
    pub fn next(&self, verb: Verb, fault: Fault) {
        self.plan(verb, |plan| plan.next.push_back(Some(fault)));
    }

    /// Lets one call of a verb pass, after the faults that were added before.
    pub fn pass(&self, verb: Verb) {
        self.plan(verb, |plan| plan.next.push_back(None));
    }

    /// Sets the fault of every call of a verb after those that [`next`](Self::next) and [`pass`](Self::pass) decide.
    pub fn always(&self, verb: Verb, fault: Fault) {
        self.plan(verb, |plan| plan.always = Some(fault));
    }

    /// Removes all faults of a verb.
    pub fn heal(&self, verb: Verb) {
        self.plan(verb, |plan| {
            plan.always = None;
            plan.next.clear();
        });
    }

    /// How often a verb was called.
    #[must_use]
    pub fn calls(&self, verb: Verb) -> usize {
        self.plan(verb, |plan| plan.calls)
    }

    /// How often a call of a verb has returned to the client.
    #[must_use]
    pub fn answers(&self, verb: Verb) -> usize {
        self.plan(verb, |plan| plan.answers)
    }

    fn take(&self, verb: Verb) -> Option<Fault> {
        self.plan(verb, |plan| {
            plan.calls += 1;
            plan.next.pop_front().unwrap_or_else(|| plan.always.clone())
        })
    }

    fn plan<T>(&self, verb: Verb, change: impl FnOnce(&mut Plan) -> T) -> T {
        let mut script = self.script.lock();
        change(&mut script.plans[verb as usize])
    }

    /// Carries out a request, and counts its return.
    async fn ask<T: Send + 'static>(
        &self,
        verb: Verb,
        request: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, BackendError> {
        let answer = self.carry_out(verb, request).await;
        self.plan(verb, |plan| plan.answers += 1);
        answer
    }

    /// Carries out a request with its fault. `request` is the call of the store behind.
    async fn carry_out<T: Send + 'static>(
        &self,
        verb: Verb,
        request: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, BackendError> {
        let error = |kind, what: &str| BackendError::new("faulty", kind, format!("{what} of {verb:?}"));
        let timed_out = || error(BackendErrorKind::TimedOut, "an ordered silence");
        match self.take(verb) {
            None => Ok(request.await),
            Some(Fault::LoseRequest) => Err(timed_out()),
            Some(Fault::LoseReply) => {
                request.await;
                Err(timed_out())
            }
            Some(Fault::FailReply(kind)) => {
                request.await;
                Err(error(kind, "an ordered loss of the answer"))
            }
            Some(Fault::Fail(kind)) => Err(error(kind, "an ordered failure")),
            Some(Fault::FailUnsent(kind)) => Err(error(kind, "an ordered failure").unsent()),
            Some(Fault::DelayRequest(delay)) => {
                pause(delay).await;
                Ok(request.await)
            }
            Some(Fault::DelayReply(delay)) => {
                let answer = request.await;
                pause(delay).await;
                Ok(answer)
            }
            Some(Fault::InFlight(gate)) => {
                let (answer, answered) = tokio::sync::oneshot::channel();
                Keeper::shared().spawn(async move {
                    gate.pass().await;
                    // The client may have gone; the store does not care.
                    let _ = answer.send(request.await);
                });
                answered.await.map_err(|_| timed_out())
            }
            Some(Fault::HoldReply(gate)) => {
                let answer = request.await;
                gate.pass().await;
                Ok(answer)
            }
            Some(Fault::Panic) => resume_unwind(Box::new(format!("an ordered panic of {verb:?}"))),
        }
    }
}

/// Sleeps on the keeper's timer, so that the caller needs no runtime.
async fn pause(time: Duration) {
    let keeper = Keeper::shared();
    keeper.sleep_until(keeper.now() + time).await;
}

#[async_trait]
impl Layer for ScriptedFaults {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let (store, entry) = (Arc::clone(store), entry.clone());
        self.ask(Verb::Enter, async move { store.enter(&entry, step, wait).await }).await?
    }

    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let (store, sent) = (Arc::clone(store), leases.to_vec());
        let answer = self.ask(Verb::Renew, async move { store.renew(&sent).await }).await;
        answer.unwrap_or_else(|error| leases.iter().map(|_| Err(error.clone())).collect())
    }

    async fn leave(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        creates: Creates,
    ) -> Result<Departure, BackendError> {
        let (store, entry) = (Arc::clone(store), entry.clone());
        self.ask(Verb::Leave, async move { store.leave(&entry, creates).await }).await?
    }

    async fn give_back(&self, _store: &Arc<dyn Backend>) {}
}
