//! [`AcquireSpan`]: the span of one acquisition.

use tracing::{
    Span,
    field::{Empty, display},
    span::Entered,
};

use crate::{
    BootTime, Claim, EntryId, Error, Guard, Keeper, LockName,
    panic_isolation::isolate,
    telemetry::{TARGET, millis},
};

/// The span of one acquisition. Its drop records the outcome and how long it took, whatever ended the acquisition. Each call into the
/// user's subscriber is isolated: if it panics, the trace is incomplete.
pub(crate) struct AcquireSpan<'a> {
    span: Span,
    keeper: &'a Keeper,
    started: BootTime,
    outcome: &'static str,
}

impl<'a> AcquireSpan<'a> {
    pub(crate) fn new(name: &LockName, claim: Claim, keeper: &'a Keeper, started: BootTime) -> Self {
        let mut span = Span::none();
        isolate(|| {
            span = tracing::info_span!(
                target: TARGET,
                "acquire",
                name = %name,
                kind = %claim.kind(),
                entry = Empty,
                token = Empty,
                outcome = Empty,
                waited_ms = Empty,
            );
        });
        Self { span, keeper, started, outcome: "dropped" }
    }

    /// Makes this the current span of the thread, until the value is dropped.
    pub(crate) fn enter(&self) -> EnteredSpan<'_> {
        let mut entered = None;
        isolate(|| entered = Some(self.span.enter()));
        EnteredSpan(entered)
    }

    /// Records the entry of the acquisition in the store.
    pub(crate) fn entry(&self, entry: EntryId) {
        isolate(|| {
            self.span.record("entry", display(entry));
        });
    }

    /// Sets the outcome. `refused` is the outcome of a try that was not granted.
    pub(crate) fn end(mut self, ended: &Result<Option<Guard>, Error>, refused: &'static str) {
        self.outcome = match ended {
            Ok(Some(guard)) => {
                isolate(|| {
                    self.span.record("token", guard.token().get());
                });
                "granted"
            }
            Ok(None) => refused,
            Err(Error::WaitTimeout { .. }) => "timed out",
            Err(Error::Closed { .. }) => "closed",
            Err(_) => "failed",
        };
    }
}

impl Drop for AcquireSpan<'_> {
    fn drop(&mut self) {
        let waited_ms = millis(self.keeper.now().since(self.started));
        isolate(|| {
            self.span.record("outcome", display(self.outcome));
            self.span.record("waited_ms", waited_ms);
        });
        // By itself, because a second panic while the first one unwinds would abort the process.
        let span = std::mem::replace(&mut self.span, Span::none());
        isolate(|| drop(span));
    }
}

/// A span that is the current one of the thread, until this is dropped.
pub(crate) struct EnteredSpan<'a>(Option<Entered<'a>>);

impl Drop for EnteredSpan<'_> {
    fn drop(&mut self) {
        let entered = self.0.take();
        isolate(|| drop(entered));
    }
}
