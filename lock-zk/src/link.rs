//! [`Link`]: a client of ZooKeeper that can be laid aside for another one of the same session.

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
    Client, Connector, CreateOptions, CreateSequence, Error, EventType, MultiWriter, OneshotWatcher,
    SessionInfo, SessionState, Stat, StateWatcher,
};

use self::tasks::{Tasks, drive};

type Answer<T> = Result<T, Error>;

/// A connection to the ensemble that is made anew when it breaks, and the requests on it.
///
/// The client of ZooKeeper waits before each new round of tries, each time twice as long, and cannot be told not to. So whoever is
/// without a connection for some time takes its place, with a client of the same session. Then the first one must not come back: a
/// session has one connection, and a server that sees a second one drops the first. To drop it would be wrong, too: it would
/// connect once more, and close the session. So it stands still, from when another one attaches.
///
/// ### To ensure correctness
/// What was asked of a client before it was away may have been carried out. What is asked of it later, from when its connection broke,
/// waits for it to be back, or for the next one, and goes there; but for what depends on the order of requests, which is
/// [`NEVER_SENT`] then. The client would take it, too, and keep it: then nobody could tell, when it is replaced, that it was not sent.
/// Watches end with [`EventType::Session`] when the client is replaced: then it is for others to look.
///
/// To drop the last of it closes the session, unless it was replaced.
pub(crate) struct Link {
    this: Weak<Self>,
    client: Client,
    stage: Arc<watch::Sender<Stage>>,
}

#[derive(Clone)]
enum Stage {
    /// It sends, receives and connects.
    Runs,
    /// It connects, and may not come back. Whoever asks for something waits.
    Away,
    /// It does nothing, and does not come back.
    Rests,
    /// There is another one for its session, or it is of no use.
    Replaced(Weak<Link>),
    /// Nobody needs its session any more. It still connects, to close that.
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
        drop(tokio::spawn(drive(tasks.take(), Arc::clone(&stage))));
        Ok(Arc::new_cyclic(|this| Self { this: Weak::clone(this), client, stage }))
    }

    /// It has no connection, and may be replaced. What was asked of it before is not taken back.
    pub(crate) fn is_away(&self) {
        self.enters(Stage::Away);
    }

    /// It has a connection again.
    pub(crate) fn is_back(&self) {
        self.enters(Stage::Runs);
    }

    /// Lets it stand still. If it is dropped before it is replaced it goes on, to close its session.
    pub(crate) fn rest(&self) {
        self.enters(Stage::Rests);
    }

    /// Its session has ended. Whoever waits for a connection is told so.
    pub(crate) fn ends(&self) {
        self.enters(Stage::Ended);
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

    /// Tells of connections that are lost and made from now on.
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

    /// Not to be sent later: what is sent behind it has to be carried out behind it. The client may keep it while it connects by itself:
    /// whoever sends something behind that waits for the connection.
    pub(crate) fn set_data(
        &self,
        path: &str,
        data: &[u8],
    ) -> impl Future<Output = Answer<Stat>> + Send + use<> {
        match self.turn_though_it_connects() {
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

    /// What has ended, or was replaced, stays so.
    fn enters(&self, next: Stage) {
        self.stage.send_if_modified(|stage| {
            let goes_on = !matches!(stage, Stage::Replaced(_) | Stage::Ended);
            if goes_on {
                *stage = next;
            }
            goes_on
        });
    }

    /// For a request: right now, or later and perhaps elsewhere.
    fn turn(&self) -> Result<Promise, Turn> {
        if self.client.state() == SessionState::Disconnected {
            return Err(self.later(self.stage.subscribe()));
        }
        self.turn_though_it_connects()
    }

    fn turn_though_it_connects(&self) -> Result<Promise, Turn> {
        let stage = self.stage.subscribe();
        let runs = matches!(*stage.borrow(), Stage::Runs);
        if runs { Ok(Promise(stage)) } else { Err(self.later(stage)) }
    }

    fn later(&self, stage: watch::Receiver<Stage>) -> Turn {
        Turn { this: Weak::clone(&self.this), stage, states: self.states() }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stage.send_if_modified(|stage| {
            let rests = matches!(stage, Stage::Rests);
            if rests {
                *stage = Stage::Runs;
            }
            rests
        });
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
struct Turn {
    this: Weak<Link>,
    stage: watch::Receiver<Stage>,
    states: StateWatcher,
}

impl Turn {
    /// That client once it is back, or the one that took its place.
    async fn comes(mut self) -> Answer<Arc<Link>> {
        let next = loop {
            let stage = self.stage.borrow_and_update().clone();
            match (stage, self.states.state()) {
                (Stage::Replaced(other), _) => break other.upgrade(),
                (Stage::Ended, _) => break None,
                (Stage::Away | Stage::Rests, _) | (Stage::Runs, SessionState::Disconnected) => {}
                (Stage::Runs, _) => break self.this.upgrade(),
            }
            select! {
                changed = self.stage.changed() => if changed.is_err() {
                    break self.this.upgrade();
                },
                _ = self.states.changed() => {}
            }
        };
        // Without one, the session is over.
        next.ok_or(NEVER_SENT)
    }

    async fn missed<T>(self) -> Answer<T> {
        self.comes().await.and(Err(NEVER_SENT))
    }
}
