//! The server gets another certificate while clients are connected and hold locks. H101.

mod common;

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use common::Server;
use lock_conformance::{
    Authority, Client, Port, SLACK,
    audit::{eventually, safety, within},
};
use lock_core::{
    AcquireOptions, BackendErrorKind, DistributedLock, Error, Guard, Keeper, LostReason, Outage,
};
use lock_redis::{Redis, RedisConfig};
use lock_test_servers::redis::tls_arguments;

/// A server that speaks TLS on a second port, and keeps its data through restarts.
struct Secured {
    server: Server,
    port: Port,
    files: tempfile::TempDir,
}

impl Secured {
    /// With a certificate of this authority.
    fn start(ours: &Authority) -> Self {
        let (files, port) = (tempfile::tempdir().unwrap(), Port::reserve());
        ours.write(files.path(), "ca.pem");
        ours.issue(&["localhost"]).write(files.path(), "server");
        let tls = tls_arguments(port.number(), files.path(), "no");
        let mut arguments = vec!["--appendonly", "yes", "--appendfsync", "no"];
        arguments.extend(tls.iter().map(String::as_str));
        let server = Server::with(&arguments);
        Self { server, port, files }
    }

    /// Starts it once more, with another certificate.
    fn restart_with(&self, authority: &Authority) {
        authority.issue(&["localhost"]).write(self.files.path(), "server");
        self.server.restart();
    }

    /// A client that trusts the authorities of this file.
    fn client(&self, ca: &str) -> Client {
        let keeper = Keeper::start().unwrap();
        let url = format!("rediss://localhost:{}?ca={}", self.port, self.file(ca).display());
        let config: RedisConfig = url.parse().unwrap();
        Client::on(Arc::new(Redis::new(config, &keeper).unwrap()), keeper, options())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }
}

/// A lease that outlives a restart of the server, on a busy machine.
fn options() -> AcquireOptions {
    AcquireOptions::new().ttl(Duration::from_secs(20)).wait(Duration::from_secs(60))
}

async fn take(client: &Client, name: &str, options: AcquireOptions) -> Guard {
    let lock = client.mutex(name).with_options(options.outage(Outage::Wait));
    within("a lock that is free", SLACK, lock.acquire()).await.unwrap()
}

async fn extended(guard: &Guard) {
    eventually("an extension", SLACK, || async { guard.extend().await.is_ok() }).await;
}

/// First by a certificate of the same authority, and then of another one, which only some clients trust.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_changed_costs_locks_only_where_it_is_not_trusted() {
    let (ours, next) = (Authority::new("ours"), Authority::new("next"));
    let secured = Secured::start(&ours);
    next.write(secured.files.path(), "next-ca.pem");
    let both = ["ca.pem", "next-ca.pem"].map(|file| fs::read_to_string(secured.file(file)).unwrap());
    fs::write(secured.file("both-ca.pem"), both.concat()).unwrap();
    let (old, new) = (secured.client("ca.pem"), secured.client("both-ca.pem"));
    let (kept, theirs) = (take(&new, "kept", options()).await, take(&old, "theirs", options()).await);
    secured.restart_with(&ours);
    for guard in [&kept, &theirs] {
        extended(guard).await;
    }
    theirs.release().await.unwrap().confirmed().unwrap();

    let lost = take(&old, "lost", options().ttl(Duration::from_secs(3))).await;
    secured.restart_with(&next);
    extended(&kept).await;
    // The first error may be that the server is away.
    eventually("a refusal", SLACK, || async {
        let refused = old.mutex("another").acquire().await.unwrap_err();
        matches!(refused, Error::Backend { source, .. } if *source.kind() == BackendErrorKind::Denied)
    })
    .await;
    let reason = within("the loss", lost.ttl() + SLACK, lost.lost()).await;
    assert_eq!(reason, LostReason::Expired);
    let granted = within("the next grant", lost.ttl() + SLACK, new.mutex("lost").acquire()).await.unwrap();
    safety(!lost.is_held(), "granted to others while it is held");
    for guard in [kept, granted] {
        guard.release().await.unwrap().confirmed().unwrap();
    }
}
