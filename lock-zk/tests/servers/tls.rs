//! Locks over TLS: which certificates are trusted, and that others are refused in time. H101.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use lock_conformance::{
    Authority, Data, Impostor, Links, Newcomers, Port, SLACK, ServerControl,
    audit::{eventually, safety, within},
    unique, volume,
};
use lock_core::{
    Backend, BackendError, BackendErrorKind, DistributedLock, Guard, Keeper, LostReason, Outage,
};
use lock_test_servers::proxy;
use lock_zk::{ConfigError, ConnectError, ZkConfig, ZooKeeper};
use tokio::sync::OnceCell;

use crate::{
    common::{assert_free, client, kind, options, take, waiting},
    server::{TestServer, ZkServer},
};

const NAME: &str = "job";
const LIMITS: &str = "tick=200ms&command_timeout=2s&connect_timeout=2s";

/// A chroot on a server that speaks TLS on a second port, to clients that present a certificate, and the files for these. The
/// certificate of the server is for `localhost`.
struct Secured {
    server: TestServer,
    port: u16,
    files: PathBuf,
}

/// The server, and its port for TLS. All tests share it, and its files are in its directory.
static SHARED: OnceCell<(Arc<ZkServer>, Port)> = OnceCell::const_new();

impl Secured {
    async fn start() -> Self {
        let (member, port) = SHARED.get_or_init(Self::launch).await;
        let server = TestServer::at(Arc::clone(member));
        let secured = Self { server, port: port.number(), files: member.process().directory().to_owned() };
        secured.warm().await;
        secured
    }

    /// With a server of its own, whose certificate is of this authority. Its port is given with it, which it needs for as long.
    async fn own(files: &Path, ours: &Authority) -> (Self, Port) {
        let port = Port::reserve();
        let server = TestServer::own_with(|member| member.with(Self::settings(files, &port, ours))).await;
        let secured = Self { server, port: port.number(), files: files.to_owned() };
        secured.warm().await;
        (secured, port)
    }

    /// Java's first handshake takes long: longer, on a busy machine, than a client waits for a word.
    async fn warm(&self) {
        let warm = async { while self.connect().await.is_err() {} };
        within("the first connection", SLACK * 4, warm).await;
    }

    /// Starts its server once more, with another certificate.
    async fn restart_with(&self, authority: &Authority) {
        self.server.kill().await.unwrap();
        Self::certify(&self.files, authority);
        self.server.start(Data::Kept).await.unwrap();
    }

    async fn launch() -> (Arc<ZkServer>, Port) {
        let port = Port::reserve();
        let member = ZkServer::start(|member| {
            member.with(Self::settings(member.process().directory(), &port, &Authority::new("ours")));
        });
        (Arc::new(member.await), port)
    }

    /// Makes the files, and says what the server needs to know of them.
    fn settings(folder: &Path, port: &Port, ours: &Authority) -> [String; 8] {
        let other = Authority::new("somebody else's");
        ours.write(folder, "ca.pem");
        other.write(folder, "other-ca.pem");
        for (who, authority) in [("client", ours), ("stranger", &other)] {
            authority.issue(&["localhost"]).write(folder, who);
        }
        ours.issue_expired(&["localhost"]).write(folder, "late");
        Self::certify(folder, ours);
        [
            format!("secureClientPort={port}"),
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned(),
            "ssl.keyStore.type=PEM".to_owned(),
            format!("ssl.keyStore.location={}", folder.join("keystore.pem").display()),
            "ssl.trustStore.type=PEM".to_owned(),
            format!("ssl.trustStore.location={}", folder.join("ca.pem").display()),
            "ssl.clientAuth=need".to_owned(),
            // The certificate of clients, which connect from any address.
            "ssl.hostnameVerification=false".to_owned(),
        ]
    }

    /// Makes a certificate for the server, which wants it in one file with its key.
    fn certify(folder: &Path, authority: &Authority) {
        authority.issue(&["localhost"]).write(folder, "server");
        let both =
            ["server-key.pem", "server.pem"].map(|file| fs::read_to_string(folder.join(file)).unwrap());
        fs::write(folder.join("keystore.pem"), both.concat()).unwrap();
    }

    async fn connect(&self) -> Result<ZooKeeper, ConnectError> {
        let keeper = Keeper::start().expect("a keeper's thread can be started");
        ZooKeeper::connect(ZkConfig::from_url(&self.good()).unwrap(), &keeper).await
    }

    /// The URL for a client with these files.
    fn url(&self, host: &str, ca: &str, certificate: Option<&str>) -> String {
        self.url_at(&format!("{host}:{}", self.port), ca, certificate)
    }

    fn url_at(&self, address: &str, ca: &str, certificate: Option<&str>) -> String {
        let file = |file: &str| self.file(file).display().to_string();
        let own = certificate.map_or_else(String::new, |who| {
            format!("&cert={}&key={}", file(&format!("{who}.pem")), file(&format!("{who}-key.pem")))
        });
        format!("zks://{address}{}?{LIMITS}&ca={}{own}", self.server.admin().chroot(), file(ca))
    }

    fn good(&self) -> String {
        self.url("localhost", "ca.pem", Some("client"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.join(name)
    }
}

/// The error of a connection that is refused.
async fn refused(url: &str) -> BackendError {
    let keeper = Keeper::start().expect("a keeper's thread can be started");
    let asked = Instant::now();
    let answer = ZooKeeper::connect(ZkConfig::from_url(url).unwrap(), &keeper).await;
    let took = asked.elapsed();
    assert!(took < SLACK, "refused after {took:?}");
    match answer {
        Err(ConnectError::Store(error)) => error,
        other => panic!("{url}: {other:?}"),
    }
}

/// Two providers of cryptography are compiled in, and the program has chosen none, for which the client would panic.
#[tokio::test(flavor = "multi_thread")]
async fn locks_work_over_tls_with_certificates_on_both_sides() {
    let secured = Secured::start().await;
    let (holder, other) = (client(&secured.good()), client(&secured.good()));
    let guard = take(&holder, NAME, &options()).await;
    let waiter = waiting(&other, NAME, &options(), 2).await;
    guard.release().await.unwrap().confirmed().unwrap();
    let guard = within("the waiter", SLACK, waiter).await.unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
    assert_free(&holder, NAME).await;
}

/// A client asks servers for their status over TLS, and reconnects over TLS. The ZooKeeper client alone would try again only after five
/// seconds: see `reconnects.rs`.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_and_a_waiter_are_back_over_tls_as_soon_as_the_server_is() {
    let secured = Secured::start().await;
    let proxy = proxy(("127.0.0.1", secured.port));
    let address = format!("localhost:{}", proxy.address().port());
    let (here, other) =
        (client(&secured.url_at(&address, "ca.pem", Some("client"))), client(&secured.good()));
    let lasting = options().ttl(Duration::from_secs(24)).outage(Outage::Wait);
    let guard = take(&here, NAME, &lasting).await;
    let first = take(&other, "other", &lasting).await;
    let waiter = waiting(&here, "other", &lasting, 2).await;
    proxy.newcomers(Newcomers::Refuse);
    proxy.reset(Links::All);
    tokio::time::sleep(Duration::from_millis(7500)).await;
    first.release().await.unwrap().confirmed().unwrap();
    assert!(guard.is_held() && !waiter.is_finished());
    proxy.newcomers(Newcomers::Serve);
    let back = async {
        while guard.extend().await.is_err() {}
        waiter.await.unwrap()
    };
    let granted = within("a renewal, and a grant", Duration::from_secs(4), back).await;
    for guard in [guard, granted] {
        guard.release().await.unwrap().confirmed().unwrap();
    }
}

async fn extended(guard: &Guard) {
    eventually("an extension", SLACK, || async { guard.extend().await.is_ok() }).await;
}

/// It is replaced by a certificate of another authority, which only some of the connected clients trust.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_changed_costs_locks_only_where_it_is_not_trusted() {
    let (ours, next, files) = (Authority::new("ours"), Authority::new("next"), tempfile::tempdir().unwrap());
    let (secured, _port) = Secured::own(files.path(), &ours).await;
    next.write(files.path(), "next-ca.pem");
    let both = ["ca.pem", "next-ca.pem"].map(|file| fs::read_to_string(secured.file(file)).unwrap());
    fs::write(secured.file("both-ca.pem"), both.concat()).unwrap();
    let [old, new] =
        ["ca.pem", "both-ca.pem"].map(|ca| client(&secured.url("localhost", ca, Some("client"))));
    // It outlives a restart of the server.
    let lasting = options().ttl(Duration::from_secs(30)).outage(Outage::Wait);
    let kept = take(&new, "kept", &lasting).await;
    // A restart takes long.
    if volume(false, true) {
        let theirs = take(&old, "theirs", &lasting).await;
        secured.restart_with(&ours).await;
        extended(&kept).await;
        extended(&theirs).await;
        theirs.release().await.unwrap().confirmed().unwrap();
    }
    let lost = take(&old, "lost", &lasting.ttl(Duration::from_secs(3))).await;
    secured.restart_with(&next).await;
    extended(&kept).await;
    eventually("a refusal", SLACK, || async {
        *kind(&old.mutex(NAME).acquire().await.unwrap_err()) == BackendErrorKind::Denied
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

#[tokio::test(flavor = "multi_thread")]
async fn a_server_tells_its_version_over_tls() {
    let secured = Secured::start().await;
    let zookeeper = secured.connect().await.unwrap();
    let diagnosis = zookeeper.operator().diagnose().await.unwrap();
    let version = diagnosis.facts.iter().find(|(fact, _)| *fact == "version").unwrap();
    assert!(version.1.starts_with("3."), "{diagnosis:?}");
    assert!(diagnosis.problems.is_empty(), "{diagnosis:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_a_certificate_are_for_it_alone() {
    let secured = Secured::start().await;
    let own = secured.server.admin().at(&format!("own-{}", unique()));
    let url = secured.good().replace(secured.server.admin().chroot(), own.chroot());
    let owner = client(&url);
    let guard = take(&owner, NAME, &options()).await;
    let nobody = client(&format!("zk://{}{}?{LIMITS}", secured.server.address(), own.chroot()));
    let error = nobody.mutex(NAME).acquire().await.unwrap_err();
    assert_eq!(*kind(&error), BackendErrorKind::Denied, "{error:?}");
    assert!(guard.is_held());
    guard.release().await.unwrap().confirmed().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_another_authority_is_denied_on_both_sides() {
    let secured = Secured::start().await;
    for (url, said) in [
        (secured.url("localhost", "other-ca.pem", Some("client")), "UnknownIssuer"),
        (secured.url("localhost", "ca.pem", Some("stranger")), "alert"),
        (secured.url("localhost", "ca.pem", None), "alert"),
    ] {
        let error = refused(&url).await;
        assert_eq!(*error.kind(), BackendErrorKind::Denied, "{url}: {error:?}");
        assert!(error.to_string().contains(said), "{url}: {error}");
        let error = client(&url).mutex(NAME).acquire().await.unwrap_err();
        assert_eq!(*kind(&error), BackendErrorKind::Denied, "{url}: {error:?}");
        assert!(error.to_string().contains(NAME), "{error}");
    }
}

/// The server denies it. Our client refuses such a certificate of a server ([`Impostor::all`]).
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_a_client_that_has_expired_is_denied() {
    let secured = Secured::start().await;
    let error = refused(&secured.url("localhost", "ca.pem", Some("late"))).await;
    assert_eq!(*error.kind(), BackendErrorKind::Denied, "{error:?}");
    assert!(error.to_string().contains("alert"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_another_host_is_denied() {
    let secured = Secured::start().await;
    let error = refused(&secured.url("127.0.0.1", "ca.pem", Some("client"))).await;
    assert_eq!(*error.kind(), BackendErrorKind::Denied, "{error:?}");
    assert!(error.to_string().contains("not valid for name"), "{error}");
}

/// The client sends neither the password nor a request: an untrusted server could use both.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_told_nothing_before_it_has_shown_who_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    ours.write(folder.path(), "ca.pem");
    let ca = folder.path().join("ca.pem");
    let url_of = |impostor: &Impostor| {
        format!("zks://app:secret@localhost:{}/job?{LIMITS}&ca={}", impostor.port(), ca.display())
    };
    for (what, impostor) in Impostor::all(&ours) {
        let error = refused(&url_of(&impostor)).await;
        assert_eq!(*error.kind(), BackendErrorKind::Denied, "{what}: {error:?}");
        impostor.assert_heard_nothing(what);
    }
    // The client sends requests to a server with a good certificate, but never in plain text.
    let good = Impostor::with(&ours.issue(&["localhost"]));
    refused(&url_of(&good)).await;
    assert!(!good.heard().is_empty(), "it was asked for nothing");
    let plain = Impostor::without_tls();
    refused(&url_of(&plain)).await;
    let heard = String::from_utf8_lossy(&plain.heard()).into_owned();
    assert!(heard.starts_with('\u{16}') && !heard.contains("secret"), "{heard:?}");
}

/// Neither side accepts a connection of the other kind.
#[tokio::test(flavor = "multi_thread")]
async fn plain_text_and_tls_do_not_meet() {
    let secured = Secured::start().await;
    let plain = format!("zk://localhost:{}/job?{LIMITS}", secured.port);
    assert!(refused(&plain).await.is_transient());
    let (_, rest) = secured.good().split_once('?').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let error = refused(&format!("zks://{}/job?{rest}", secured.server.address())).await;
    assert!(error.is_transient(), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_used_are_errors_that_name_them() {
    let secured = Secured::start().await;
    let file = |name: &str| secured.file(name);
    fs::write(file("empty.pem"), "").unwrap();
    let (ca, cert, key) = (file("ca.pem"), file("client.pem"), file("client-key.pem"));
    let with = |ca: &Path, cert: &Path, key: &Path| {
        let mut config = ZkConfig::from_url(&secured.good()).unwrap();
        (config.server.ca, config.server.cert, config.server.key) =
            (Some(ca.into()), Some(cert.into()), Some(key.into()));
        config
    };
    for (config, wrong, path) in [
        (with(&file("none.pem"), &cert, &key), "ca", "none.pem"),
        (with(&key, &cert, &key), "ca", "client-key.pem"),
        (with(&ca, &file("empty.pem"), &key), "cert", "empty.pem"),
        (with(&ca, &cert, &file("ca.pem")), "key", "ca.pem"),
        // The key of another certificate.
        (with(&ca, &cert, &file("server-key.pem")), "cert", "client.pem"),
    ] {
        match ZooKeeper::new(config, &Keeper::shared()) {
            Err(ConfigError::File { option, path: named, .. }) => {
                assert_eq!((option, named), (wrong, file(path)));
            }
            other => panic!("{wrong} {path}: {other:?}"),
        }
    }
    // No certificate can be for this host; the ZooKeeper client would panic.
    let mut config = ZkConfig::from_url(&secured.good()).unwrap();
    config.endpoints = vec!["a..b:2181".parse().unwrap()];
    let error = ZooKeeper::new(config, &Keeper::shared()).unwrap_err();
    assert!(error.to_string().contains("a..b"), "{error}");
}
