//! [`Tasks`]: what a client of ZooKeeper is made of, run by us.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::future::join_all;
use spawns_core::{Spawn, Task};
use tokio::{select, sync::watch};

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

/// Runs what a client is made of, unless it is to stand still.
pub(super) async fn drive(work: Vec<Work>, stage: Arc<watch::Sender<Stage>>) {
    let mut work = join_all(work);
    let mut stages = stage.subscribe();
    loop {
        let now = stages.borrow_and_update().clone();
        match now {
            Stage::Runs | Stage::Away | Stage::Ended => select! {
                biased;
                _ = stages.changed() => {}
                _ = &mut work => return,
            },
            // Whoever could change it is there: we are.
            Stage::Rests => drop(stages.changed().await),
            Stage::Replaced(_) => break,
        }
    }
    drop(stages);
    // It wakes those who wait for it by its end, and panics where they wait for an event: so they go first.
    stage.closed().await;
}
