//! [`Link`]: requests and their answers.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use lock_core::{BackendError, BackendErrorKind};
use tokio::{
    runtime::{Builder, Runtime},
    time::sleep,
};
use tokio_postgres::{
    Config, Row,
    row::RowIndex,
    types::{FromSql, ToSql, Type},
};

use crate::{
    error::{self, STORE, ends_connection, is_missing, not_ours, timed_out},
    session::Sessions,
};

/// How long the server may take to answer, and as long again if a connection has to be opened first.
pub(crate) const LIMIT: Duration = Duration::from_secs(2);

/// A value that goes into a statement.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// One pipelined connection at a time, for requests and for hints, opened when it is needed.
///
/// It is driven by a thread of its own. Neither a user's runtime that is blocked or has ended can touch it, nor a keeper that
/// was stopped: what a client still asks is answered.
pub(crate) struct Link {
    /// There until it is dropped.
    runtime: Option<Runtime>,
    pub(crate) sessions: Arc<Sessions>,
}

impl Link {
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
    /// As [`rows`](Self::rows) has.
    pub(crate) async fn row(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
        doubt: Duration,
    ) -> Result<Row, BackendError> {
        self.rows(statement, parameters, doubt).await?.pop().ok_or_else(|| not_ours("no row"))
    }

    /// Sends a statement, which is a transaction of its own, and waits for its answer. Without one after `doubt`, the
    /// connection gets no more requests: it may have died in silence. The answer still counts if it comes.
    ///
    /// # Errors
    /// What went wrong. Unless it is unsent, the statement may have been carried out.
    pub(crate) async fn rows(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
        doubt: Duration,
    ) -> Result<Vec<Row>, BackendError> {
        let mut made_anew = false;
        loop {
            let session = self.sessions.current(self.runtime());
            let client = session.client().await?;
            let mut answer = pin!(client.query_typed(statement, parameters));
            let (doubt, end) = (self.pause(doubt.min(LIMIT)), self.pause(LIMIT));
            let answered = tokio::select! {
                answer = &mut answer => Some(answer),
                () = doubt => None,
            };
            let answered = match answered {
                None => {
                    self.sessions.retire(&session);
                    let late = tokio::select! { answer = &mut answer => Some(answer), () = end => None };
                    if late.as_ref().is_some_and(Result::is_ok) {
                        self.sessions.take_back(&session);
                    }
                    late
                }
                some => some,
            };
            match answered {
                Some(Ok(rows)) => return Ok(rows),
                Some(Err(error)) => {
                    // Before the caller can ask again, and meet it once more.
                    if ends_connection(&error) || is_missing(&error) {
                        self.sessions.retire(&session);
                    }
                    if made_anew || !is_missing(&error) {
                        return Err(error::of(error));
                    }
                    // Somebody has dropped the schema. The next connection makes it anew.
                    made_anew = true;
                }
                None => return Err(timed_out("a request", LIMIT)),
            }
        }
    }

    /// On our own timers: the caller may have none.
    fn pause(&self, duration: Duration) -> tokio::time::Sleep {
        let _entered = self.runtime().enter();
        sleep(duration)
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken only when this is dropped")
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // It may be dropped on a runtime, which must not wait for another.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A value of an answer.
///
/// # Errors
/// If it is not there, or of another type.
pub(crate) fn field<'a, T: FromSql<'a>>(
    row: &'a Row,
    column: impl RowIndex + fmt::Display,
) -> Result<T, BackendError> {
    row.try_get(&column).map_err(error::of)
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}
