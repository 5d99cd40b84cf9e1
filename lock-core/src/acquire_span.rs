//! [`AcquireSpan`]: the span of one acquisition.

use tracing::field::{Empty, display};

use crate::{
    BootTime, Claim, EntryId, Error, Guard, Keeper, LockName,
    panic_isolation::isolate,
    telemetry::{TARGET, millis},
};

/// The span of one acquisition. Its drop records the outcome and how long it took, whatever ended the acquisition.
pub(crate) struct AcquireSpan<'a> {
    span: tracing::Span,
    keeper: &'a Keeper,
    started: BootTime,
    outcome: &'static str,
}

impl<'a> AcquireSpan<'a> {
    pub(crate) fn new(name: &LockName, claim: Claim, keeper: &'a Keeper, started: BootTime) -> Self {
        let span = tracing::info_span!(
            target: TARGET,
            "acquire",
            name = %name,
            kind = %claim.kind(),
            entry = Empty,
            token = Empty,
            outcome = Empty,
            waited_ms = Empty,
        );
        Self { span, keeper, started, outcome: "dropped" }
    }

    pub(crate) fn span(&self) -> &tracing::Span {
        &self.span
    }

    /// Records the entry of the acquisition in the store.
    pub(crate) fn entry(span: &tracing::Span, entry: EntryId) {
        isolate(|| {
            span.record("entry", display(entry));
        });
    }

    /// Sets the outcome: `refused` is that of a try that was not granted.
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
    }
}
