//! A master that is demoted for good: the name of the store leads to another server from then on, and nothing but the refusals of
//! the old one says so.

mod common;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use common::*;
use lock_conformance::Port;
use lock_core::{
    Backend, BackendError, BackendErrorKind as Kind, Creates, Entry, FencingToken, Keeper, Lease, Standing,
    Step, WaitMode,
};
use lock_redis::Redis;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// What a replica says to a script that writes, up to what it says of all writes; and what it says before 7.0.
const REFUSED: (&[u8], &[u8]) = (
    b"-READONLY ",
    b"-ERR Error running script (call to f_1f8f4cfba6f3375f8c4ec02b9de4361a5dea5c64): @user_script:1: @user_script: 1: -READONLY ",
);

/// The same where the script has caught it.
const CAUGHT: (&[u8], &[u8]) = (
    b"$53\r\nREADONLY You can't write against a read only replica.\r\n",
    b"$73\r\n@user_script: 1: -READONLY You can't write against a read only replica.\r\n\r\n",
);

/// An address that leads every new connection to the server that it is told.
struct Name {
    address: SocketAddr,
    server: Arc<Mutex<String>>,
}

impl Name {
    /// `before_7`: refusals come as servers before 7.0 write them.
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
        // One read has the whole of what the server writes at once.
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
    /// What is refused to one of several is said in its place.
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
            // Longer than what is left, or there is nothing to write.
            let lease = Lease { entry: Arc::new(living(entry.clone(), 60_000)), token };
            client.redis.renew(&[lease]).await.pop().unwrap().map(drop)
        }
    }
}

/// Whoever notices it. That it is told by a refusal, and not by a connection that ends, is what Redis does: it keeps its clients.
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
