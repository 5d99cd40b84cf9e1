//! [`Script`]: Lua that the server runs atomically: one verb, or several.
//!
//! A verb consists of a fast path for locks without contention, the functions that all verbs share, and the general case. They are
//! joined in this order, because Lua defines its functions again on every call, and the fast path should not pay for that. In a script of
//! its own, the keys and arguments of a verb are local variables; in a [`BATCH`], a verb is a function, and they are its parameters. There
//! is no `#!lua` line: with one, the server refuses a script when memory is short, whatever the script does first (PR20).

use std::sync::LazyLock;

/// The functions that all verbs share.
const LIBRARY: &str = include_str!("scripts/library.lua");

/// A script and its digest. Only the digest is sent: the server keeps the source once it has seen it.
#[derive(Debug)]
pub(crate) struct Script {
    source: String,
    sha: String,
}

impl Script {
    pub(crate) fn new(fast_path: &str, general: &str) -> Self {
        Self::of([fast_path, LIBRARY, general].concat())
    }

    fn of(source: String) -> Self {
        let sha = redis::Script::new(&source).get_hash().to_owned();
        Self { source, sha }
    }

    /// For `EVAL` and `SCRIPT LOAD`.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// For `EVALSHA`: 40 hexadecimal digits.
    pub(crate) fn sha(&self) -> &str {
        &self.sha
    }
}

pub(crate) static ENTER: LazyLock<Script> = LazyLock::new(|| ENTERING.alone());

pub(crate) static LEAVE: LazyLock<Script> = LazyLock::new(|| LEAVING.alone());

/// Several verbs that enter or leave.
pub(crate) static BATCH: LazyLock<Script> = LazyLock::new(|| {
    let functions = [&ENTERING, &LEAVING].map(Verb::function).concat();
    Script::of([BEFORE_VERBS, &functions, include_str!("scripts/batch.lua")].concat())
});

pub(crate) static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::of(include_str!("scripts/release.lua").to_owned()));

pub(crate) static RENEW: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/renew_fast.lua"), include_str!("scripts/renew.lua")));

pub(crate) static QUEUE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/queue_head.lua"), include_str!("scripts/queue.lua")));

pub(crate) static COUNTERS: LazyLock<Script> =
    LazyLock::new(|| Script::of(include_str!("scripts/counters.lua").to_owned()));

pub(crate) static PERHAPS_OURS: LazyLock<Script> =
    LazyLock::new(|| Script::of(include_str!("scripts/perhaps_ours.lua").to_owned()));

/// A verb that can be part of a batch. The verbs of a batch read the clock once.
struct Verb {
    name: &'static str,
    /// The names of its keys and arguments.
    keys: &'static [&'static str],
    args: &'static [&'static str],
    fast_path: &'static str,
    general: &'static str,
}

static ENTERING: Verb = Verb {
    name: "enter",
    keys: &["raw", "q", "e", "counter", "tombstone"],
    args: &["owner", "ttl", "claim", "channel"],
    fast_path: include_str!("scripts/enter_fast.lua"),
    general: include_str!("scripts/enter.lua"),
};

static LEAVING: Verb = Verb {
    name: "leave",
    keys: &["raw", "q", "e", "tombstone"],
    args: &["id", "fast", "channel", "life", "alarms"],
    fast_path: include_str!("scripts/leave_fast.lua"),
    general: include_str!("scripts/leave.lua"),
};

/// The variables that verbs expect in addition to their keys and arguments.
const BEFORE_VERBS: &str = "local call, now_us = redis.call, nil\n";

impl Verb {
    fn alone(&self) -> Script {
        let keys = (1..=self.keys.len()).map(|i| format!("KEYS[{i}]"));
        let args = (1..=self.args.len()).map(|i| format!("ARGV[{i}]"));
        let values: Vec<_> = keys.chain(args).collect();
        let names = format!("local {} = {}\n", self.names(), values.join(", "));
        Script::of([BEFORE_VERBS, &names, &self.body()].concat())
    }

    fn function(&self) -> String {
        format!("local function {}({})\n{}end\n", self.name, self.names(), self.body())
    }

    fn names(&self) -> String {
        [self.keys, self.args].concat().join(", ")
    }

    fn body(&self) -> String {
        [self.fast_path, LIBRARY, self.general].concat()
    }
}
