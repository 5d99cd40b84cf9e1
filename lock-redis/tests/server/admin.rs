//! [`Admin`]: what an operator does to a server, over separate connections.

use std::time::Duration;

use lock_conformance::Footprint;
use lock_core::{FencingToken, LockName};
use redis::Value;

use crate::slots::{counter_id, counter_key};

const PATIENCE: Duration = Duration::from_secs(5);
/// The user of the clients, in cases that need one.
const USER: &str = "clients";

/// An operator with `redis-cli`.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    server: redis::Client,
    prefix: String,
    client_name: String,
}

impl Admin {
    /// An operator of the server with this URL, for the locks under a prefix and the clients with a client name.
    ///
    /// # Panics
    /// If the URL is bad.
    pub(crate) fn new(url: &str, prefix: &str, client_name: &str) -> Self {
        let server = redis::Client::open(url).expect("the URL of a test server is good");
        Self { server, prefix: prefix.to_owned(), client_name: client_name.to_owned() }
    }

    /// Sends one command and gives its answer.
    ///
    /// # Panics
    /// If the server does not carry it out.
    pub(crate) fn command(&self, command: &redis::Cmd) -> Value {
        self.try_command(command).unwrap_or_else(|error| panic!("the server did not do it: {error}"))
    }

    /// Sends one command and gives its answer, if there is one.
    pub(crate) fn try_command(&self, command: &redis::Cmd) -> redis::RedisResult<Value> {
        let mut connection = self.server.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        command.query(&mut connection)
    }

    /// `DEL` of the key of a lock.
    pub(crate) fn delete(&self, name: &LockName) {
        self.command(redis::cmd("DEL").arg(self.key(name)));
    }

    /// Stores a list under the key of a lock: no lock is a list.
    pub(crate) fn put_foreign(&self, name: &LockName) {
        self.command(redis::cmd("RPUSH").arg(self.key(name)).arg("not").arg("a lock"));
    }

    /// Whether the list is still there, unchanged.
    pub(crate) fn has_foreign(&self, name: &LockName) -> bool {
        let list = self.command(redis::cmd("LRANGE").arg(self.key(name)).arg(0).arg(-1));
        let bulk = |text: &str| Value::BulkString(text.into());
        list == Value::Array(vec![bulk("not"), bulk("a lock")])
    }

    /// Sets the counter of the slot of a name: see `docs/adr` for the stored format. Only for names without braces.
    pub(crate) fn raise_tokens(&self, name: &LockName, last: FencingToken) {
        assert!(!name.as_str().contains(['{', '}']), "such a name has another slot");
        let key = counter_key(&self.prefix, &self.key(name));
        self.command(redis::cmd("DEL").arg(&key));
        let id = counter_id(last.get());
        self.command(redis::cmd("XADD").arg(key).arg("MAXLEN").arg(0).arg(id).arg("t").arg(""));
    }

    /// Deletes the counters of tokens, if the server can be asked.
    pub(crate) fn delete_counters(&self) {
        let pattern = [self.prefix.as_bytes(), b"\xff2c*"].concat();
        let counters = self.try_command(redis::cmd("KEYS").arg(pattern));
        let counters: Option<Vec<Vec<u8>>> =
            counters.ok().and_then(|found| redis::from_redis_value(found).ok());
        for counter in counters.unwrap_or_default() {
            let _ = self.try_command(redis::cmd("DEL").arg(counter));
        }
    }

    /// What the clients use at the server; with `theirs`, the server is theirs alone, and its memory counts, too.
    pub(crate) fn footprint(&self, theirs: bool) -> Footprint {
        let pattern = [self.prefix.as_bytes(), b"*"].concat();
        let keys: Vec<Vec<u8>> = self.ask(redis::cmd("KEYS").arg(pattern));
        // See `docs/adr` for the stored format: token counters, and tombstones.
        let is_kept = |key: &&Vec<u8>| {
            let companion = key.get(self.prefix.len()..).unwrap_or_default();
            companion.starts_with(b"\xff2c") || companion.starts_with(b"\xff2x")
        };
        let kept = keys.iter().filter(is_kept).count() as u64;
        let clients: String = self.ask(redis::cmd("CLIENT").arg("LIST"));
        let name = format!(" name={} ", self.client_name);
        let ours: Vec<_> = clients.lines().filter(|line| line.contains(&name)).collect();
        let subscriptions = |line: &&str| {
            let count = line.split_once(" sub=").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
            count.unwrap_or(0_u64)
        };
        Footprint {
            queues: keys.len() as u64 - kept,
            kept,
            sessions: 0,
            connections: ours.len() as u64,
            subscriptions: ours.iter().map(subscriptions).sum(),
            memory: theirs.then(|| self.memory()),
        }
    }

    fn memory(&self) -> u64 {
        let info: String = self.ask(redis::cmd("INFO").arg("memory"));
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        used.and_then(|used| used.trim().parse().ok()).expect("the server tells how much memory it uses")
    }

    fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> T {
        redis::from_redis_value(self.command(command)).expect("the answer is what this command answers")
    }

    /// Breaks the subscriptions of all clients with our client name.
    pub(crate) fn cut_notifications(&self) {
        let list = self.command(redis::cmd("CLIENT").arg("LIST").arg("TYPE").arg("pubsub"));
        let list: String = redis::from_redis_value(list).expect("a list of clients is a text");
        let name = format!(" name={}", self.client_name);
        for line in list.lines().filter(|line| line.contains(&name)) {
            let id = line.split_once("id=").and_then(|(_, rest)| rest.split(' ').next());
            let id = id.expect("every client has an id");
            // If the client has closed it, the answer is 0.
            self.command(redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id));
        }
    }

    /// Adds a user for the clients, and returns the part of their URL that names it.
    pub(crate) fn add_user(&self) -> String {
        self.set_user(&["on", ">open", "~*", "&*", "+@all"]);
        format!("{USER}:open@")
    }

    /// Disables the user of the clients, or enables it again. False if they have no user of their own.
    pub(crate) fn allow_user(&self, allowed: bool) -> bool {
        if self.command(redis::cmd("ACL").arg("GETUSER").arg(USER)) == Value::Nil {
            return false;
        }
        self.set_user(&[if allowed { "on" } else { "off" }]);
        if !allowed {
            self.command(redis::cmd("CLIENT").arg("KILL").arg("USER").arg(USER));
        }
        true
    }

    fn set_user(&self, rules: &[&str]) {
        self.command(redis::cmd("ACL").arg("SETUSER").arg(USER).arg(rules));
    }

    /// Sets how much memory the server may use. 0 means no limit.
    pub(crate) fn limit_memory(&self, bytes: u64) {
        self.configure("maxmemory", &bytes.to_string());
    }

    /// Makes the server evict keys for lack of memory, until there are none.
    pub(crate) fn evict_all(&self) {
        self.configure("maxmemory-policy", "allkeys-random");
        self.limit_memory(1);
        // With each command it evicts as many as it has time for.
        while self.command(&redis::cmd("DBSIZE")) != Value::Int(0) {}
        self.limit_memory(0);
        self.configure("maxmemory-policy", "noeviction");
    }

    fn configure(&self, setting: &str, value: &str) {
        self.command(redis::cmd("CONFIG").arg("SET").arg(setting).arg(value));
    }

    fn key(&self, name: &LockName) -> Vec<u8> {
        [self.prefix.as_bytes(), name.as_str().as_bytes()].concat()
    }
}
