//! The server gets another certificate while clients are connected and hold locks. It reads the files anew for each connection. H101.

mod common;
mod server;

use std::{fs, path::Path, time::Duration};

use common::{Client, LATE, kind, options, soon};
use etcd_client::{Certificate, TlsOptions};
use lock_conformance::{
    Authority, Links, Newcomers,
    audit::{eventually, safety, within},
};
use lock_core::{BackendErrorKind, DistributedLock, Guard, LostReason, Outage};
use server::TestServer;

const HOST: &str = "127.0.0.1";

/// A server behind a proxy, with a certificate of this authority in this folder.
async fn start(files: &Path, ours: &Authority) -> TestServer {
    ours.write(files, "ca.pem");
    ours.issue(&[HOST]).write(files, "server");
    let ca = Certificate::from_pem(fs::read_to_string(files.join("ca.pem")).unwrap());
    let tls = TlsOptions::new().domain_name(HOST).ca_certificate(ca);
    let arguments = [("cert", "server.pem"), ("key", "server-key.pem")]
        .map(|(option, file)| format!("--{option}-file={}", files.join(file).display()));
    let arguments = arguments.each_ref().map(String::as_str);
    TestServer::start_secured("case", &arguments, tls).await.behind_proxy()
}

/// Gives the server another certificate, and ends all connections.
async fn change(server: &TestServer, files: &Path, authority: &Authority) {
    authority.issue(&[HOST]).write(files, "server");
    let proxy = server.proxy();
    proxy.newcomers(Newcomers::Refuse);
    proxy.reset(Links::All);
    eventually("the end of all connections", LATE, || async { proxy.open() == 0 }).await;
    proxy.newcomers(Newcomers::Serve);
}

/// A client that trusts the authorities of this file.
fn client(server: &TestServer, ca: &Path) -> Client {
    let limits = "command_timeout=2s&connect_timeout=2s&heartbeat=2s";
    Client::new(&format!("etcds://{}/case?{limits}&ca={}", server.address(), ca.display()))
}

async fn extended(guard: &Guard) {
    eventually("an extension", LATE, || async { guard.extend().await.is_ok() }).await;
}

/// By one of the same authority, and then by one of another: some clients trust both, and some have not heard of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_changed_costs_locks_only_where_it_is_not_trusted() {
    let (ours, next, folder) = (Authority::new("ours"), Authority::new("next"), tempfile::tempdir().unwrap());
    let (files, file) = (folder.path(), |file: &str| folder.path().join(file));
    let server = start(files, &ours).await;
    next.write(files, "next-ca.pem");
    let both = ["ca.pem", "next-ca.pem"].map(|name| fs::read_to_string(file(name)).unwrap());
    fs::write(file("both-ca.pem"), both.concat()).unwrap();
    let (old, new) = (client(&server, &file("ca.pem")), client(&server, &file("both-ca.pem")));
    let patient = options().outage(Outage::Wait);
    let (kept, theirs) = (new.take("kept", &patient).await, old.take("theirs", &patient).await);
    change(&server, files, &ours).await;
    for guard in [&kept, &theirs] {
        extended(guard).await;
    }
    theirs.release().await.unwrap().confirmed().unwrap();

    let lost = old.take("lost", &patient.ttl(Duration::from_secs(3))).await;
    change(&server, files, &next).await;
    extended(&kept).await;
    // What it is told first may be that its connection has ended.
    eventually("a refusal", LATE, || async {
        *kind(&old.mutex("another").acquire().await.unwrap_err()) == BackendErrorKind::Denied
    })
    .await;
    let reason = within("the loss", lost.ttl() + LATE, lost.lost()).await;
    assert_eq!(reason, LostReason::Expired);
    let granted = soon("the next grant", new.mutex("lost").acquire()).await.unwrap();
    safety(!lost.is_held(), "granted to others while it is held");
    for guard in [kept, granted] {
        guard.release().await.unwrap().confirmed().unwrap();
    }
}
