//! Queues whose answers are larger than the default limit of the etcd client.

mod common;
mod server;

use common::{Client, name, options, soon, told};
use lock_core::DistributedLock;
use server::TestServer;

/// These tests keep the machine busy for a while.
mod alone {
    use super::*;

    /// There are more entries ahead than one answer shows, and their keys have more bytes than the client reads by default.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_semaphore_admits_as_many_as_its_limit_however_many_these_are() {
        const THERE: usize = 17_000;
        const LIMIT: u32 = 17_002;
        let lock = "pool ".repeat(40);
        let server = TestServer::start("case").await;
        server.admin().put_entries(&name(&lock), &format!("s{LIMIT}"), THERE).await;
        let client = Client::new(&format!("etcd://{}/case?command_timeout=20s", server.address()));
        let one = client.locks.semaphore(&lock, LIMIT).unwrap().permits(1).unwrap().with_options(told());
        let queued = soon("a permit that is free", one.acquire()).await.unwrap();
        let tried = one.try_acquire().await.unwrap().expect("a permit is free");
        assert!(one.try_acquire().await.unwrap().is_none(), "there are no more");
        let waiter = tokio::spawn({
            let one = one.clone();
            async move { one.acquire().await.unwrap() }
        });
        let stands = async || server.admin().count(&name(&lock)).await == THERE as u64 + 3;
        lock_conformance::audit::eventually("the waiter's entry", common::LATE, stands).await;
        tried.release().await.unwrap().confirmed().unwrap();
        let admitted = soon("the waiter", waiter).await.unwrap();
        assert!(admitted.token() > queued.token());
        for guard in [queued, admitted] {
            guard.release().await.unwrap().confirmed().unwrap();
        }
        assert_eq!(server.admin().count(&name(&lock)).await, THERE as u64, "nobody is left behind");
    }

    /// A page of the longest names exceeds the default limit, too.
    #[tokio::test(flavor = "multi_thread")]
    async fn operators_see_queues_of_the_longest_names() {
        const THERE: usize = 1_100;
        // In a key, each of these characters takes three bytes.
        let lock = "/".repeat(4096);
        let server = TestServer::start("case").await;
        server.admin().put_entries(&name(&lock), "m", THERE).await;
        let client = Client::new(&format!("etcd://{}/case?command_timeout=20s", server.address()));
        assert_eq!(client.locks.operator().list("").await.unwrap(), [name(&lock)]);
        assert_eq!(client.queue(&lock).await.len(), THERE);
        assert!(client.mutex(&lock).try_acquire_with(&options()).await.unwrap().is_none());
    }
}
