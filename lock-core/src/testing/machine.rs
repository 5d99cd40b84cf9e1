//! [`Machine`]: where the tasks of one client run, so that they can be stopped, or ended, all at once.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tokio::{
    runtime::Handle,
    task::{AbortHandle, JoinHandle},
};

use crate::sync::Mutex;

/// The tasks of one simulated client, its keeper's among them, on the runtime of the simulation.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    runtime: Handle,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    blocked: bool,
    crashed: bool,
    /// The tasks that were polled while it was blocked.
    parked: Vec<Waker>,
    tasks: Vec<AbortHandle>,
    /// How many tasks there may be before those that have ended are forgotten.
    sweep_at: usize,
}

impl Machine {
    /// A machine on the runtime that this is called on.
    pub(crate) fn new() -> Self {
        Self { runtime: Handle::current(), state: Arc::default() }
    }

    /// Runs a future as a task of this machine. On one that has crashed it is dropped.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let state = Arc::clone(&self.state);
        let task = self.runtime.spawn(Running { state, future: Box::pin(future) });
        let mut state = self.state.lock();
        if state.crashed {
            task.abort();
        } else {
            if state.tasks.len() >= state.sweep_at {
                state.tasks.retain(|task| !task.is_finished());
                state.sweep_at = (2 * state.tasks.len()).max(64);
            }
            state.tasks.push(task.abort_handle());
        }
        task
    }

    /// No task runs until [`unblock`](Self::unblock).
    pub(crate) fn block(&self) {
        self.state.lock().blocked = true;
    }

    pub(crate) fn unblock(&self) {
        let mut state = self.state.lock();
        state.blocked = false;
        let parked = std::mem::take(&mut state.parked);
        drop(state);
        parked.into_iter().for_each(Waker::wake);
    }

    /// Ends all tasks where they stand, and all that are still to come.
    pub(crate) fn crash(&self) {
        let mut state = self.state.lock();
        state.crashed = true;
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        tasks.iter().for_each(AbortHandle::abort);
    }
}

/// A task that stands still while its machine does.
struct Running<F> {
    state: Arc<Mutex<State>>,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Running<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut state = self.state.lock();
        if state.blocked {
            state.parked.push(cx.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        self.future.as_mut().poll(cx)
    }
}
