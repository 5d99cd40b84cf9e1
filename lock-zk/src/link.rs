//! [`Link`]: a client of ZooKeeper for one connection. The next one of its session is another client.

mod tasks;

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

use self::tasks::{Tasks, drive};

type Answer<T> = Result<T, Error>;

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
pub(crate) struct Link {
    client: Client,
    stage: Arc<watch::Sender<Stage>>,
}

#[derive(Clone)]
enum Stage {
    /// It sends and receives, unless its connection broke a moment ago.
    Runs,
    /// It has no connection, does nothing, and does not come back. Whoever asks for something waits for the next one.
    Rests,
    /// There is another one for its session, or it is of no use.
    Replaced(Weak<Link>),
    /// Nobody needs its session any more. It closes that, and connects for it if need be.
    Ended,
}

/// A one-shot watch.
pub(crate) struct Watcher {
    watcher: OneshotWatcher,
    promise: Promise,
}

/// The error of a request that certainly was not and will not be sent: no client of ZooKeeper gives it in answer to one.
pub(crate) const NEVER_SENT: Error = Error::NoHosts;

impl Link {
    /// Opens a session, or attaches to one. Its tasks run where this is polled, which has to be on a runtime of tokio's.
    pub(crate) async fn connect(connector: Connector, hosts: &str) -> Answer<Arc<Self>> {
        let tasks = Tasks::default();
        let mut connecting = Box::pin(connector.connect(hosts));
        let client = poll_fn(|cx| {
            let _scope = spawns_core::enter(&tasks);
            connecting.as_mut().poll(cx)
        });
        let client = client.await?;
        let stage = Arc::new(watch::Sender::new(Stage::Runs));
        drop(tokio::spawn(drive(tasks.take(), Arc::clone(&stage), client.state_watcher())));
        Ok(Arc::new(Self { client, stage }))
    }

    /// Nobody needs its session any more: it closes that. Whoever waits for a connection is told so. What was replaced stays so.
    pub(crate) fn ends(&self) {
        self.stage.send_if_modified(|stage| {
            let goes_on = !matches!(stage, Stage::Replaced(_) | Stage::Ended);
            if goes_on {
                *stage = Stage::Ended;
            }
            goes_on
        });
    }

    /// Another one has its session. Whoever waits for this one is told so.
    pub(crate) fn is_replaced_by(&self, other: &Arc<Self>) {
        self.stage.send_replace(Stage::Replaced(Arc::downgrade(other)));
    }

    /// Nobody needs it, and its session is to live on.
    pub(crate) fn retire(&self) {
        self.stage.send_replace(Stage::Replaced(Weak::new()));
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.state() == SessionState::SyncConnected
    }

    /// This one, or the one that takes its place if it has no connection.
    pub(crate) async fn ready(self: Arc<Self>) -> Answer<Arc<Self>> {
        let Err(turn) = self.turn() else { return Ok(self) };
        // Whoever only waits does not keep its session from being closed.
        drop(self);
        turn.comes().await
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
    ) -> impl Future<Output = Answer<(Stat, CreateSequence)>> + Send + use<'a> {
        match self.turn() {
            Ok(promise) => Left(promise.keep(self.client.create(path, data, options))),
            Err(turn) => Right(turn.missed()),
        }
    }

    /// Not to be sent later: what is sent behind it has to be carried out behind it.
    pub(crate) fn set_data(
        &self,
        path: &str,
        data: &[u8],
    ) -> impl Future<Output = Answer<Stat>> + Send + use<> {
        match self.turn() {
            Ok(promise) => Left(promise.keep(self.client.set_data(path, data, None))),
            Err(turn) => Right(turn.missed()),
        }
    }

    pub(crate) fn mkdir<'a>(
        &'a self,
        path: &'a str,
        options: &'a CreateOptions<'_>,
    ) -> impl Future<Output = Answer<()>> + Send {
        match self.turn() {
            Ok(promise) => Left(promise.keep(self.client.mkdir(path, options))),
            Err(turn) => Right(turn.missed()),
        }
    }

    pub(crate) fn delete(&self, path: &str) -> impl Future<Output = Answer<()>> + Send + use<> {
        match self.turn() {
            Ok(promise) => Left(promise.keep(self.client.delete(path, None))),
            Err(turn) => {
                let path = path.to_owned();
                Right(async move { turn.comes().await?.delete(&path).await }.boxed())
            }
        }
    }

    pub(crate) fn get_data(
        &self,
        path: &str,
    ) -> impl Future<Output = Answer<(Vec<u8>, Stat)>> + Send + use<> {
        match self.turn() {
            Ok(promise) => Left(promise.keep(self.client.get_data(path))),
            Err(turn) => {
                let path = path.to_owned();
                Right(async move { turn.comes().await?.get_data(&path).await }.boxed())
            }
        }
    }

    pub(crate) fn get_and_watch_data<'a>(
        &'a self,
        path: &'a str,
    ) -> impl Future<Output = Answer<(Vec<u8>, Stat, Watcher)>> + Send + use<'a> {
        match self.turn() {
            Ok(promise) => {
                let (kept, answer) = (promise.clone(), self.client.get_and_watch_data(path));
                Left(kept.keep(answer.map(|answer| {
                    answer.map(|(data, stat, watcher)| (data, stat, Watcher { watcher, promise }))
                })))
            }
            Err(turn) => {
                let path = path.to_owned();
                Right(async move { turn.comes().await?.get_and_watch_data(&path).await }.boxed())
            }
        }
    }

    pub(crate) fn check_stat(&self, path: &str) -> impl Future<Output = Answer<Option<Stat>>> + Send + use<> {
        match self.turn() {
            Ok(promise) => Left(promise.keep(self.client.check_stat(path))),
            Err(turn) => {
                let path = path.to_owned();
                Right(async move { turn.comes().await?.check_stat(&path).await }.boxed())
            }
        }
    }

    pub(crate) fn get_acl<'a>(
        &'a self,
        path: &'a str,
    ) -> impl Future<Output = Answer<Vec<Acl>>> + Send + use<'a> {
        match self.turn() {
            Ok(promise) => {
                let answer = self.client.get_acl(path);
                Left(promise.keep(answer.map(|answer| answer.map(|(acl, _)| acl))))
            }
            Err(turn) => {
                let path = path.to_owned();
                Right(async move { turn.comes().await?.get_acl(&path).await }.boxed())
            }
        }
    }

    pub(crate) fn list_children<'a>(
        &'a self,
        path: &'a str,
    ) -> impl Future<Output = Answer<Vec<String>>> + Send + use<'a> {
        match self.turn() {
            Ok(promise) => Left(promise.keep(self.client.list_children(path))),
            Err(turn) => {
                let path = path.to_owned();
                Right(async move { turn.comes().await?.list_children(&path).await }.boxed())
            }
        }
    }

    /// The children that there are when all that was sent before is decided, or later: they are asked for behind a sync, whichever client
    /// asks.
    pub(crate) fn catch_up_and_list<'a>(
        &'a self,
        path: &'a str,
    ) -> impl Future<Output = Answer<Vec<String>>> + Send + use<'a> {
        match self.turn() {
            Ok(promise) => {
                let both = join(self.client.sync(path), self.client.list_children(path));
                Left(promise.keep(both.map(|(synced, listed)| match synced {
                    Err(error) if error != Error::NoNode => Err(error),
                    _ => listed,
                })))
            }
            Err(turn) => {
                let path = path.to_owned();
                Right(async move { turn.comes().await?.catch_up_and_list(&path).await }.boxed())
            }
        }
    }

    pub(crate) fn list_ephemerals<'a>(
        &'a self,
        path: &'a str,
    ) -> impl Future<Output = Answer<Vec<String>>> + Send + use<'a> {
        match self.turn() {
            Ok(promise) => Left(promise.keep(self.client.list_ephemerals(path))),
            Err(turn) => {
                let path = path.to_owned();
                Right(async move { turn.comes().await?.list_ephemerals(&path).await }.boxed())
            }
        }
    }

    pub(crate) fn sync<'a>(&'a self, path: &'a str) -> impl Future<Output = Answer<()>> + Send + use<'a> {
        match self.turn() {
            Ok(promise) => Left(promise.keep(self.client.sync(path))),
            Err(turn) => {
                let path = path.to_owned();
                Right(async move { turn.comes().await?.sync(&path).await }.boxed())
            }
        }
    }

    pub(crate) fn new_multi_writer(&self) -> MultiWriter<'_> {
        self.client.new_multi_writer()
    }

    /// For a request: right now, or on the next connection.
    fn turn(&self) -> Result<Promise, Turn> {
        let stage = self.stage.subscribe();
        let runs = matches!(*stage.borrow(), Stage::Runs);
        let goes = runs && self.client.state() != SessionState::Disconnected;
        if goes { Ok(Promise(stage)) } else { Err(Turn(stage)) }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.ends();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("session", self.client.session()).finish_non_exhaustive()
    }
}

impl Watcher {
    /// Ready when the node was changed, or when nobody watches it any more.
    pub(crate) async fn changed(self) -> EventType {
        let Self { watcher, mut promise } = self;
        select! {
            biased;
            event = watcher.changed() => event.event_type,
            () = promise.is_broken() => EventType::Session,
        }
    }
}

/// What was asked of a client. While it is there, that client is not dropped.
#[derive(Clone)]
struct Promise(watch::Receiver<Stage>);

impl Promise {
    async fn keep<T>(mut self, answer: impl Future<Output = Answer<T>>) -> Answer<T> {
        select! {
            biased;
            answer = answer => answer,
            () = self.is_broken() => Err(Error::ConnectionLoss),
        }
    }

    /// Ready when the client was replaced.
    async fn is_broken(&mut self) {
        if self.0.wait_for(|stage| matches!(stage, Stage::Replaced(_))).await.is_err() {
            // Its tasks have ended, and have told everybody of that.
            std::future::pending::<()>().await;
        }
    }
}

/// What is not asked of a client that has no connection.
struct Turn(watch::Receiver<Stage>);

impl Turn {
    /// The client that took its place.
    async fn comes(mut self) -> Answer<Arc<Link>> {
        let decided = |stage: &Stage| matches!(stage, Stage::Replaced(_) | Stage::Ended);
        let next = match self.0.wait_for(decided).await.as_deref() {
            Ok(Stage::Replaced(other)) => other.upgrade(),
            _ => None,
        };
        // Without one, the session is over.
        next.ok_or(NEVER_SENT)
    }

    async fn missed<T>(self) -> Answer<T> {
        self.comes().await.and(Err(NEVER_SENT))
    }
}
