//! A master that is demoted. From then on, its address either leads to another server, and only the refusals of the old one show that, or
//! it leads to the old one forever.

mod common;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use common::*;
use lock_conformance::{Port, ran_nothing};
use lock_core::{
    Backend, BackendError, BackendErrorKind as Kind, BootTime, Clock, Creates, Entry, FencingToken, Keeper,
    Lease, Standing, Step, SystemClock, WaitMode,
};
use lock_redis::Redis;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// The refusal of a replica to a script that writes, up to the part that is the same for all writes; and the refusal before 7.0.
const REFUSED: (&[u8], &[u8]) = (
    b"-READONLY ",
    b"-ERR Error running script (call to f_1f8f4cfba6f3375f8c4ec02b9de4361a5dea5c64): @user_script:1: @user_script: 1: -READONLY ",
);

/// The same refusals after a script has caught them.
const CAUGHT: (&[u8], &[u8]) = (
    b"$53\r\nREADONLY You can't write against a read only replica.\r\n",
    b"$73\r\n@user_script: 1: -READONLY You can't write against a read only replica.\r\n\r\n",
);

/// An address that leads every new connection to the server that was set last.
struct Name {
    address: SocketAddr,
    server: Arc<Mutex<String>>,
}

impl Name {
    /// `before_7`: rewrites refusals to the form of servers before 7.0.
    async fn of(server: &Server, before_7: bool) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let name = Self { address: listener.local_addr().unwrap(), server: Arc::default() };
        name.leads_to(server);
        let leads_to = Arc::clone(&name.server);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = leads_to.lock().unwrap().clone();
                tokio::spawn(carry(client, server, before_7));
            }
        });
        name
    }

    fn leads_to(&self, server: &Server) {
        *self.server.lock().unwrap() = server.url().replace("redis://", "");
    }

    fn client(&self) -> Client {
        let keeper = Keeper::start().unwrap();
        let config = format!("redis://{}?prefix=", self.address).parse().unwrap();
        Client { redis: Redis::new(config, &keeper).unwrap(), keeper }
    }
}

async fn carry(client: TcpStream, server: String, before_7: bool) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let answers = async move {
        // One read returns everything that the server writes at once.
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = from_server.read(&mut buffer).await?;
            if read == 0 {
                return to_client.shutdown().await;
            }
            let mut said = buffer[..read].to_vec();
            if before_7 {
                said = replaced(&said, CAUGHT.0, CAUGHT.1);
                // Nothing stands before it; a server that is older has said it like this.
                if let Some(rest) = said.strip_prefix(REFUSED.0) {
                    said = [REFUSED.1, rest].concat();
                }
            }
            to_client.write_all(&said).await?;
        }
    };
    let requests = async move {
        tokio::io::copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    tokio::try_join!(answers, requests).map(drop)
}

fn replaced(bytes: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    match bytes.windows(what.len()).position(|part| part == what) {
        Some(at) => [&bytes[..at], with, &replaced(&bytes[at + what.len()..], what, with)].concat(),
        None => bytes.to_vec(),
    }
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Enter,
    Leave,
    RenewMutex,
    /// The script catches the refusal of one lease and returns it as the answer for that lease.
    RenewReader,
}

async fn carry_out(
    verb: Verb,
    client: &Client,
    entry: &Entry,
    token: FencingToken,
) -> Result<(), BackendError> {
    match verb {
        Verb::Enter => client.enter(&mutex("another"), Step::Create, WaitMode::Queue).await.map(drop),
        Verb::Leave => client.redis.leave(entry, Creates::Answered).await.map(drop),
        Verb::RenewMutex | Verb::RenewReader => {
            // Longer than the rest of the lease, because a shorter renewal writes nothing.
            let lease = Lease { entry: Arc::new(living(entry.clone(), 60_000)), token };
            client.redis.renew(&[lease]).await.pop().unwrap().map(drop)
        }
    }
}

/// Whichever verb notices the demotion. Redis tells it only by a refusal, because it keeps the connections of its clients.
async fn is_abandoned_for_the_one_that_takes_writes(before_7: bool) {
    for verb in [Verb::Enter, Verb::Leave, Verb::RenewMutex, Verb::RenewReader] {
        let (former, now) = (Server::start(), Server::start());
        let name = Name::of(&former, before_7).await;
        let client = name.client();
        let (held, read) = (mutex("job"), reader("page"));
        let mine = [client.hold(&held).await, client.hold(&read).await];
        let nobody = Port::reserve();
        former.command::<()>(&format!("REPLICAOF 127.0.0.1 {nobody}"));
        name.leads_to(&now);
        let (entry, token) =
            if matches!(verb, Verb::RenewReader) { (&read, mine[1]) } else { (&held, mine[0]) };
        let refused = carry_out(verb, &client, entry, token).await.unwrap_err();
        assert_eq!(refused.kind(), &Kind::ReadOnly, "{verb:?}: {refused}");
        let next = client.enter(&mutex("next"), Step::Create, WaitMode::Queue).await;
        assert!(matches!(next, Ok(Standing::Admitted { .. })), "{verb:?}: {next:?}");
        assert!(now.keys().contains(&b"next".to_vec()), "{verb:?}: {:?}", now.keys());
    }
}

#[tokio::test]
async fn a_master_that_was_demoted_is_abandoned_for_the_one_that_takes_writes() {
    is_abandoned_for_the_one_that_takes_writes(false).await;
}

#[tokio::test]
async fn so_is_one_that_says_it_as_servers_before_7_do() {
    is_abandoned_for_the_one_that_takes_writes(true).await;
}

/// The clock of this machine, plus the time that the test let pass.
#[derive(Clone, Debug, Default)]
struct Ahead(Arc<Mutex<Duration>>);

impl Ahead {
    fn pass(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
}

impl Clock for Ahead {
    fn now(&self) -> BootTime {
        SystemClock.now() + *self.0.lock().unwrap()
    }
}

/// Makes the server a replica of a master that does not exist. The port stays unused as long as the returned value lives.
fn demote(server: &Server) -> Port {
    let nobody = Port::reserve();
    server.command::<()>(&format!("REPLICAOF 127.0.0.1 {nobody}"));
    nobody
}

async fn refusal(client: &Client) -> BackendError {
    client.enter(&mutex("another"), Step::Create, WaitMode::Try).await.unwrap_err()
}

/// The address keeps leading to the demoted master. At first the reason may be that a failover is not over.
#[tokio::test]
async fn a_demoted_master_that_stays_is_refused_with_what_to_use() {
    let (server, clock) = (Server::start(), Ahead::default());
    let keeper = Keeper::on_current_runtime(Arc::new(clock.clone()));
    let config = format!("{}?prefix=", server.url()).parse().unwrap();
    let client = Client { redis: Redis::new(config, &keeper).unwrap(), keeper };
    let held = mutex("job");
    client.hold(&held).await;
    let _nobody = demote(&server);
    for _ in 0..3 {
        let error = refusal(&client).await;
        assert!(*error.kind() == Kind::ReadOnly && error.is_transient(), "{error:?}");
    }
    clock.pass(Duration::from_secs(30));
    for _ in 0..3 {
        let error = refusal(&client).await;
        let Kind::WrongServer(instead) = error.kind() else { panic!("{error:?}") };
        assert!(instead.contains("connect to its master"), "{instead}");
        assert!(!error.is_transient() && error.is_unsent(), "{error:?}");
    }
    // A client that has a lock gets the same error.
    let left = client.redis.leave(&held, Creates::Answered).await.unwrap_err();
    assert!(matches!(left.kind(), Kind::WrongServer(_)), "{left:?}");
    server.command::<()>("REPLICAOF NO ONE");
    client.hold(&mutex("another")).await;
    client.leave(&held).await;
}

/// A sentinel closes the connections of the master that it demotes. If replicas take writes, clients have no other sign of the demotion.
#[tokio::test]
async fn a_replica_that_takes_writes_grants_nothing_to_a_client_that_comes_back() {
    let server = Server::start();
    // Longer than a busy machine pauses.
    let client = server.client_with("?command_timeout=20s");
    client.hold(&mutex("job")).await;
    server.command::<()>("CONFIG SET replica-read-only no");
    let _nobody = demote(&server);
    server.command::<()>("CLIENT KILL TYPE normal");
    let refused = soon(async {
        loop {
            let error = refusal(&client).await;
            // The client may send before it has seen its connection end, and on a busy machine a new connection may exceed its time limit.
            if !matches!(error.kind(), Kind::Unreachable | Kind::TimedOut) {
                return error;
            }
        }
    })
    .await;
    assert_eq!(refused.kind(), &Kind::ReadOnly, "{refused}");
    assert!(refused.to_string().contains("is a replica"), "{refused}");
    assert!(!server.keys().contains(&b"another".to_vec()));
}

/// The question costs a round trip, for which other connections have no reason to wait.
#[tokio::test]
async fn the_role_is_asked_for_only_where_it_is_in_doubt() {
    let server = Server::start();
    let client = server.client();
    client.hold(&mutex("job")).await;
    assert_eq!(server.calls("hello"), 0);
    let _nobody = demote(&server);
    assert_eq!(refusal(&client).await.kind(), &Kind::ReadOnly);
    assert_eq!(server.calls("hello"), 0, "it is told by the refusal");
    assert_eq!(refusal(&client).await.kind(), &Kind::ReadOnly);
    assert_eq!(server.calls("hello"), 1);
    server.command::<()>("REPLICAOF NO ONE");
    client.hold(&mutex("another")).await;
    client.hold(&mutex("next")).await;
    assert_eq!(server.calls("hello"), 2, "once for each connection");
}

/// A master that a failover has replaced, and that does not know it yet, has lost its replicas.
#[tokio::test]
async fn a_master_without_its_replicas_grants_nothing_where_it_is_set_so() {
    let server = Server::with(&["--min-replicas-to-write", "1"]);
    if server.command::<String>("INFO server").contains("redis_version:6.") {
        return ran_nothing(
            "a_master_without_its_replicas_grants_nothing_where_it_is_set_so",
            "before 7.0 scripts write all the same",
        );
    }
    let client = server.client();
    let error = client.enter(&mutex("job"), Step::Create, WaitMode::Queue).await.unwrap_err();
    assert_eq!(error.kind(), &Kind::Unavailable, "{error}");
    assert_eq!(server.keys(), Vec::<Vec<u8>>::new());
}
