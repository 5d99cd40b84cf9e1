//! [`Gate`]: blocks tasks until it is opened.

use std::sync::Arc;

use tokio::sync::watch;

/// A gate that starts closed, and stays open once opened. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<State>);

#[derive(Debug)]
struct State {
    open: watch::Sender<bool>,
    waiting: watch::Sender<usize>,
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(State { open: watch::Sender::new(false), waiting: watch::Sender::new(0) }))
    }

    /// Opens it for good.
    pub fn open(&self) {
        self.0.open.send_replace(true);
    }

    /// Waits until the gate is open.
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub async fn pass(&self) {
        self.0.waiting.send_modify(|waiting| *waiting += 1);
        // The sender lives in `self`, so that there is always an answer.
        let _ = self.0.open.subscribe().wait_for(|open| *open).await;
    }

    /// Waits until a task has arrived at the gate.
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub async fn reached(&self) {
        let _ = self.0.waiting.subscribe().wait_for(|waiting| *waiting > 0).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}
