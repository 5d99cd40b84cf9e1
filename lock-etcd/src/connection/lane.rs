//! [`Lane`]: one connection for requests, driven by the runtime that it was opened on.

use std::{
    fmt,
    future::{Future, pending},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use etcd_client::{Client, DeleteResponse, Error, KvClient, LeaseClient, Txn, TxnResponse, WatchClient};
use futures_util::future::{AbortHandle, Abortable};
use lock_core::{BackendErrorKind as Kind, BootTime, Keeper};
use tokio::{net::UdpSocket, runtime::Id, sync::SetOnce};

use super::{by, cluster::Cluster, terminal::Terminal};
use crate::error::Failure;

/// So many clients are kept for whoever comes next: more are under way at once only in a crowd.
const SPARE: usize = 64;

/// So large an answer is read. Ours are [smaller](crate::recipe::PAGE_BYTES), but whoever else writes among the entries makes them
/// larger; the client's own limit is 4 MB.
const MAX_ANSWER: usize = 64 << 20;

/// One connection to one member, over which all requests go at the same time.
pub(crate) struct Link {
    pub(crate) kv: KvClient,
    /// Clients that were used before: to make one takes a handful of allocations, which a lock is too short for.
    spare: Mutex<Vec<KvClient>>,
    pub(crate) lease: LeaseClient,
    pub(crate) watch: WatchClient,
    /// `host:port`, for messages.
    pub(crate) address: String,
    /// Which one of the endpoints it is.
    pub(crate) endpoint: usize,
    client: Client,
    /// What it did not answer was answered by another one.
    given_up: SetOnce<()>,
}

impl Link {
    pub(super) fn new(client: Client, address: String, endpoint: usize) -> Self {
        let (kv, lease, watch) = (client.kv_client(), client.lease_client(), client.watch_client());
        let kv = kv.max_decoding_message_size(MAX_ANSWER);
        let (spare, given_up) = (Mutex::default(), SetOnce::new());
        Self { kv, spare, lease, watch, address, endpoint, client, given_up }
    }

    /// Carries out a transaction.
    pub(super) async fn txn(self: Arc<Self>, txn: Txn) -> Result<TxnResponse, Error> {
        let mut kv = self.take_spare();
        let answer = kv.txn(txn).await;
        self.keep_spare(kv);
        answer
    }

    /// Deletes a key.
    pub(super) async fn delete(self: Arc<Self>, key: Vec<u8>) -> Result<DeleteResponse, Error> {
        let mut kv = self.take_spare();
        let answer = kv.delete(key, None).await;
        self.keep_spare(kv);
        answer
    }

    fn take_spare(&self) -> KvClient {
        self.spare().pop().unwrap_or_else(|| self.kv.clone())
    }

    fn keep_spare(&self, kv: KvClient) {
        let mut spare = self.spare();
        if spare.len() < SPARE {
            spare.push(kv);
        }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<KvClient>> {
        // Nothing panics while they are held.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever waits for an answer here asks elsewhere.
    pub(super) fn give_up(&self) {
        // Once is enough.
        let _ = self.given_up.set(());
    }

    /// Waits until it is given up.
    pub(super) async fn given_up(&self) {
        self.given_up.wait().await;
    }

    /// A client for what is asked for rarely.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }
}

/// A connection: being opened, open, or over. Over is over: the next request gets another lane.
///
/// One task opens it. The connection's own tasks live on the same runtime; the task waits for the end of that, and ends
/// when nobody has the lane any more.
pub(super) struct Lane {
    /// Whose it is: a runtime's, or the keeper's.
    pub(super) home: Option<Id>,
    link: SetOnce<Result<Arc<Link>, Failure>>,
    /// When it has to be open.
    open_by: BootTime,
    over: AtomicBool,
    task: AbortHandle,
}

impl Lane {
    /// A lane, and the task that has to be spawned at its home.
    pub(super) fn new(
        home: Option<Id>,
        terminal: &Arc<Terminal>,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let (task, registration) = AbortHandle::new_pair();
        let (cluster, keeper) = (Arc::clone(&terminal.cluster), terminal.keeper.clone());
        let open_by = keeper.now() + cluster.config.connect_timeout;
        let lane = Arc::new(Self { home, link: SetOnce::new(), open_by, over: AtomicBool::new(false), task });
        let ending = Ending { lane: Arc::downgrade(&lane), terminal: Arc::downgrade(terminal) };
        let driven = Abortable::new(run(ending, cluster, keeper, open_by), registration);
        // Aborted or not: the ending tells.
        let drive = async move { driven.await.unwrap_or_default() };
        (lane, drive)
    }

    /// One that is open, and that nobody drives.
    #[cfg(test)]
    pub(super) fn open_to(link: Link, home: Option<Id>) -> Arc<Self> {
        let link = SetOnce::new_with(Some(Ok(Arc::new(link))));
        let (task, _) = AbortHandle::new_pair();
        Arc::new(Self { home, link, open_by: BootTime::FAR_FUTURE, over: AtomicBool::new(false), task })
    }

    /// Whether no request should be given to it any more.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// The connection, if it is open.
    pub(super) fn opened(&self) -> Option<&Arc<Link>> {
        self.link.get()?.as_ref().ok()
    }

    /// The connection, as soon as it is open.
    pub(super) async fn link(&self, cluster: &Cluster, keeper: &Keeper) -> Result<Arc<Link>, Failure> {
        if let Some(link) = self.link.get() {
            return link.clone();
        }
        // The task has the same limit, but the runtime that has to run it may be blocked.
        match by(keeper, self.open_by, self.link.wait()).await {
            Some(link) => link.clone(),
            None => Err(too_slow(cluster)),
        }
    }
}

/// Opens the connection, and waits for its end.
async fn run(ending: Ending, cluster: Arc<Cluster>, keeper: Keeper, open_by: BootTime) {
    // A runtime without timers or without I/O panics here, where it is seen, and not in the tasks of the connection.
    drop(tokio::time::sleep(Duration::ZERO));
    drop(UdpSocket::bind(("127.0.0.1", 0)).await);
    let opened = by(&keeper, open_by, cluster.open(&keeper)).await.unwrap_or_else(|| Err(too_slow(&cluster)));
    // A keeper that only a task of its own still has would never end.
    drop(keeper);
    match opened {
        Ok(link) => {
            tracing::debug!(member = %link.address, "etcd connection opened");
            ending.publish(Ok(Arc::new(link)));
            pending::<()>().await;
        }
        Err(failure) => {
            tracing::debug!(cluster = %cluster.config, "etcd connection not opened: {failure}");
            ending.publish(Err(failure));
        }
    }
}

fn too_slow(cluster: &Cluster) -> Failure {
    Failure::timed_out(&cluster.config, "opening a connection", cluster.config.connect_timeout)
}

/// Says that the lane is over, however its task ends: aborted, with its runtime, in a panic.
struct Ending {
    lane: Weak<Lane>,
    terminal: Weak<Terminal>,
}

impl Ending {
    fn publish(&self, link: Result<Arc<Link>, Failure>) {
        if let Some(lane) = self.lane.upgrade() {
            if link.is_err() {
                // First, so that whoever is woken by the failure does not find the lane again.
                lane.over.store(true, Ordering::Release);
            }
            // The only other one to set it is the end of this task.
            let _ = lane.link.set(link);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(lane) = self.lane.upgrade() else { return };
        lane.over.store(true, Ordering::Release);
        if let Some(terminal) = self.terminal.upgrade() {
            // Tokio panics where a runtime was built without its drivers, and has no other way to tell.
            let without_io = thread::panicking() && !lane.link.initialized();
            terminal.remove(&lane, without_io);
        }
        let failure = if thread::panicking() {
            Failure::new(Kind::Panicked, "opening a connection panicked")
        } else {
            Failure::new(Kind::Unreachable, "the runtime that opened the connection was shut down")
        };
        // Nobody waits for it if it is set.
        let _ = lane.link.set(Err(failure));
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("home", &self.home).field("over", &self.over).finish_non_exhaustive()
    }
}
