//! What a client of ZooKeeper is made of, run by us.

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
use parking_lot::Mutex;
use spawns_core::{Spawn, Task};
use tokio::{select, sync::watch};
use zookeeper_client::{SessionState, StateWatcher};

pub(super) type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The tasks of a client, caught where it spawns them.
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

/// What a client does. `C` is what may take its place.
pub(super) enum ClientState<C> {
    /// It sends and receives, unless its connection broke a moment ago.
    Running,
    /// It has no connection, does nothing, and does not come back. Whoever asks for something waits for the next one.
    Suspended,
    /// There is another one for its session, or it is of no use.
    Replaced(Weak<C>),
    /// Nobody needs its session any more. It closes that, and connects for it if need be.
    Closed,
}

// Derived, it would ask for a `C` that can be cloned.
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

/// Runs what a client is made of, unless it is to stand still: as it does from when its connection breaks, which its states tell.
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
            // Whoever could change it is there: we are.
            ClientState::Suspended => drop(told.changed().await),
            ClientState::Replaced(_) => break,
        }
    }
    drop(told);
    // It wakes those who wait for it by its end, and panics where they wait for an event: so they go first.
    state.closed().await;
}

/// Runs it until it is over, or its connection has broken: it has begun to make another one by then, and has said nothing on that.
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
