//! [`Client`]: requests and their answers.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use lock_core::{BackendError, BackendErrorKind};
use tokio::{
    runtime::{Builder, Runtime},
    time,
};
use tokio_postgres::{
    Config, Row,
    types::{ToSql, Type},
};

use crate::{
    error::{self, STORE, ends_connection, is_missing, timed_out, unexpected},
    session::{REQUEST_TIMEOUT, Sessions},
};

/// A parameter of a statement.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// One pipelined connection at a time, for requests and for hints, opened when it is needed.
///
/// A thread of its own drives it. So a request is answered even if the user's runtime is blocked or has ended, or the keeper was stopped.
pub(crate) struct Client {
    /// `None` only while this is dropped.
    runtime: Option<Runtime>,
    pub(crate) sessions: Arc<Sessions>,
}

impl Client {
    pub(crate) fn new(server: Config, schema: &str) -> Result<Self, BackendError> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("postgres-locks").enable_all().build();
        let runtime = runtime.map_err(|error| {
            let message = format!("its thread cannot be started: {error}");
            BackendError::new(STORE, BackendErrorKind::Unavailable, message).unsent()
        })?;
        Ok(Self { runtime: Some(runtime), sessions: Arc::new(Sessions::new(server, schema)) })
    }

    /// The one row that a statement answers with.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub(crate) async fn row(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
        suspect_after: Duration,
    ) -> Result<Row, BackendError> {
        self.rows(statement, parameters, suspect_after).await?.pop().ok_or_else(|| unexpected("no row"))
    }

    /// Sends a statement, which is a transaction of its own, and waits for its answer. If there is none after `suspect_after`, the
    /// connection gets no more requests: it may have died silently. A late answer still counts.
    ///
    /// # Errors
    /// What went wrong. Unless the error is `unsent`, the statement may have been carried out.
    pub(crate) async fn rows(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
        suspect_after: Duration,
    ) -> Result<Vec<Row>, BackendError> {
        let mut recreated = false;
        loop {
            let session = self.sessions.current(self.runtime());
            let client = session.client().await?;
            let mut answer = pin!(client.query_typed(statement, parameters));
            let (suspect_after, end) =
                (self.sleep(suspect_after.min(REQUEST_TIMEOUT)), self.sleep(REQUEST_TIMEOUT));
            let answered = tokio::select! {
                answer = &mut answer => Some(answer),
                () = suspect_after => None,
            };
            let answered = match answered {
                None => {
                    self.sessions.retire(&session);
                    let late = tokio::select! { answer = &mut answer => Some(answer), () = end => None };
                    if late.as_ref().is_some_and(Result::is_ok) {
                        self.sessions.reinstate(&session);
                    }
                    late
                }
                some => some,
            };
            match answered {
                Some(Ok(rows)) => return Ok(rows),
                Some(Err(error)) => {
                    // Before the error is returned: the caller may ask again immediately, and needs another connection.
                    if ends_connection(&error) || is_missing(&error) {
                        self.sessions.retire(&session);
                    }
                    if recreated || !is_missing(&error) {
                        return Err(error::from_postgres(self.sessions.address(), error));
                    }
                    // The schema was dropped. The next connection creates it again.
                    recreated = true;
                }
                None => return Err(timed_out(self.sessions.address(), "a request", REQUEST_TIMEOUT)),
            }
        }
    }

    /// Sleeps on the timers of our own runtime: the caller's may have none.
    fn sleep(&self, duration: Duration) -> time::Sleep {
        let _entered = self.runtime().enter();
        time::sleep(duration)
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken only when this is dropped")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // This may run on a thread of a runtime, which must not block until another runtime has ended.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}
