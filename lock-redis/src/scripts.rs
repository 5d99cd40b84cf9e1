//! [`Script`]: one verb, as Lua that the server runs in one go.
//!
//! A verb is a fast path for what nobody contends, the functions that all verbs share, and the general case. They are
//! joined in this order, because Lua makes its functions anew on every call, and the fast path should not pay for them.
//! There is no `#!lua` line: with one, a script is refused when memory is short, whatever it does first (PR20).

use std::sync::LazyLock;

/// A script and its digest, which is what is sent: the server keeps the source once it has seen it.
#[derive(Debug)]
pub(crate) struct Script {
    source: String,
    sha: String,
}

impl Script {
    pub(crate) fn new(fast_path: &str, general: &str) -> Self {
        let source = [fast_path, include_str!("scripts/library.lua"), general].concat();
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

pub(crate) static ENTER: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/enter_fast.lua"), include_str!("scripts/enter.lua")));

pub(crate) static RENEW: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/renew_fast.lua"), include_str!("scripts/renew.lua")));

pub(crate) static LEAVE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/leave_fast.lua"), include_str!("scripts/leave.lua")));

pub(crate) static QUEUE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/queue_head.lua"), include_str!("scripts/queue.lua")));
