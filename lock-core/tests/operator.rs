//! What people and tools ask a store beside the locks of others, on the same connections.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use async_trait::async_trait;
use lock_core::{
    Alarms, Backend, BackendError, Creates, Departure, Diagnosis, Entry, EntryId, Guarantees, Keeper, Lease,
    LockName, Locks, Memory, Operator, QueueRow, Renewal, Standing, Step, SystemEntropy, WaitMode,
    sync::Mutex,
};

/// A store that does not answer an operator, and knows whom its answer would wake.
#[derive(Debug)]
struct Silent {
    memory: Memory,
    waiting: Mutex<Option<Waker>>,
}

impl Silent {
    async fn answer<T>(&self) -> Result<T, BackendError> {
        poll_fn(|cx| {
            *self.waiting.lock() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Wakes who asks, whose waker panics. Where it is woken is the task of a connection, which would end by that.
    fn wakes<T>(&self, asks: impl Future<Output = T>) -> bool {
        let mut asks = pin!(asks);
        let waker = Waker::from(Arc::new(Panicking));
        assert!(asks.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let waiting = self.waiting.lock().take().expect("it is asked");
        catch_unwind(AssertUnwindSafe(|| waiting.wake())).is_ok()
    }
}

struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        std::panic::resume_unwind(Box::new("an ordered panic of a waker"));
    }
}

#[async_trait]
impl Backend for Silent {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        self.memory.enter(entry, step, wait).await
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        self.memory.renew(leases).await
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        self.memory.leave(entry, creates).await
    }

    async fn give_back(&self) {
        self.memory.give_back().await;
    }

    fn alarms(&self) -> Alarms {
        self.memory.alarms()
    }

    fn guarantees(&self) -> &Guarantees {
        self.memory.guarantees()
    }

    fn operator(&self) -> &dyn Operator {
        self
    }
}

#[async_trait]
impl Operator for Silent {
    async fn queue(&self, _: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        self.answer().await
    }

    async fn list(&self, _: &str) -> Result<Vec<LockName>, BackendError> {
        self.answer().await
    }

    async fn evict(&self, _: &LockName, _: EntryId) -> Result<Departure, BackendError> {
        self.answer().await
    }

    async fn diagnose(&self) -> Result<Diagnosis, BackendError> {
        self.answer().await
    }
}

#[test]
fn the_waker_of_an_operator_does_no_harm_to_what_answers_it() {
    let store = Arc::new(Silent { memory: Memory::new(), waiting: Mutex::default() });
    let backend: Arc<dyn Backend> = Arc::clone(&store) as _;
    let locks = Locks::with(backend, Keeper::start().unwrap(), Arc::new(SystemEntropy));
    let (operator, name) = (locks.operator(), LockName::new("a").unwrap());
    assert!(store.wakes(operator.queue(&name)), "queue");
    assert!(store.wakes(operator.list("")), "list");
    assert!(store.wakes(operator.evict(&name, EntryId::new(1))), "evict");
    assert!(store.wakes(operator.diagnose()), "diagnose");
}
