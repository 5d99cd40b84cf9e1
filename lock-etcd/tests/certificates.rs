//! The server gets another certificate while clients are connected and hold locks (H101). It reads the files anew for each connection.

mod common;
mod server;

use std::{fs, path::Path, time::Duration};

use common::{Client, LATE, kind, options, soon};
use etcd_client::{Certificate, TlsOptions};
use lock_conformance::{
    Authority, Data, Links, Newcomers, ServerControl,
    audit::{eventually, safety, within},
};
use lock_core::{BackendErrorKind, DistributedLock, Guard, LostReason, Outage};
use server::TestServer;

const HOST: &str = "127.0.0.1";

/// A server behind a proxy, with a certificate of the first authority in this folder. Its operator trusts the other authority, too.
async fn start(files: &Path, ours: &Authority, next: &Authority) -> TestServer {
    ours.write(files, "ca.pem");
    next.write(files, "next-ca.pem");
    let both = ["ca.pem", "next-ca.pem"].map(|name| fs::read_to_string(files.join(name)).unwrap()).concat();
    fs::write(files.join("both-ca.pem"), &both).unwrap();
    ours.issue(&[HOST]).write(files, "server");
    let ca = Certificate::from_pem(both);
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

/// First by a certificate of the same authority, and then of another one, which only some clients trust.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_changed_costs_locks_only_where_it_is_not_trusted() {
    let (ours, next, folder) = (Authority::new("ours"), Authority::new("next"), tempfile::tempdir().unwrap());
    let (files, file) = (folder.path(), |file: &str| folder.path().join(file));
    let server = start(files, &ours, &next).await;
    let (old, new) = (client(&server, &file("ca.pem")), client(&server, &file("both-ca.pem")));
    let patient = options().outage(Outage::Wait);
    let (kept, theirs) = (new.take("kept", &patient).await, old.take("theirs", &patient).await);
    change(&server, files, &ours).await;
    for guard in [&kept, &theirs] {
        extended(guard).await;
    }
    theirs.release().await.unwrap().confirmed().unwrap();

    let lost = old.take("lost", &patient.ttl(Duration::from_secs(3))).await;
    // A client that resumes its TLS session does not check the certificate again. After a restart no session can be resumed.
    server.kill().await.unwrap();
    next.issue(&[HOST]).write(files, "server");
    server.start(Data::Kept).await.unwrap();
    extended(&kept).await;
    // The first error may be that its connection has ended.
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
