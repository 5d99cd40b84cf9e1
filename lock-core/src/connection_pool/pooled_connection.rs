//! [`PooledConnection`]: one attempt to connect, which all callers share, and the connection that it opens.

use std::{
    fmt,
    future::Future,
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use futures_util::future::{AbortHandle, Abortable, Either, select};
use tokio::{runtime::Id, sync::SetOnce};

use super::connector::Connector;
use crate::{BackendErrorKind as Kind, BootTime, Keeper, panic_isolation::shielded};

/// A connection that is open, with its place in the pool.
pub type OpenConnection<C> = (Arc<PooledConnection<C>>, <C as Connector>::Connection);

/// A connection of a [`ConnectionPool`](crate::ConnectionPool): being opened, open, or closed. A closed one is never opened again: the next
/// caller gets another.
///
/// One task opens it and then drives it. The task ends when the connection does, with its runtime, or when the last reference to this is
/// dropped: a call that waits for an answer keeps its reference until then.
pub struct PooledConnection<C: Connector> {
    /// The runtime that drives it. `None`: the keeper's.
    runtime: Option<Id>,
    target: C::Target,
    outcome: SetOnce<Outcome<C>>,
    /// When it has to be open.
    open_by: BootTime,
    closed: AtomicBool,
    /// Set while it is being opened, when its callers have another connection to take.
    replaced: SetOnce<()>,
    task: AbortHandle,
}

/// What the attempt to open a connection came to.
type Outcome<C> = Result<<C as Connector>::Connection, FailedAttempt<<C as Connector>::Failure>>;

#[derive(Clone)]
pub(super) struct FailedAttempt<F> {
    pub(super) failure: F,
    pub(super) panicked: bool,
}

/// The owner of a connection, which is notified of its end.
pub(super) trait Owner<C: Connector>: Send + Sync {
    /// The connection has ended, or could not be opened. `without_io`: because its runtime cannot drive one.
    fn connection_ended(&self, connection: &Arc<PooledConnection<C>>, without_io: bool);
}

impl<C: Connector> PooledConnection<C> {
    /// A connection, and the task that has to be spawned on its runtime.
    pub(super) fn new(
        runtime: Option<Id>,
        target: C::Target,
        connector: Arc<C>,
        keeper: Keeper,
        owner: Weak<dyn Owner<C>>,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let (task, registration) = AbortHandle::new_pair();
        let open_by = keeper.now() + connector.connect_timeout();
        let connection = Arc::new(Self {
            runtime,
            target: target.clone(),
            outcome: SetOnce::new(),
            open_by,
            closed: AtomicBool::new(false),
            replaced: SetOnce::new(),
            task,
        });
        let end_guard = EndGuard { connection: Arc::downgrade(&connection), connector, owner };
        let driven = Abortable::new(open_and_drive(end_guard, target, keeper, open_by), registration);
        // Aborted or not: the guard tells.
        let drive = async move { driven.await.unwrap_or_default() };
        (connection, drive)
    }

    /// The connection, if it was opened.
    #[must_use]
    pub fn get(&self) -> Option<&C::Connection> {
        self.outcome.get()?.as_ref().ok()
    }

    /// Whether it has ended, or could not be opened: no caller gets it any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether its time is over, and it is neither open nor closed: its runtime did not run, as where a caller uses a runtime call by call.
    pub(super) fn is_overdue(&self, now: BootTime) -> bool {
        self.open_by <= now && !self.outcome.initialized()
    }

    /// Whether the keeper drives it, which no caller can block.
    #[must_use]
    pub fn is_on_keeper(&self) -> bool {
        self.runtime.is_none()
    }

    pub(super) fn runtime(&self) -> Option<Id> {
        self.runtime
    }

    /// Whether it is the one for this runtime and target.
    pub(super) fn serves(&self, runtime: Option<Id>, target: &C::Target) -> bool {
        self.runtime == runtime && self.target == *target
    }

    /// Whether both are for the same runtime and target.
    pub(super) fn is_for_the_same(&self, other: &Self) -> bool {
        self.serves(other.runtime, &other.target)
    }

    /// Tells all callers that wait for it to take another connection.
    pub(super) fn mark_replaced(&self) {
        // Only once: it is in the pool no more.
        let _ = self.replaced.set(());
    }

    /// The connection, as soon as it is open. `None` if it was [replaced](Self::mark_replaced) before.
    pub(super) async fn opened_unless_replaced(&self, connector: &C, keeper: &Keeper) -> Option<Outcome<C>> {
        if let Some(outcome) = self.outcome.get() {
            return Some(outcome.clone());
        }
        let (opened, replaced) = (pin!(self.opened(connector, keeper)), pin!(self.replaced.wait()));
        // All callers wait at the same place. Without the shield, the waker of one that panics would end the task that opens the
        // connection, and tokio would forget the others: they would sleep until the time limit.
        match shielded(pin!(select(opened, replaced))).await {
            Either::Left((outcome, _)) => Some(outcome),
            Either::Right(_) => None,
        }
    }

    /// The connection, as soon as it is open, or the failure at the time limit.
    async fn opened(&self, connector: &C, keeper: &Keeper) -> Outcome<C> {
        // The task has the same limit, but its runtime may be blocked.
        match keeper.timeout_at(self.open_by, self.outcome.wait()).await {
            Some(outcome) => outcome.clone(),
            None => Err(FailedAttempt { failure: connector.timed_out(&self.target), panicked: false }),
        }
    }
}

/// Opens the connection, and drives it until it ends.
async fn open_and_drive<C: Connector>(
    end_guard: EndGuard<C>,
    target: C::Target,
    keeper: Keeper,
    open_by: BootTime,
) {
    let connector = Arc::clone(&end_guard.connector);
    let opened = keeper.timeout_at(open_by, connector.open(&target, &keeper)).await;
    // A keeper that is kept alive by a task of its own would never end.
    drop(keeper);
    match opened.unwrap_or_else(|| Err(connector.timed_out(&target))) {
        Ok((connection, task)) => {
            end_guard.publish(Ok(connection));
            task.await;
        }
        Err(failure) => {
            connector.not_opened(&target, &failure);
            end_guard.publish(Err(FailedAttempt { failure, panicked: false }));
        }
    }
}

/// Closes the connection, however its task ends: aborted, with its runtime, in a panic.
struct EndGuard<C: Connector> {
    connection: Weak<PooledConnection<C>>,
    connector: Arc<C>,
    owner: Weak<dyn Owner<C>>,
}

impl<C: Connector> EndGuard<C> {
    fn publish(&self, outcome: Outcome<C>) {
        if let Some(connection) = self.connection.upgrade() {
            if outcome.is_err() {
                // First, so that a task that is woken by the failure does not find the connection again.
                connection.closed.store(true, Ordering::Release);
            }
            // Only the end of this task sets it as well.
            let _ = connection.outcome.set(outcome);
        }
    }
}

impl<C: Connector> Drop for EndGuard<C> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.upgrade() else { return };
        connection.closed.store(true, Ordering::Release);
        if let Some(opened) = connection.get() {
            self.connector.closed(opened);
        }
        let panicked = thread::panicking();
        if let Some(owner) = self.owner.upgrade() {
            // Tokio panics where a runtime was built without its drivers, and has no other way to tell.
            let without_io = panicked && !connection.outcome.initialized();
            owner.connection_ended(&connection, without_io);
        }
        let failure = if panicked {
            self.connector.failure(Kind::Panicked, "opening a connection panicked")
        } else {
            let message = "the runtime that opened the connection was shut down";
            self.connector.failure(Kind::Unreachable, message)
        };
        // If it is set already, no task waits for it.
        let _ = connection.outcome.set(Err(FailedAttempt { failure, panicked }));
    }
}

impl<C: Connector> Drop for PooledConnection<C> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<C: Connector> fmt::Debug for PooledConnection<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledConnection")
            .field("runtime", &self.runtime)
            .field("target", &self.target)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
