//! [`Session`]: one connection, from its opening to its end. [`Sessions`]: the current one.

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
use lock_core::{
    BackendError, BackendErrorKind, Entropy, FencingToken, Hint, Notifier, SystemEntropy, isolate,
    sync::Mutex,
};
use tokio::{
    runtime::Runtime,
    sync::SetOnce,
    time::{sleep, timeout},
};
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, NoTls, SimpleQueryMessage, Socket, config::Host,
    error::SqlState, tls::NoTlsStream,
};

use crate::error::{self, STORE, timed_out};

/// How long the server may take to answer, and as long again if a connection has to be opened first.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// How often the connection is checked while a waiter listens for hints, and how long the answer may take.
const PING_EVERY: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_millis(1500);

/// The pause before a connection is opened, in ms, by the number of failures before it. So a server that is away gets at most two attempts
/// a second, however many callers wait: they share the result.
const CONNECT_PAUSES: [u64; 6] = [0, 50, 100, 200, 400, 500];

/// How long creating the schema may take, or waiting for another client that creates it: dozens of statements, once.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(10);

/// The format of the schema, which is its comment. A schema of another format is left alone.
const FORMAT: &str = "distlock 1";
const SCHEMA: &str = include_str!("schema.sql");

/// The current connection, and what it shares with its successors.
pub(crate) struct Sessions {
    server: Config,
    /// Where it is, for messages.
    address: String,
    /// Quoted for statements.
    schema: String,
    /// Where hints for this client are sent.
    channel: String,
    notifier: Notifier,
    /// How many attempts to connect have failed in a row.
    failures: AtomicUsize,
    current: Mutex<Option<Arc<Session>>>,
}

/// A connection that is being opened, is open, or has ended. Dropping the last reference closes it.
pub(crate) struct Session {
    client: SetOnce<Result<Client, BackendError>>,
    task: AbortHandle,
}

impl Sessions {
    pub(crate) fn new(server: Config, schema: &str) -> Self {
        Self {
            address: address_of(&server),
            server,
            schema: format!("\"{}\"", schema.replace('"', "\"\"")),
            channel: format!("distlock_{:032x}", SystemEntropy.bits()),
            notifier: Notifier::default(),
            failures: AtomicUsize::new(0),
            current: Mutex::default(),
        }
    }

    /// Where waiters listen.
    pub(crate) fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    pub(crate) fn channel(&self) -> &str {
        &self.channel
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The current connection. If there is none, starts to open one.
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

    /// Sends no more requests on a connection. Those under way go on until they are answered or given up.
    pub(crate) fn retire(&self, session: &Arc<Session>) {
        let mut current = self.current.lock();
        if !current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            return;
        }
        let retired = current.take();
        drop(current);
        // Hints may be missed from now on: the waiters look again, and open the next connection. After a connection that never opened
        // they would all try again immediately, forever: so they are not told.
        if matches!(session.client.get(), Some(Ok(_))) {
            self.notifier.changed_for_all();
        }
        drop(retired);
    }

    /// Takes back a connection that was only slow, unless the next one is open already.
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
    /// The client that sends requests, as soon as the connection is open.
    ///
    /// # Errors
    /// Why it could not be opened.
    pub(crate) async fn client(&self) -> Result<&Client, BackendError> {
        self.client.wait().await.as_ref().map_err(|error| error.clone().unsent())
    }
}

/// Each server as `host:port`, or the folder of its socket.
fn address_of(server: &Config) -> String {
    let ports = server.get_ports();
    let port = |number: usize| ports.get(number).or(ports.first()).copied().unwrap_or(5432);
    let of = |(number, host): (usize, &Host)| match host {
        Host::Tcp(host) => format!("{host}:{}", port(number)),
        #[cfg(unix)]
        Host::Unix(folder) => folder.display().to_string(),
    };
    server.get_hosts().iter().enumerate().map(of).collect::<Vec<_>>().join(",")
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
        // PR14: hints that were sent before this connection listened are lost.
        shared.notifier.changed_for_all();
        ping(&end.session, &shared).await;
    };
    tokio::select! {
        () = work => {}
        () = read_notifications(connection, &end) => {}
    }
}

/// Opens a connection. The pause before it counts against the time limit.
async fn connect(shared: &Sessions) -> Result<(Client, Connection<Socket, NoTlsStream>), BackendError> {
    let failures = shared.failures.load(Ordering::Relaxed);
    let connecting = timeout(REQUEST_TIMEOUT, async {
        sleep(Duration::from_millis(CONNECT_PAUSES[failures.min(CONNECT_PAUSES.len() - 1)])).await;
        shared.server.connect(NoTls).await
    });
    let (address, limit) = (shared.address(), REQUEST_TIMEOUT);
    let connected = connecting.await.map_err(|_| timed_out(address, "opening a connection", limit));
    let connected =
        connected.and_then(|connected| connected.map_err(|error| error::from_postgres(address, error)));
    shared.failures.store(if connected.is_ok() { 0 } else { failures + 1 }, Ordering::Relaxed);
    connected
}

/// Sets up the connection: listens for hints, and creates the schema if it is missing.
async fn prepare(client: &Client, shared: &Sessions) -> Result<(), BackendError> {
    let Sessions { address, schema, channel, .. } = shared;
    // READ COMMITTED: a verb that waited for another has to see what that one did. lock_timeout: no verb waits long for a queue, because
    // no transaction waits for a client. No sequential and bitmap scans: deleted rows stay in their pages until the server vacuums, and only
    // a plain index scan marks them as dead; with any other plan each verb would read all rows of the last minute. No jit: where no index
    // fits, the plan counts as so expensive that it would be compiled, for longer than it runs.
    let statements = format!(
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED; SET lock_timeout = '1s';
         SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; SET search_path = {schema}; LISTEN {channel};
         SELECT obj_description(to_regnamespace('{}')::oid, 'pg_namespace')",
        schema.replace('\'', "''")
    );
    let said = timeout(REQUEST_TIMEOUT, client.simple_query(&statements));
    let said = said
        .await
        .map_err(|_| timed_out(address, "the first request", REQUEST_TIMEOUT))?
        .map_err(|error| error::from_postgres(address, error))?;
    let found = said.into_iter().find_map(|said| match said {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    match found.as_deref() {
        Some(FORMAT) => Ok(()),
        None => timeout(SCHEMA_TIMEOUT, create_schema(client, shared))
            .await
            .unwrap_or_else(|_| Err(timed_out(address, "making the schema", SCHEMA_TIMEOUT))),
        Some(other) => {
            let message = format!(
                "{address}: the schema {schema} has the format `{other}`, and this version of the library knows `{FORMAT}`; use the same \
                 version in all processes, or another schema"
            );
            Err(BackendError::new(STORE, BackendErrorKind::Unsupported, message))
        }
    }
}

/// Creates the schema. Clients that create the same schema do so one after the other; they do not wait for other schemas.
async fn create_schema(client: &Client, shared: &Sessions) -> Result<(), BackendError> {
    let Sessions { address, schema, .. } = shared;
    // Waiting for another client that creates it may take as long as creating it: on a busy machine that is longer than a verb.
    let make = format!(
        "BEGIN; SET LOCAL lock_timeout = {}; SELECT pg_advisory_xact_lock(hashtextextended('{}', 1));
         CREATE SCHEMA IF NOT EXISTS {schema}; {SCHEMA} COMMENT ON SCHEMA {schema} IS '{FORMAT}'; COMMIT",
        SCHEMA_TIMEOUT.as_millis(),
        schema.replace('\'', "''")
    );
    while let Err(error) = client.batch_execute(&make).await {
        // The schema was dropped after it was created and before anything was created in it: try again.
        if error.code() != Some(&SqlState::INVALID_SCHEMA_NAME) {
            return Err(error::from_postgres(address, error));
        }
        let undone = client.batch_execute("ROLLBACK").await;
        undone.map_err(|error| error::from_postgres(address, error))?;
    }
    Ok(())
}

/// Drives the connection, and passes on its notifications, until it ends.
async fn read_notifications(mut connection: Connection<Socket, NoTlsStream>, end: &SessionEnd) {
    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
        match message {
            Ok(AsyncMessage::Notification(said)) => end.shared.on_notification(said.payload()),
            Ok(_) => {}
            Err(error) => {
                isolate(|| tracing::debug!(%error, "the connection to postgres ended"));
                break;
            }
        }
    }
    // Before `connection` is dropped: then all requests under way fail, and their callers may ask again immediately.
    end.retire();
}

/// Removes expired entries once; then, while a waiter listens for hints, checks that the connection works.
async fn ping(session: &Weak<Session>, shared: &Sessions) {
    let mut request = "SELECT sweep()";
    loop {
        let Some(session) = session.upgrade() else { return };
        let Some(Ok(client)) = session.client.get() else { return };
        if timeout(PING_TIMEOUT, client.simple_query(request)).await.is_err() {
            // Requests under way may still be answered: the connection closes when nothing refers to it any more.
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

/// Retires the connection when its task ends, for whatever reason.
struct SessionEnd {
    session: Weak<Session>,
    shared: Arc<Sessions>,
}

impl SessionEnd {
    fn publish(&self, client: Result<Client, BackendError>) {
        let Some(session) = self.session.upgrade() else { return };
        if client.is_err() {
            // First, so that a caller that the failure wakes does not find this connection again.
            self.shared.retire(&session);
        }
        // Only `drop` sets it, too, and that comes later.
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
        // An error means that it is set already; then no task waits for it.
        let ended = BackendError::new(
            STORE,
            BackendErrorKind::Unreachable,
            format!("{}: the connection ended while it was opened", self.shared.address()),
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
