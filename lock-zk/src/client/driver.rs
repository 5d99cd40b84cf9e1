//! Runs the tasks of a ZooKeeper client.

use std::{
    future::{Future, poll_fn},
    mem,
    pin::Pin,
    sync::{Arc, Weak},
    task::Poll,
};

use futures_util::{
    FutureExt,
    future::{JoinAll, join_all},
};
use lock_core::sync::Mutex;
use spawns_core::{Spawn, Task};
use tokio::{select, sync::watch};
use zookeeper_client::{SessionState, StateWatcher};

pub(super) type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The tasks that a client spawns, collected instead of run.
#[derive(Default)]
pub(super) struct SpawnedTasks(Mutex<Vec<BoxedTask>>);

impl SpawnedTasks {
    pub(super) fn take(&self) -> Vec<BoxedTask> {
        mem::take(&mut self.0.lock())
    }
}

impl Spawn for SpawnedTasks {
    fn spawn(&self, task: Task) {
        self.0.lock().push(Box::into_pin(task.future));
    }
}

/// The state of a client. `C` is the type of the client that may replace it.
pub(super) enum ClientState<C> {
    /// It sends and receives, unless its connection broke a moment ago.
    Running,
    /// It lost its connection, is suspended, and does not connect again. Requests wait for its replacement.
    Suspended,
    /// Another client took over its session, or the client is unusable.
    Replaced(Weak<C>),
    /// Its session is not needed any more. It closes the session, and connects for that if necessary.
    Closed,
}

// A derived implementation would require `C: Clone`.
impl<C> Clone for ClientState<C> {
    fn clone(&self) -> Self {
        match self {
            Self::Running => Self::Running,
            Self::Suspended => Self::Suspended,
            Self::Replaced(next) => Self::Replaced(Weak::clone(next)),
            Self::Closed => Self::Closed,
        }
    }
}

/// Runs the tasks of a client until the client is suspended or ends. It is suspended when its connection breaks, which `states` reports.
pub(super) async fn drive<C: Send + Sync>(
    tasks: Vec<BoxedTask>,
    state: Arc<watch::Sender<ClientState<C>>>,
    states: StateWatcher,
) {
    let mut tasks = join_all(tasks);
    let mut told = state.subscribe();
    loop {
        let now = told.borrow_and_update().clone();
        match now {
            ClientState::Running => select! {
                biased;
                _ = told.changed() => {}
                is_over = run(&mut tasks, &states) => {
                    if is_over {
                        return;
                    }
                    suspend(&state);
                }
            },
            ClientState::Closed => select! {
                biased;
                _ = told.changed() => {}
                _ = &mut tasks => return,
            },
            // The sender exists, because this task has it.
            ClientState::Suspended => drop(told.changed().await),
            ClientState::Replaced(_) => break,
        }
    }
    drop(told);
    // Dropping the tasks wakes everything that waits for them, and panics if such a waiter waits for an event. So the waiters end first.
    state.closed().await;
}

/// Runs the tasks until they end (true) or the connection breaks (false). The client has begun to make another connection by then, but
/// has sent nothing on it.
async fn run(tasks: &mut JoinAll<BoxedTask>, states: &StateWatcher) -> bool {
    poll_fn(|cx| match tasks.poll_unpin(cx) {
        Poll::Ready(_) => Poll::Ready(true),
        Poll::Pending if states.peek_state() == SessionState::Disconnected => Poll::Ready(false),
        Poll::Pending => Poll::Pending,
    })
    .await
}

fn suspend<C>(state: &watch::Sender<ClientState<C>>) {
    state.send_if_modified(|state| {
        let runs = matches!(state, ClientState::Running);
        if runs {
            *state = ClientState::Suspended;
        }
        runs
    });
}
