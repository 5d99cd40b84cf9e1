//! [`ReconnectingClient`]: a client of ZooKeeper for one connection. The next one of its session is another client.

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

/// A connection to the ensemble, and the requests on it. When it breaks, another one takes its place, with a client of the same session.
///
/// The client of ZooKeeper would make one anew by itself, and is kept from it: it stands still from when its connection breaks. For it
/// does not tell how long a timeout the next server gives the session, and the ensemble goes by that; it waits before each new round of
/// tries, each time twice as long; and where all that it watches is more than 128 KB, it says so in two requests of one number, and is
/// cut off for that each time. To drop it would be wrong, too: it would connect once more, and close the session.
///
/// ### To ensure correctness
/// What was asked of a client before its connection broke may have been carried out. What is asked of it later waits for the next one,
/// and goes there; but for what depends on the order of requests, which is [`NEVER_SENT`] then. The client would take it, too, and
/// keep it: then nobody could tell, when it is replaced, that it was not sent. Watches end with [`EventType::Session`] when the client
/// is replaced: then it is for others to look.
///
/// To drop the last of it closes the session, unless it was replaced.
pub(crate) struct ReconnectingClient {
    client: Client,
    state: Arc<watch::Sender<State>>,
}

type State = ClientState<ReconnectingClient>;

/// A one-shot watch.
pub(crate) struct Watcher {
    watcher: OneshotWatcher,
    pending: PendingRequest,
}

impl ReconnectingClient {
    /// Opens a session, or attaches to one. Its tasks run where this is polled, which has to be on a runtime of tokio's.
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

    /// Nobody needs its session any more: it closes that. Whoever waits for a connection is told so. What was replaced stays so.
    pub(crate) fn close(&self) {
        self.state.send_if_modified(|state| {
            let goes_on = !matches!(state, State::Replaced(_) | State::Closed);
            if goes_on {
                *state = State::Closed;
            }
            goes_on
        });
    }

    /// Another one has its session. Whoever waits for this one is told so.
    pub(crate) fn mark_replaced_by(&self, other: &Arc<Self>) {
        self.state.send_replace(State::Replaced(Arc::downgrade(other)));
    }

    /// Nobody needs it, and its session is to live on.
    pub(crate) fn detach(&self) {
        self.state.send_replace(State::Replaced(Weak::new()));
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.state() == SessionState::SyncConnected
    }

    /// This one, or the one that takes its place if it has no connection.
    pub(crate) async fn ready(self: Arc<Self>) -> ClientResult<Arc<Self>> {
        let Err(deferred) = self.begin_request() else { return Ok(self) };
        // Whoever only waits does not keep its session from being closed.
        drop(self);
        deferred.next_client().await
    }

    /// Tells of the end of its connection, and of its session, from now on.
    pub(crate) fn states(&self) -> StateWatcher {
        self.client.state_watcher()
    }

    pub(crate) fn session(&self) -> &SessionInfo {
        self.client.session()
    }

    pub(crate) fn session_timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    /// Not to be sent later: nothing is created behind whoever leaves.
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

    /// Not to be sent later: what is sent behind it has to be carried out behind it.
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

    /// The children that there are when all that was sent before is decided, or later: they are asked for behind a sync, whichever client
    /// asks.
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

    /// For a request: right now, or on the next connection.
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
    /// Ready when the node was changed, or when nobody watches it any more.
    pub(crate) async fn changed(self) -> EventType {
        let Self { watcher, mut pending } = self;
        select! {
            biased;
            event = watcher.changed() => event.event_type,
            () = pending.replaced() => EventType::Session,
        }
    }
}

/// What was asked of a client. While it is there, that client is not dropped.
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

    /// Ready when the client was replaced.
    async fn replaced(&mut self) {
        if self.0.wait_for(|state| matches!(state, State::Replaced(_))).await.is_err() {
            // Its tasks have ended, and have told everybody of that.
            std::future::pending::<()>().await;
        }
    }
}

/// What is not asked of a client that has no connection.
struct DeferredRequest(watch::Receiver<State>);

impl DeferredRequest {
    /// The client that took its place.
    async fn next_client(mut self) -> ClientResult<Arc<ReconnectingClient>> {
        let decided = |state: &State| matches!(state, State::Replaced(_) | State::Closed);
        let next = match self.0.wait_for(decided).await.as_deref() {
            Ok(State::Replaced(other)) => other.upgrade(),
            _ => None,
        };
        // Without one, the session is over.
        next.ok_or(NEVER_SENT)
    }

    async fn never_sent<T>(self) -> ClientResult<T> {
        self.next_client().await.and(Err(NEVER_SENT))
    }
}
