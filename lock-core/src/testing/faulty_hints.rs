//! [`FaultyHints`]: a stream of hints over a faulty network.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_core::Stream;
use tokio::time::{Instant, Sleep};

use super::{Faults, SeededEntropy};
use crate::{Hint, Hints};

/// Loses, delays and repeats hints, gives some that were for a former life, and ends too early.
pub(super) struct FaultyHints {
    inner: Option<Hints>,
    faults: Faults,
    entropy: SeededEntropy,
    /// What is to come, and the end of the stream, which is `None`.
    later: BTreeMap<(Instant, u64), Option<Hint>>,
    timer: Pin<Box<Sleep>>,
    _count: ListenerCount,
}

impl FaultyHints {
    pub(super) fn new(inner: Hints, faults: Faults, entropy: SeededEntropy, count: ListenerCount) -> Self {
        let timer = Box::pin(tokio::time::sleep(Duration::ZERO));
        Self { inner: Some(inner), faults, entropy, later: BTreeMap::new(), timer, _count: count }
    }

    /// Gives a hint after a while that the store never sent to this entry in this life.
    pub(super) fn add_stale(&mut self, hint: Hint) {
        let after = self.entropy.up_to(self.faults.late);
        self.put(after, Some(hint));
    }

    /// Ends the stream after a while, whatever is still to come.
    pub(super) fn break_off(&mut self) {
        let after = self.entropy.up_to(self.faults.late);
        self.put(after, None);
    }

    fn put(&mut self, after: Duration, hint: Option<Hint>) {
        let order = self.later.len() as u64 + self.entropy.next() / 2;
        self.later.insert((Instant::now() + after, order), hint);
    }

    /// Takes what came from the store; what is to come at once is given back.
    fn take(&mut self, hint: Hint) -> Option<Hint> {
        let [first, second] = self.faults.deliveries(&self.entropy);
        for after in [first, second].into_iter().flatten().filter(|after| !after.is_zero()) {
            self.put(after, Some(hint));
        }
        first.filter(Duration::is_zero).map(|_| hint)
    }
}

impl Stream for FaultyHints {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Hint>> {
        while let Some(inner) = &mut self.inner {
            match inner.as_mut().poll_next(cx) {
                Poll::Ready(Some(hint)) => {
                    if let Some(hint) = self.take(hint) {
                        return Poll::Ready(Some(hint));
                    }
                }
                Poll::Ready(None) => self.inner = None,
                Poll::Pending => break,
            }
        }
        while let Some(entry) = self.later.first_entry() {
            let (due, _) = *entry.key();
            if due <= Instant::now() {
                let hint = entry.remove();
                if hint.is_none() {
                    self.inner = None;
                    self.later.clear();
                }
                return Poll::Ready(hint);
            }
            self.timer.as_mut().reset(due);
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        if self.inner.is_some() { Poll::Pending } else { Poll::Ready(None) }
    }
}

/// Counts the streams that are listened to.
#[derive(Debug)]
pub(super) struct ListenerCount(Arc<AtomicUsize>);

impl ListenerCount {
    pub(super) fn new(listening: &Arc<AtomicUsize>) -> Self {
        listening.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(listening))
    }
}

impl Drop for ListenerCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
