//! [`Tasks`]: what a client of ZooKeeper is made of, run by us.

use std::{
    future::{Future, poll_fn},
    mem,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
};

use futures_util::{
    FutureExt,
    future::{JoinAll, join_all},
};
use spawns_core::{Spawn, Task};
use tokio::{select, sync::watch};
use zookeeper_client::{SessionState, StateWatcher};

use super::Stage;

pub(super) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The tasks of a client, caught where it spawns them.
#[derive(Default)]
pub(super) struct Tasks(Mutex<Vec<Work>>);

impl Tasks {
    pub(super) fn take(&self) -> Vec<Work> {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Spawn for Tasks {
    fn spawn(&self, task: Task) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::into_pin(task.future));
    }
}

/// Runs what a client is made of, unless it is to stand still: as it does from when its connection breaks, which its states tell.
pub(super) async fn drive(work: Vec<Work>, stage: Arc<watch::Sender<Stage>>, states: StateWatcher) {
    let mut work = join_all(work);
    let mut told = stage.subscribe();
    loop {
        let now = told.borrow_and_update().clone();
        match now {
            Stage::Runs => select! {
                biased;
                _ = told.changed() => {}
                is_over = runs(&mut work, &states) => {
                    if is_over {
                        return;
                    }
                    rests(&stage);
                }
            },
            Stage::Ended => select! {
                biased;
                _ = told.changed() => {}
                _ = &mut work => return,
            },
            // Whoever could change it is there: we are.
            Stage::Rests => drop(told.changed().await),
            Stage::Replaced(_) => break,
        }
    }
    drop(told);
    // It wakes those who wait for it by its end, and panics where they wait for an event: so they go first.
    stage.closed().await;
}

/// Runs it until it is over, or its connection has broken: it has begun to make another one by then, and has said nothing on that.
async fn runs(work: &mut JoinAll<Work>, states: &StateWatcher) -> bool {
    poll_fn(|cx| match work.poll_unpin(cx) {
        Poll::Ready(_) => Poll::Ready(true),
        Poll::Pending if states.peek_state() == SessionState::Disconnected => Poll::Ready(false),
        Poll::Pending => Poll::Pending,
    })
    .await
}

fn rests(stage: &watch::Sender<Stage>) {
    stage.send_if_modified(|stage| {
        let runs = matches!(stage, Stage::Runs);
        if runs {
            *stage = Stage::Rests;
        }
        runs
    });
}
