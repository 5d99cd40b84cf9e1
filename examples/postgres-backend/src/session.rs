//! [`Session`]: one connection, from its opening to its end.

use std::{
    fmt,
    future::poll_fn,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::{AbortHandle, Abortable};
use lock_core::{BackendError, BackendErrorKind, Entropy, FencingToken, Hint, Switchboard, SystemEntropy};
use parking_lot::Mutex;
use tokio::{
    runtime::Runtime,
    sync::SetOnce,
    time::{sleep, timeout},
};
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, NoTls, SimpleQueryMessage, Socket, error::SqlState,
    tls::NoTlsStream,
};

use crate::error::{self, STORE, timed_out};

/// How long the server may take to answer, and as long again if a connection has to be opened first.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a connection is tried that somebody waits on for hints, and how long it may take to answer.
const PING_EVERY: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_millis(1500);

/// How long to wait before a connection is opened, in ms, after so many that could not be, and after more. So a server that is away is
/// asked twice in a second at the most, however many wait: they share what comes of it.
const CONNECT_PAUSES: [u64; 6] = [0, 50, 100, 200, 400, 500];

/// How long it may take to make the schema, or to wait for somebody else who makes it: dozens of statements, once in its life.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(10);

/// What stands in the schema. Another version of it is left alone.
const FORMAT: &str = "distlock 1";
const SCHEMA: &str = include_str!("schema.sql");

/// The connection that there is, and what all that come after each other share.
pub(crate) struct Sessions {
    server: Config,
    /// As it is written in statements.
    schema: String,
    /// Where hints for this client are sent.
    channel: String,
    notifier: Switchboard,
    /// So many connections in a row could not be opened.
    failures: AtomicUsize,
    current: Mutex<Option<Arc<Session>>>,
}

/// A connection that is being opened, is open, or is over. It ends when nobody has it any more.
pub(crate) struct Session {
    client: SetOnce<Result<Client, BackendError>>,
    task: AbortHandle,
}

impl Sessions {
    pub(crate) fn new(server: Config, schema: &str) -> Self {
        Self {
            server,
            schema: format!("\"{}\"", schema.replace('"', "\"\"")),
            channel: format!("distlock_{:032x}", SystemEntropy.bits()),
            notifier: Switchboard::default(),
            failures: AtomicUsize::new(0),
            current: Mutex::default(),
        }
    }

    /// Where waiters listen.
    pub(crate) fn notifier(&self) -> &Switchboard {
        &self.notifier
    }

    pub(crate) fn channel(&self) -> &str {
        &self.channel
    }

    /// The connection that there is, or one that is being opened from now on.
    pub(crate) fn current(self: &Arc<Self>, runtime: &Runtime) -> Arc<Session> {
        let mut current = self.current.lock();
        if let Some(session) = &*current {
            return Arc::clone(session);
        }
        let (task, registration) = AbortHandle::new_pair();
        let session = Arc::new(Session { client: SetOnce::new(), task });
        *current = Some(Arc::clone(&session));
        drop(current);
        let end = SessionEnd { session: Arc::downgrade(&session), shared: Arc::clone(self) };
        runtime.spawn(Abortable::new(run(end), registration));
        session
    }

    /// Gives a connection no more requests. It goes on until those that it has are answered or given up.
    pub(crate) fn retire(&self, session: &Arc<Session>) {
        let mut current = self.current.lock();
        if !current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            return;
        }
        let retired = current.take();
        drop(current);
        // Hints may be missed from now on: whoever waits opens the next connection. But nobody is told to hurry who could
        // not connect at all.
        if matches!(session.client.get(), Some(Ok(_))) {
            self.notifier.changed_for_all();
        }
        drop(retired);
    }

    /// It was only slow. If the next one is slow, too, and not open yet, nothing is better than this.
    pub(crate) fn reinstate(&self, session: &Arc<Session>) {
        let mut current = self.current.lock();
        if current.as_ref().is_none_or(|current| !current.client.initialized()) {
            let other = current.replace(Arc::clone(session));
            drop(current);
            drop(other);
        }
    }

    /// `ENTRY TOKEN` was admitted; `ENTRY` alone may have been lost.
    fn on_notification(&self, payload: &str) {
        let (entry, token) =
            payload.split_once(' ').map_or((payload, None), |(entry, token)| (entry, Some(token)));
        let Ok(entry) = entry.parse() else { return };
        match token.map(str::parse::<FencingToken>) {
            Some(Ok(token)) => self.notifier.send(entry, Hint::Admitted { token }),
            Some(Err(_)) => {}
            None => self.notifier.alarm(entry),
        }
    }
}

impl Session {
    /// What requests are sent by, as soon as it is open.
    ///
    /// # Errors
    /// Why it could not be opened.
    pub(crate) async fn client(&self) -> Result<&Client, BackendError> {
        self.client.wait().await.as_ref().map_err(|error| error.clone().unsent())
    }
}

/// Opens a connection, and drives it until it ends.
async fn run(end: SessionEnd) {
    let shared = Arc::clone(&end.shared);
    let (client, connection) = match connect(&shared).await {
        Ok(connected) => connected,
        Err(error) => return end.publish(Err(error)),
    };
    let work = async {
        match prepare(&client, &shared).await {
            Ok(()) => end.publish(Ok(client)),
            Err(error) => return end.publish(Err(error)),
        }
        // PR14: what was said before this connection listened was said to nobody.
        shared.notifier.changed_for_all();
        ping(&end.session, &shared).await;
    };
    tokio::select! {
        () = work => {}
        () = read_notifications(connection, &end) => {}
    }
}

/// The pause counts as a part of the opening, for which somebody waits.
async fn connect(shared: &Sessions) -> Result<(Client, Connection<Socket, NoTlsStream>), BackendError> {
    let failures = shared.failures.load(Ordering::Relaxed);
    let connecting = timeout(REQUEST_TIMEOUT, async {
        sleep(Duration::from_millis(CONNECT_PAUSES[failures.min(CONNECT_PAUSES.len() - 1)])).await;
        shared.server.connect(NoTls).await
    });
    let connected = connecting.await.map_err(|_| timed_out("opening a connection", REQUEST_TIMEOUT));
    let connected = connected.and_then(|connected| connected.map_err(error::from_postgres));
    shared.failures.store(if connected.is_ok() { 0 } else { failures + 1 }, Ordering::Relaxed);
    connected
}

/// Listens, and sees to it that what the verbs need is there.
async fn prepare(client: &Client, Sessions { schema, channel, .. }: &Sessions) -> Result<(), BackendError> {
    // A verb that waited for another has to see what that one did. And nobody is at a queue for long: a transaction never
    // waits for a client. What left a queue stays in its pages until the server tidies up, and only a plain walk along an
    // index marks it as gone: by any other plan each verb would look at all that were there within the last minute. Where
    // there is no index to walk along, the plan counts as so dear that it would be compiled, for longer than it runs.
    let statements = format!(
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED; SET lock_timeout = '1s';
         SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; SET search_path = {schema}; LISTEN {channel};
         SELECT obj_description(to_regnamespace('{}')::oid, 'pg_namespace')",
        schema.replace('\'', "''")
    );
    let said = timeout(REQUEST_TIMEOUT, client.simple_query(&statements));
    let said = said
        .await
        .map_err(|_| timed_out("the first request", REQUEST_TIMEOUT))?
        .map_err(error::from_postgres)?;
    let found = said.into_iter().find_map(|said| match said {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    match found.as_deref() {
        Some(FORMAT) => Ok(()),
        None => timeout(SCHEMA_TIMEOUT, create_schema(client, schema))
            .await
            .unwrap_or_else(|_| Err(timed_out("making the schema", SCHEMA_TIMEOUT))),
        Some(other) => {
            let message = format!(
                "the schema {schema} has the format `{other}`, and this version of the library knows `{FORMAT}`; use the same \
                 version in all processes, or another schema"
            );
            Err(BackendError::new(STORE, BackendErrorKind::Unsupported, message))
        }
    }
}

/// Makes what the verbs need. Clients that make the same schema do so one after the other, and others are not waited for.
async fn create_schema(client: &Client, schema: &str) -> Result<(), BackendError> {
    // Who is behind another one that makes it waits as long as it may: on a busy machine that takes more than a verb.
    let make = format!(
        "BEGIN; SET LOCAL lock_timeout = {}; SELECT pg_advisory_xact_lock(hashtextextended('{}', 1));
         CREATE SCHEMA IF NOT EXISTS {schema}; {SCHEMA} COMMENT ON SCHEMA {schema} IS '{FORMAT}'; COMMIT",
        SCHEMA_TIMEOUT.as_millis(),
        schema.replace('\'', "''")
    );
    while let Err(error) = client.batch_execute(&make).await {
        // It was there, and somebody dropped it before anything stood in it: now it is not there.
        if error.code() != Some(&SqlState::INVALID_SCHEMA_NAME) {
            return Err(error::from_postgres(error));
        }
        client.batch_execute("ROLLBACK").await.map_err(error::from_postgres)?;
    }
    Ok(())
}

/// Passes on what the server says unasked, until it says no more. Nothing goes over the connection but by this.
async fn read_notifications(mut connection: Connection<Socket, NoTlsStream>, end: &SessionEnd) {
    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
        match message {
            Ok(AsyncMessage::Notification(said)) => end.shared.on_notification(said.payload()),
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "the connection to postgres ended");
                break;
            }
        }
    }
    // While it is still there: with it, all who wait for an answer are told, and may ask again at once.
    end.retire();
}

/// Takes away the dead once; then, as long as somebody waits for hints, sees to it that they would come.
async fn ping(session: &Weak<Session>, shared: &Sessions) {
    let mut request = "SELECT sweep()";
    loop {
        let Some(session) = session.upgrade() else { return };
        let Some(Ok(client)) = session.client.get() else { return };
        if timeout(PING_TIMEOUT, client.simple_query(request)).await.is_err() {
            // What it was asked may still be answered: it is over when nobody has it any more.
            shared.retire(&session);
            drop(session);
            return std::future::pending().await;
        }
        drop(session);
        request = "";
        sleep(PING_EVERY).await;
        while shared.notifier.listeners() == 0 {
            sleep(PING_EVERY).await;
        }
    }
}

/// Says that a connection is over, however its task ends.
struct SessionEnd {
    session: Weak<Session>,
    shared: Arc<Sessions>,
}

impl SessionEnd {
    fn publish(&self, client: Result<Client, BackendError>) {
        let Some(session) = self.session.upgrade() else { return };
        if client.is_err() {
            // First, so that whoever is woken by the failure does not find it again.
            self.shared.retire(&session);
        }
        // The only other one to set it is the end of this task.
        let _ = session.client.set(client);
    }

    fn retire(&self) {
        if let Some(session) = self.session.upgrade() {
            self.shared.retire(&session);
        }
    }
}

impl Drop for SessionEnd {
    fn drop(&mut self) {
        self.retire();
        let Some(session) = self.session.upgrade() else { return };
        // Nobody waits for it if it is set.
        let ended = BackendError::new(
            STORE,
            BackendErrorKind::Unreachable,
            "the connection ended while it was opened",
        );
        let _ = session.client.set(Err(ended));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("schema", &self.schema).finish_non_exhaustive()
    }
}
