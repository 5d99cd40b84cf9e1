//! A server for each test, and its clients.
#![allow(dead_code)] // Each test file uses its own part.

pub(crate) mod slots;

use std::{sync::OnceLock, time::Duration};

use lock_conformance::LogText;
use lock_core::{
    Backend, BackendError, BackendErrorKind, Claim, Creates, Departure, Entropy, Entry, EntryId,
    FencingToken, Keeper, Lease, LockName, Renewal, Standing, Step, SystemEntropy, WaitMode,
};
use lock_redis::{Redis, RedisConfig};
use lock_test_servers::{RedisServer, ServerClock, block_on};
use redis::{FromRedisValue, RedisResult};

/// A server on a free port, without persistence. Dropping it kills it.
pub(crate) struct Server(RedisServer);

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with more arguments on its command line.
    pub(crate) fn with(arguments: &[&str]) -> Self {
        Self(block_on(RedisServer::start(arguments)))
    }

    /// With a wall clock that the test sets.
    pub(crate) fn on_clock(clock: &ServerClock) -> Self {
        Self(block_on(async {
            loop {
                let mut server = RedisServer::new(&[]);
                server.with_clock(clock);
                server.launch();
                if server.answers().await {
                    break server;
                }
            }
        }))
    }

    /// Kills the server, and starts it again on the same port: empty, unless it writes its data to a file.
    pub(crate) fn restart(&self) {
        block_on(self.0.restart());
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }

    /// A client with a keeper of its own, as another process would be.
    pub(crate) fn client(&self) -> Client {
        self.client_with("")
    }

    /// The same with parameters in the URL: `?prefix=…`. Without a prefix among them the prefix is empty, and a name is its key.
    pub(crate) fn client_with(&self, parameters: &str) -> Client {
        let mut config: RedisConfig = format!("{}{parameters}", self.url()).parse().unwrap();
        if !parameters.contains("prefix=") {
            config.prefix.clear();
        }
        let keeper = Keeper::start().unwrap();
        Client { redis: Redis::new(config, &keeper).unwrap(), keeper }
    }

    /// A client whose user may not end connections: its scripts create, and no plain commands.
    pub(crate) fn client_by_scripts(&self, parameters: &str) -> Client {
        self.command::<()>("ACL SETUSER scripts on >pw ~* &* +@all -client|kill");
        let url = self.url().replace("redis://", "redis://scripts:pw@");
        let mut config: RedisConfig = format!("{url}{parameters}").parse().unwrap();
        config.prefix.clear();
        let keeper = Keeper::start().unwrap();
        Client { redis: Redis::new(config, &keeper).unwrap(), keeper }
    }

    pub(crate) fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }

    /// Sends one command, whose words are separated by spaces.
    pub(crate) fn command<T: FromRedisValue>(&self, words: &str) -> T {
        let words: Vec<_> = words.split(' ').map(str::as_bytes).collect();
        self.bytes(&words)
    }

    /// Sends one command.
    pub(crate) fn bytes<T: FromRedisValue>(&self, words: &[&[u8]]) -> T {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        let answer: RedisResult<T> = command.query(&mut self.connection());
        answer.unwrap_or_else(|error| panic!("{}: {error}", String::from_utf8_lossy(&words.join(&b' '))))
    }

    /// Every key, sorted.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = self.command("KEYS *");
        keys.sort();
        keys
    }

    /// Everything that is stored, except the ttls.
    pub(crate) fn dump(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.keys().into_iter().map(|key| (key.clone(), self.bytes(&[b"DUMP", &key]))).collect()
    }

    /// The same without the counters of tokens: requests that are refused may draw from them.
    pub(crate) fn locks(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.dump().into_iter().filter(|(key, _)| !is_counter(key)).collect()
    }

    /// How often the server has run a command since the last `CONFIG RESETSTAT`, inside scripts or not.
    pub(crate) fn calls(&self, command: &str) -> u64 {
        let info: String = self.command("INFO commandstats");
        let start = format!("cmdstat_{command}:calls=");
        let calls = info.lines().find_map(|line| line.strip_prefix(&start)?.split(',').next());
        calls.map_or(0, |calls| calls.parse().unwrap())
    }

    /// Sets the last token of the slot of a name without braces, under no prefix.
    pub(crate) fn raise_tokens(&self, of: &str, last: u64) {
        self.set_counter(of, &slots::counter_id(last));
    }

    /// Sets the last id of the counter of this slot.
    pub(crate) fn set_counter(&self, of: &str, id: &str) {
        let key = counter(of);
        self.bytes::<()>(&[b"DEL", &key]);
        self.bytes::<()>(&[b"XADD", &key, b"MAXLEN", b"0", id.as_bytes(), b"t", b""]);
    }

    pub(crate) fn forget_calls(&self) {
        self.command::<()>("CONFIG RESETSTAT");
    }
}

/// One client, as a process of its own would be.
pub(crate) struct Client {
    pub(crate) redis: Redis,
    pub(crate) keeper: Keeper,
}

impl Client {
    pub(crate) async fn enter(
        &self,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        self.redis.enter(entry, step, wait).await
    }

    pub(crate) async fn create(&self, entry: &Entry) -> Standing {
        self.enter(entry, Step::Create, WaitMode::Queue).await.unwrap()
    }

    /// Enters and expects to be the holder.
    pub(crate) async fn hold(&self, entry: &Entry) -> FencingToken {
        admitted(self.create(entry).await)
    }

    /// Enters and expects to wait.
    pub(crate) async fn queue_up(&self, entry: &Entry) -> FencingToken {
        waiting(self.create(entry).await).token
    }

    pub(crate) async fn again(&self, entry: &Entry, token: FencingToken) -> Standing {
        self.enter(entry, Step::Again(token), WaitMode::Queue).await.unwrap()
    }

    pub(crate) async fn leave(&self, entry: &Entry) -> Departure {
        self.redis.leave(entry, Creates::Answered).await.unwrap()
    }

    pub(crate) async fn renew(&self, entry: &Entry, token: FencingToken) -> Renewal {
        let lease = Lease { entry: std::sync::Arc::new(entry.clone()), token };
        self.redis.renew(&[lease]).await.pop().unwrap().unwrap()
    }

    /// Enters and expects an error. Returns its kind.
    pub(crate) async fn refused(&self, entry: &Entry) -> BackendErrorKind {
        let answer = self.enter(entry, Step::Create, WaitMode::Queue).await;
        answer.expect_err("this must be refused").kind().clone()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.keeper.stop();
    }
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// An entry with a fresh id.
pub(crate) fn entry(of: &str, claim: Claim, ttl: Duration) -> Entry {
    Entry::new(name(of), EntryId::new(SystemEntropy.bits()), claim, ttl)
}

/// An entry of a mutex with a long ttl.
pub(crate) fn mutex(of: &str) -> Entry {
    entry(of, Claim::mutex(), ms(30_000))
}

pub(crate) fn semaphore(of: &str, permits: u32, limit: u32) -> Entry {
    entry(of, Claim::semaphore(permits, limit).unwrap(), ms(30_000))
}

pub(crate) fn reader(of: &str) -> Entry {
    entry(of, Claim::reader(), ms(30_000))
}

pub(crate) fn writer(of: &str) -> Entry {
    entry(of, Claim::writer(), ms(30_000))
}

/// The same entry with another ttl.
pub(crate) fn living(mut entry: Entry, ttl: u64) -> Entry {
    entry.ttl = ms(ttl);
    entry
}

/// A companion key of a name without braces, under no prefix.
pub(crate) fn companion(letter: &str, of: &str) -> Vec<u8> {
    [b"\xff2", letter.as_bytes(), b"{", of.as_bytes(), b"}"].concat()
}

/// The counter of tokens of a name without braces, under no prefix.
pub(crate) fn counter(of: &str) -> Vec<u8> {
    slots::counter_key("", of.as_bytes())
}

/// Whether a key under no prefix is a counter of tokens.
pub(crate) fn is_counter(key: &[u8]) -> bool {
    key.starts_with(b"\xff2c{")
}

pub(crate) fn admitted(standing: Standing) -> FencingToken {
    match standing {
        Standing::Admitted { token, .. } => token,
        other => panic!("not admitted: {other:?}"),
    }
}

pub(crate) struct Waiting {
    pub(crate) token: FencingToken,
    pub(crate) ahead: u64,
    pub(crate) look_again: lock_core::BootTime,
    pub(crate) holder: Option<lock_core::Holder>,
    pub(crate) hints: lock_core::Hints,
}

pub(crate) fn waiting(standing: Standing) -> Waiting {
    match standing {
        Standing::Waiting { token, ahead, look_again, holder, hints, .. } => {
            Waiting { token, ahead, look_again, holder, hints }
        }
        other => panic!("not waiting: {other:?}"),
    }
}

/// The ttl, in ms, of leases that end within a test: a hundred times as long as the requests take that the test makes while the leases
/// last.
pub(crate) const BRIEF: u64 = 1_000;

/// Sleeps until a lease of `ttl` ms that was requested before has ended on the server.
pub(crate) async fn outlive(ttl: u64) {
    tokio::time::sleep(ms(ttl + 20)).await;
}

/// Waits for a future that has to complete by itself. If it does not, the test fails instead of hanging.
pub(crate) async fn soon<T>(coming: impl Future<Output = T>) -> T {
    tokio::time::timeout(ms(20_000), coming).await.expect("this should have come long ago")
}

/// The warnings of this program, earlier ones included.
pub(crate) fn warnings() -> LogText {
    static LOG: OnceLock<LogText> = OnceLock::new();
    let log = LOG.get_or_init(|| {
        let log = LogText::default();
        let writer = log.clone();
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::WARN)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .init();
        log
    });
    log.clone()
}

/// A client that creates by plain commands: it knows what the server calls its connection.
pub(crate) async fn plain(server: &Server, parameters: &str) -> Client {
    let client = server.client_with(parameters);
    uses_plain_commands(server, &client).await;
    client
}

/// Waits until a client creates by plain commands.
pub(crate) async fn uses_plain_commands(server: &Server, client: &Client) {
    soon(async {
        loop {
            let before = server.calls("set");
            let (entry, scripts) = (mutex("warm"), server.calls("evalsha") + server.calls("eval"));
            client.hold(&entry).await;
            let after = server.calls("evalsha") + server.calls("eval");
            client.leave(&entry).await;
            if server.calls("set") > before && after == scripts {
                return;
            }
        }
    })
    .await;
    server.forget_calls();
}

/// What a key holds; empty if it does not exist.
pub(crate) fn value(server: &Server, of: &str) -> String {
    server.command::<Option<String>>(&format!("GET {of}")).unwrap_or_default()
}
