//! [`Channel`]: an open connection to one member, with the clients of each of its services.

use std::sync::Arc;

use etcd_client::{DeleteResponse, Error, KvClient, LeaseClient, Txn, TxnResponse, WatchClient};
use lock_core::sync::{Mutex, MutexGuard};
use tokio::sync::SetOnce;

/// How many clients are kept for the next requests. More requests are rarely in flight at once.
const SPARE: usize = 64;

/// The largest answer that is read. Our answers are smaller, but foreign data among the entries makes them larger. The client's own
/// limit is 4 MB.
const MAX_ANSWER: usize = 64 << 20;

/// One connection to one member, shared by all concurrent requests.
pub(crate) struct Channel {
    pub(crate) kv: KvClient,
    /// Clients for reuse: making one takes several allocations, which is a noticeable part of a short lock.
    spare: Mutex<Vec<KvClient>>,
    pub(crate) lease: LeaseClient,
    pub(crate) watch: WatchClient,
    /// `host:port`, for messages.
    pub(crate) address: String,
    /// The index of the endpoint.
    pub(crate) endpoint: usize,
    client: etcd_client::Client,
    /// Whether another member answered a request that this one did not answer.
    unresponsive: SetOnce<()>,
}

impl Channel {
    pub(super) fn new(client: etcd_client::Client, address: String, endpoint: usize) -> Self {
        let (kv, lease, watch) = (client.kv_client(), client.lease_client(), client.watch_client());
        let kv = kv.max_decoding_message_size(MAX_ANSWER);
        let (spare, unresponsive) = (Mutex::default(), SetOnce::new());
        Self { kv, spare, lease, watch, address, endpoint, client, unresponsive }
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
        self.spare.lock()
    }

    /// Makes requests that wait for an answer here be sent to another member as well.
    pub(super) fn mark_unresponsive(&self) {
        // Once is enough.
        let _ = self.unresponsive.set(());
    }

    /// Waits until another member has answered a request that this one did not answer.
    pub(super) async fn until_unresponsive(&self) {
        self.unresponsive.wait().await;
    }

    /// A client for rare requests.
    pub(crate) fn client(&self) -> etcd_client::Client {
        self.client.clone()
    }
}
