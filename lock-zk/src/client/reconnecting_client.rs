//! [`ReconnectingClient`]: a ZooKeeper client for one connection, which the client of the next connection replaces.

use std::{
    fmt,
    future::{Future, poll_fn},
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{
        Either::{Left, Right},
        join,
    },
};
use tokio::{select, sync::watch};
use zookeeper_client::{
    Acl, Client, Connector, CreateOptions, CreateSequence, Error, EventType, MultiWriter, OneshotWatcher,
    SessionInfo, SessionState, Stat, StateWatcher,
};

use super::driver::{ClientState, SpawnedTasks, drive};
use crate::error::NEVER_SENT;

type ClientResult<T> = Result<T, Error>;

/// A connection to the ensemble, and the requests on it. When it breaks, a new client of the same session replaces it.
///
/// The ZooKeeper client would reconnect by itself, but is suspended when its connection breaks, for three reasons. It does not report
/// which timeout the next server grants the session, and the ensemble uses that timeout. It waits before each round of attempts, each time
/// twice as long. And if the paths that it watches take more than 128 KB, it restores the watches in two requests with the same number,
/// and the server then ends the connection each time. Dropping it would be wrong as well: it would connect once more and close the
/// session.
///
/// ### To ensure correctness
/// A request that was made before the connection broke may have been carried out. A later request waits for the replacement and is sent
/// there, unless it depends on the order of requests: then it fails with [`NEVER_SENT`]. The suspended client would accept and keep such a
/// request, but when the client is replaced it would be unknown that the request was not sent. Watches end with [`EventType::Session`] when
/// the client is replaced; then their owners look again.
///
/// Dropping the last reference closes the session, unless the client was replaced.
pub(crate) struct ReconnectingClient {
    client: Client,
    state: Arc<watch::Sender<State>>,
}

type State = ClientState<ReconnectingClient>;

/// A watch, which fires once.
pub(crate) struct Watcher {
    watcher: OneshotWatcher,
    pending: PendingRequest,
}

impl ReconnectingClient {
    /// Opens a session, or attaches to one. This has to be polled on a tokio runtime, on which the client's tasks run from then on.
    pub(crate) async fn connect(connector: Connector, hosts: &str) -> ClientResult<Arc<Self>> {
        let tasks = SpawnedTasks::default();
        let mut connecting = Box::pin(connector.connect(hosts));
        let client = poll_fn(|cx| {
            let _scope = spawns_core::enter(&tasks);
            connecting.as_mut().poll(cx)
        });
        let client = client.await?;
        let state = Arc::new(watch::Sender::new(State::Running));
        drop(tokio::spawn(drive(tasks.take(), Arc::clone(&state), client.state_watcher())));
        Ok(Arc::new(Self { client, state }))
    }

    /// Closes its session. Requests that wait for a connection fail. Does nothing if the client was replaced.
    pub(crate) fn close(&self) {
        self.state.send_if_modified(|state| {
            let goes_on = !matches!(state, State::Replaced(_) | State::Closed);
            if goes_on {
                *state = State::Closed;
            }
            goes_on
        });
    }

    /// Marks that another client took over the session. Requests that wait continue there.
    pub(crate) fn mark_replaced_by(&self, other: &Arc<Self>) {
        self.state.send_replace(State::Replaced(Arc::downgrade(other)));
    }

    /// Marks that the client is not needed any more, but leaves its session open.
    pub(crate) fn detach(&self) {
        self.state.send_replace(State::Replaced(Weak::new()));
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.state() == SessionState::SyncConnected
    }

    /// This client, or the one that replaces it if its connection is lost.
    pub(crate) async fn ready(self: Arc<Self>) -> ClientResult<Arc<Self>> {
        let Err(deferred) = self.begin_request() else { return Ok(self) };
        // A waiting caller does not keep the session from being closed.
        drop(self);
        deferred.next_client().await
    }

    /// Reports the end of the connection, and of the session, from now on.
    pub(crate) fn states(&self) -> StateWatcher {
        self.client.state_watcher()
    }

    pub(crate) fn session(&self) -> &SessionInfo {
        self.client.session()
    }

    pub(crate) fn session_timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    /// This request is not sent on a later connection: no create may follow the removal of its entry.
    pub(crate) fn create<'a>(
        &'a self,
        path: &'a str,
        data: &[u8],
        options: &CreateOptions<'_>,
    ) -> impl Future<Output = ClientResult<(Stat, CreateSequence)>> + Send + use<'a> {
        match self.begin_request() {
            Ok(pending) => Left(pending.run(self.client.create(path, data, options))),
            Err(deferred) => Right(deferred.never_sent()),
        }
    }

    /// This request is not sent on a later connection: requests that are sent after it have to be carried out after it.
    pub(crate) fn set_data(
        &self,
        path: &str,
        data: &[u8],
    ) -> impl Future<Output = ClientResult<Stat>> + Send + use<> {
        match self.begin_request() {
            Ok(pending) => Left(pending.run(self.client.set_data(path, data, None))),
            Err(deferred) => Right(deferred.never_sent()),
        }
    }

    pub(crate) fn mkdir<'a>(
        &'a self,
        path: &'a str,
        options: &'a CreateOptions<'_>,
    ) -> impl Future<Output = ClientResult<()>> + Send {
        match self.begin_request() {
            Ok(pending) => Left(pending.run(self.client.mkdir(path, options))),
            Err(deferred) => Right(deferred.never_sent()),
        }
    }

    pub(crate) fn delete(&self, path: &str) -> impl Future<Output = ClientResult<()>> + Send + use<> {
        match self.begin_request() {
            Ok(pending) => Left(pending.run(self.client.delete(path, None))),
            Err(deferred) => {
                let path = path.to_owned();
                Right(async move { deferred.next_client().await?.delete(&path).await }.boxed())
            }
        }
    }

    pub(crate) fn get_data(
        &self,
        path: &str,
    ) -> impl Future<Output = ClientResult<(Vec<u8>, Stat)>> + Send + use<> {
        match self.begin_request() {
            Ok(pending) => Left(pending.run(self.client.get_data(path))),
            Err(deferred) => {
                let path = path.to_owned();
                Right(async move { deferred.next_client().await?.get_data(&path).await }.boxed())
            }
        }
    }

    pub(crate) fn get_and_watch_data<'a>(
        &'a self,
        path: &'a str,
    ) -> impl Future<Output = ClientResult<(Vec<u8>, Stat, Watcher)>> + Send + use<'a> {
        match self.begin_request() {
            Ok(pending) => {
                let (kept, answer) = (pending.clone(), self.client.get_and_watch_data(path));
                Left(kept.run(answer.map(|answer| {
                    answer.map(|(data, stat, watcher)| (data, stat, Watcher { watcher, pending }))
                })))
            }
            Err(deferred) => {
                let path = path.to_owned();
                Right(async move { deferred.next_client().await?.get_and_watch_data(&path).await }.boxed())
            }
        }
    }

    pub(crate) fn check_stat(
        &self,
        path: &str,
    ) -> impl Future<Output = ClientResult<Option<Stat>>> + Send + use<> {
        match self.begin_request() {
            Ok(pending) => Left(pending.run(self.client.check_stat(path))),
            Err(deferred) => {
                let path = path.to_owned();
                Right(async move { deferred.next_client().await?.check_stat(&path).await }.boxed())
            }
        }
    }

    pub(crate) fn get_acl<'a>(
        &'a self,
        path: &'a str,
    ) -> impl Future<Output = ClientResult<Vec<Acl>>> + Send + use<'a> {
        match self.begin_request() {
            Ok(pending) => {
                let answer = self.client.get_acl(path);
                Left(pending.run(answer.map(|answer| answer.map(|(acl, _)| acl))))
            }
            Err(deferred) => {
                let path = path.to_owned();
                Right(async move { deferred.next_client().await?.get_acl(&path).await }.boxed())
            }
        }
    }

    pub(crate) fn list_children<'a>(
        &'a self,
        path: &'a str,
    ) -> impl Future<Output = ClientResult<Vec<String>>> + Send + use<'a> {
        match self.begin_request() {
            Ok(pending) => Left(pending.run(self.client.list_children(path))),
            Err(deferred) => {
                let path = path.to_owned();
                Right(async move { deferred.next_client().await?.list_children(&path).await }.boxed())
            }
        }
    }

    /// Lists the children after all earlier requests have been decided. The list is sent after a sync, on the same connection as the sync.
    pub(crate) fn catch_up_and_list<'a>(
        &'a self,
        path: &'a str,
    ) -> impl Future<Output = ClientResult<Vec<String>>> + Send + use<'a> {
        match self.begin_request() {
            Ok(pending) => {
                let both = join(self.client.sync(path), self.client.list_children(path));
                Left(pending.run(both.map(|(synced, listed)| match synced {
                    Err(error) if error != Error::NoNode => Err(error),
                    _ => listed,
                })))
            }
            Err(deferred) => {
                let path = path.to_owned();
                Right(async move { deferred.next_client().await?.catch_up_and_list(&path).await }.boxed())
            }
        }
    }

    pub(crate) fn list_ephemerals<'a>(
        &'a self,
        path: &'a str,
    ) -> impl Future<Output = ClientResult<Vec<String>>> + Send + use<'a> {
        match self.begin_request() {
            Ok(pending) => Left(pending.run(self.client.list_ephemerals(path))),
            Err(deferred) => {
                let path = path.to_owned();
                Right(async move { deferred.next_client().await?.list_ephemerals(&path).await }.boxed())
            }
        }
    }

    pub(crate) fn sync<'a>(
        &'a self,
        path: &'a str,
    ) -> impl Future<Output = ClientResult<()>> + Send + use<'a> {
        match self.begin_request() {
            Ok(pending) => Left(pending.run(self.client.sync(path))),
            Err(deferred) => {
                let path = path.to_owned();
                Right(async move { deferred.next_client().await?.sync(&path).await }.boxed())
            }
        }
    }

    pub(crate) fn new_multi_writer(&self) -> MultiWriter<'_> {
        self.client.new_multi_writer()
    }

    /// Decides whether a request is sent now, or deferred to the next connection.
    fn begin_request(&self) -> Result<PendingRequest, DeferredRequest> {
        let state = self.state.subscribe();
        let runs = matches!(*state.borrow(), State::Running);
        let goes = runs && self.client.state() != SessionState::Disconnected;
        if goes { Ok(PendingRequest(state)) } else { Err(DeferredRequest(state)) }
    }
}

impl Drop for ReconnectingClient {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for ReconnectingClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReconnectingClient").field("session", self.client.session()).finish_non_exhaustive()
    }
}

impl Watcher {
    /// Waits until the node was changed or the watch ended.
    pub(crate) async fn changed(self) -> EventType {
        let Self { watcher, mut pending } = self;
        select! {
            biased;
            event = watcher.changed() => event.event_type,
            () = pending.replaced() => EventType::Session,
        }
    }
}

/// A request that was sent. While it exists, the tasks of its client are not dropped.
#[derive(Clone)]
struct PendingRequest(watch::Receiver<State>);

impl PendingRequest {
    async fn run<T>(mut self, answer: impl Future<Output = ClientResult<T>>) -> ClientResult<T> {
        select! {
            biased;
            answer = answer => answer,
            () = self.replaced() => Err(Error::ConnectionLoss),
        }
    }

    /// Waits until the client was replaced.
    async fn replaced(&mut self) {
        if self.0.wait_for(|state| matches!(state, State::Replaced(_))).await.is_err() {
            // The tasks have ended, and have answered all requests.
            std::future::pending::<()>().await;
        }
    }
}

/// A request that was not sent, because the client has no connection.
struct DeferredRequest(watch::Receiver<State>);

impl DeferredRequest {
    /// The client of the next connection.
    async fn next_client(mut self) -> ClientResult<Arc<ReconnectingClient>> {
        let decided = |state: &State| matches!(state, State::Replaced(_) | State::Closed);
        let next = match self.0.wait_for(decided).await.as_deref() {
            Ok(State::Replaced(other)) => other.upgrade(),
            _ => None,
        };
        // If there is no next client, the session has ended.
        next.ok_or(NEVER_SENT)
    }

    async fn never_sent<T>(self) -> ClientResult<T> {
        self.next_client().await.and(Err(NEVER_SENT))
    }
}
