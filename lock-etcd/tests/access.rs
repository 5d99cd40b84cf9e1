//! Users, passwords, tokens and certificates: which clients are accepted, and which are refused in time. E11, H101.

mod common;
mod server;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use common::{Client, LATE, kind, name, options, soon, told};
use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};
use lock_conformance::{Authority, Impostor, Links, Port, ServerControl, audit::within};
use lock_core::{BackendError, BackendErrorKind, DistributedLock, Keeper};
use lock_etcd::{ConnectError, Etcd, EtcdConfig};
use server::TestServer;

const NAME: &str = "job";

/// Both time limits. They are the longest time that a server takes to answer on a busy machine: the server has to accept or refuse within
/// it.
const LIMIT: Duration = Duration::from_secs(2);
const LIMITS: &str = "command_timeout=2s&connect_timeout=2s&heartbeat=2s";

/// The error of a client that is refused.
async fn refused(url: &str) -> BackendError {
    let keeper = Keeper::start().expect("a keeper's thread can be started");
    let config = EtcdConfig::from_url(url).unwrap();
    match within("an answer", LIMIT * 2 + LATE, Etcd::connect(config, &keeper)).await {
        Err(ConnectError::Store(error)) => error,
        other => panic!("{url}: {other:?}"),
    }
}

/// Checks that a lock cannot be taken for this reason, and that the error comes in time.
async fn assert_refused(client: &Client, expected: &BackendErrorKind) {
    let answer = within("an answer", LIMIT * 2 + LATE, client.mutex(NAME).acquire()).await;
    let error = answer.unwrap_err();
    assert_eq!(kind(&error), expected, "{error:?}");
    assert!(error.to_string().contains(NAME), "{error}");
}

/// etcd's tokens expire when they were not used for a while. Open streams continue, and new ones are refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_kept_and_handed_over_past_the_expiry_of_its_clients_token() {
    let server = TestServer::start_with("case", &["--auth-token-ttl=1"]).await;
    let user = server.admin().add_user().await;
    let url = format!("etcd://{user}{}/case?{LIMITS}", server.address());
    let (holder, other) = (Client::new(&url), Client::new(&url));
    // Renewed only every 3 s. By then, the token has expired each time.
    let slow = options().ttl(Duration::from_secs(9));
    let guard = holder.take(NAME, &slow).await;
    let waiter = other.waiting(NAME, &told(), 2).await;
    let deadline = || Instant::now() + guard.remaining();
    let first = deadline();
    let renewed = async {
        // Twice: with a token that was new or had expired by itself, and with its replacement.
        while deadline() < first + slow.ttl / 2 {
            assert!(guard.is_held(), "lost: {:?}", guard.state());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within("two renewals", slow.ttl + LATE, renewed).await;
    guard.release().await.unwrap().confirmed().unwrap();
    let guard = soon("the waiter whose token has expired", waiter).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    guard.release().await.unwrap().confirmed().unwrap();
    holder.assert_free(NAME).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_none_at_all_are_denied() {
    let server = TestServer::start("case").await;
    server.admin().add_user().await;
    let (wrong, missing) = ("authentication failed", "user name is empty");
    for (user, what) in [("clients:wrong@", wrong), ("nobody:open@", wrong), ("", missing)] {
        let error = refused(&format!("etcd://{user}{}/case?{LIMITS}", server.address())).await;
        assert_eq!(*error.kind(), BackendErrorKind::Denied, "{user}: {error:?}");
        assert!(error.to_string().contains(what), "{user}: {error}");
        assert!(!format!("{error} {error:?}").contains("wrong"), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prefix_that_a_user_has_no_permission_on_is_denied() {
    let server = TestServer::start("case").await;
    let user = server.admin().add_user().await;
    let client = Client::new(&format!("etcd://{user}{}/elsewhere?{LIMITS}", server.address()));
    assert_refused(&client, &BackendErrorKind::Denied).await;
    let client = Client::new(&format!("etcd://{user}{}/case?{LIMITS}", server.address()));
    client.assert_free(NAME).await;
    server.lock_out().await.unwrap();
    assert_refused(&client, &BackendErrorKind::Denied).await;
    server.let_in().await.unwrap();
    client.assert_free(NAME).await;
}

/// Only the permissions from the commands in `docs/security.md`.
#[tokio::test(flavor = "multi_thread")]
async fn the_documented_permissions_are_enough() {
    let manual = include_str!("../../docs/security.md");
    let (_, etcd) = manual.split_once("\n## etcd\n").unwrap();
    let (_, commands) = etcd.split_once("```sh\n").unwrap();
    let (commands, _) = commands.split_once("```").unwrap();
    let server = TestServer::start("app/locks").await;
    server.admin().set_up(commands).await;
    let url = format!("etcd://app:open@{}/app/locks", server.address());
    let keeper = Keeper::start().expect("a keeper's thread can be started");
    soon("an answer", Etcd::connect(EtcdConfig::from_url(&url).unwrap(), &keeper)).await.unwrap();
    let (holder, other) = (Client::new(&url), Client::new(&url));
    // Under a lease of its own, and under a shared one.
    for renewed in [false, true] {
        let options = told().renew(renewed);
        let guard = holder.take(NAME, &options).await;
        let waiter = other.waiting(NAME, &options, 2).await;
        guard.release().await.unwrap().confirmed().unwrap();
        let next = soon("the waiter", waiter).await.unwrap();
        next.release().await.unwrap().confirmed().unwrap();
    }
    let guard = holder.take(NAME, &options().ttl(Duration::from_secs(9))).await;
    let deadline = || Instant::now() + guard.remaining();
    let first = deadline();
    let renewed = async {
        while deadline() < first + Duration::from_secs(1) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("a renewal", renewed).await;
    let operator = other.locks.operator();
    assert_eq!(operator.list("").await.unwrap(), [name(NAME)]);
    let standing = holder.queue(NAME).await;
    operator.evict(&name(NAME), standing[0].entry.unwrap()).await.unwrap();
    soon("the loss of a lock that was taken away", guard.lost()).await;
    operator.diagnose().await.unwrap();
    for client in [&holder, &other] {
        client.locks.close(LATE).await.unwrap();
    }
    assert_eq!(server.admin().leases().await, 0);
    // Nothing more is permitted.
    let as_app = ConnectOptions::new().with_user("app", "open");
    let mut app = etcd_client::Client::connect([server.address()], Some(as_app)).await.unwrap();
    for key in ["app/lock", "app/locks", "other"] {
        let denied = app.get(key, None).await.unwrap_err();
        assert!(denied.to_string().contains("permission denied"), "{key}: {denied}");
    }
    app.get("app/locks/", None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_gives_a_typed_error_in_time() {
    // While this port is reserved, no program gets it or listens there.
    let port = Port::reserve();
    let url = format!("etcd://127.0.0.1:{port}/case?{LIMITS}");
    assert_eq!(*refused(&url).await.kind(), BackendErrorKind::Unreachable);
    assert_refused(&Client::new(&url), &BackendErrorKind::Unreachable).await;
}

/// It accepts connections, and then stays silent.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_answer_gives_a_typed_error_in_time() {
    let server = TestServer::start("case").await.behind_proxy();
    let url = format!("etcd://{}/case?{LIMITS}", server.address());
    let client = Client::new(&url);
    client.assert_free(NAME).await;
    server.proxy().silence(Links::All);
    let error = refused(&url).await;
    assert!(error.is_transient(), "{error:?}");
    assert_refused(&client, &BackendErrorKind::TimedOut).await;
}

/// A server that speaks TLS, and the files for its clients.
struct Secured {
    server: TestServer,
    files: PathBuf,
}

impl Secured {
    /// A server that requires a certificate from its clients.
    async fn start(files: &Path) -> Self {
        Self::start_as(files, "127.0.0.1").await
    }

    /// The same, whose own certificate is for this host.
    async fn start_as(files: &Path, host: &str) -> Self {
        let (ours, other) = (Authority::new("ours"), Authority::new("somebody else's"));
        ours.write(files, "ca.pem");
        other.write(files, "other-ca.pem");
        for (who, authority) in [("server", &ours), ("client", &ours), ("stranger", &other)] {
            authority.issue(&[host]).write(files, who);
        }
        let tls = TlsOptions::new()
            .domain_name(host)
            .ca_certificate(Certificate::from_pem(read(files, "ca.pem")))
            .identity(Identity::from_pem(read(files, "client.pem"), read(files, "client-key.pem")));
        let path = |file: &str| files.join(file).display().to_string();
        let arguments = [
            format!("--cert-file={}", path("server.pem")),
            format!("--key-file={}", path("server-key.pem")),
            format!("--trusted-ca-file={}", path("ca.pem")),
            "--client-cert-auth".to_owned(),
        ];
        let server = TestServer::start_secured("case", &arguments.each_ref().map(String::as_str), tls).await;
        Self { server, files: files.to_owned() }
    }

    /// The URL for a client with these files.
    fn url(&self, ca: &str, certificate: Option<&str>) -> String {
        let path = |file: &str| self.files.join(file).display().to_string();
        let own = certificate.map_or_else(String::new, |who| {
            format!("&cert={}&key={}", path(&format!("{who}.pem")), path(&format!("{who}-key.pem")))
        });
        format!("etcds://{}/case?{LIMITS}&ca={}{own}", self.server.address(), path(ca))
    }
}

fn read(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join(file)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_work_over_tls_with_certificates_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let secured = Secured::start(folder.path()).await;
    let url = secured.url("ca.pem", Some("client"));
    let (holder, other) = (Client::new(&url), Client::new(&url));
    let guard = holder.take(NAME, &options()).await;
    let waiter = other.waiting(NAME, &options(), 2).await;
    guard.release().await.unwrap().confirmed().unwrap();
    let guard = soon("the waiter", waiter).await.unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_another_authority_is_refused_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let secured = Secured::start(folder.path()).await;
    for url in [
        secured.url("other-ca.pem", Some("client")),
        secured.url("ca.pem", Some("stranger")),
        secured.url("ca.pem", None),
        // Plain text to a server that speaks TLS.
        format!("etcd://{}/case?{LIMITS}", secured.server.address()),
    ] {
        let error = refused(&url).await;
        let known = matches!(
            error.kind(),
            BackendErrorKind::Unreachable | BackendErrorKind::Denied | BackendErrorKind::TimedOut
        );
        assert!(known, "{url}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_shows_the_certificate_of_another_host_is_denied() {
    let folder = tempfile::tempdir().unwrap();
    let secured = Secured::start_as(folder.path(), "elsewhere").await;
    let error = refused(&secured.url("ca.pem", Some("client"))).await;
    assert_eq!(*error.kind(), BackendErrorKind::Denied, "{error:?}");
}

/// The client sends nothing in plain text.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_speak_tls_is_refused_where_tls_is_asked_for() {
    let (server, folder) = (TestServer::start("case").await, tempfile::tempdir().unwrap());
    Authority::new("ours").write(folder.path(), "ca.pem");
    let ca = folder.path().join("ca.pem");
    let error = refused(&format!("etcds://{}/case?{LIMITS}&ca={}", server.address(), ca.display())).await;
    let known = matches!(error.kind(), BackendErrorKind::Unreachable | BackendErrorKind::TimedOut);
    assert!(known, "{error:?}");
}

/// The client sends neither the password nor the name of a lock: an impostor could use both.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_told_nothing_before_it_has_shown_who_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    ours.write(folder.path(), "ca.pem");
    let ca = folder.path().join("ca.pem");
    let url_of = |impostor: &Impostor| {
        format!("etcds://app:secret@localhost:{}/case?{LIMITS}&ca={}", impostor.port(), ca.display())
    };
    for (what, impostor) in Impostor::all(&ours) {
        let error = refused(&url_of(&impostor)).await;
        assert_eq!(*error.kind(), BackendErrorKind::Denied, "{what}: {error:?}");
        impostor.assert_heard_nothing(what);
    }
    // The client logs in to a server with a good certificate, but never in plain text.
    let good = Impostor::with(&ours.issue(&["localhost"]));
    refused(&url_of(&good)).await;
    assert!(String::from_utf8_lossy(&good.heard()).starts_with("PRI * HTTP/2.0"));
    let plain = Impostor::without_tls();
    refused(&url_of(&plain)).await;
    let heard = String::from_utf8_lossy(&plain.heard()).into_owned();
    assert!(heard.starts_with('\u{16}') && !heard.contains("secret"), "{heard:?}");
}
