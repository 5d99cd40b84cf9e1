//! [`RoleCheck`]: whether the address still leads to a server that takes writes.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use lock_core::{BackendErrorKind as Kind, BootTime, sync::Mutex};
use redis::Value;

use crate::{
    error::{Failure, REPLICA},
    server_info::{ServerInfo, use_instead},
};

/// How long an address may lead to a replica because a failover is not finished: longer than DNS, proxies and services take to follow
/// one. After that it is an error to be fixed.
const FAILOVER_GRACE: Duration = Duration::from_secs(30);

/// What the connections to one server have found out about its role.
///
/// A server does not tell its clients that it has become a replica: it refuses their writes, or closes their connections. After either, a
/// new connection asks for the role before it is used. Other new connections do not ask: that takes one more round trip, and a
/// connection that replaces a slow one has no time for it.
#[derive(Debug, Default)]
pub(super) struct RoleCheck {
    doubtful: AtomicBool,
    /// When a replica was found first, with no master since.
    replica_since: Mutex<Option<BootTime>>,
}

impl RoleCheck {
    /// The server refused a write, or closed a connection: it may not be the master any more.
    pub(super) fn mark_doubtful(&self) {
        self.doubtful.store(true, Ordering::Release);
    }

    /// Whether a new connection has to ask for the role.
    pub(super) fn is_doubtful(&self) -> bool {
        self.doubtful.load(Ordering::Acquire)
    }

    /// Checks an answer to `HELLO`. A server that does not tell its role counts as a master: if it is a replica, it refuses writes anyway.
    pub(super) fn check(&self, answer: &Value, address: &str, now: BootTime) -> Result<(), Failure> {
        let info = ServerInfo::from_pairs(answer);
        let mut since = self.replica_since.lock();
        let Some(instead) = use_instead(info.get("mode"), info.get("role")) else {
            *since = None;
            self.doubtful.store(false, Ordering::Release);
            return Ok(());
        };
        let first = *since.get_or_insert(now);
        if instead == REPLICA && now.since(first) < FAILOVER_GRACE {
            return Err(Failure::new(Kind::ReadOnly, format!("{address} is a replica")));
        }
        Err(Failure::new(Kind::WrongServer(instead), format!("{address} cannot be used")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{CLUSTER_NODE, SENTINEL};

    fn hello(mode: &str, role: &str) -> Value {
        let words = ["server", "redis", "mode", mode, "role", role];
        Value::Array(words.map(|word| Value::BulkString(word.into())).into())
    }

    /// The result of the check for a connection that is opened `after` seconds after the first.
    fn learned(role_check: &RoleCheck, answer: &Value, after: u64) -> Result<(), Kind> {
        let now = BootTime::new(Duration::from_secs(1_000 + after));
        role_check.check(answer, "h:1", now).map_err(|failure| failure.kind().clone())
    }

    #[test]
    fn a_replica_may_be_a_failover_for_a_while_and_is_the_wrong_server_then() {
        let (role_check, replica) = (RoleCheck::default(), hello("standalone", "replica"));
        role_check.mark_doubtful();
        for (after, kind) in [
            (0, Kind::ReadOnly),
            (29, Kind::ReadOnly),
            (30, Kind::WrongServer(REPLICA)),
            (900, Kind::WrongServer(REPLICA)),
        ] {
            assert_eq!(learned(&role_check, &replica, after), Err(kind), "after {after} s");
            assert!(role_check.is_doubtful());
        }
    }

    #[test]
    fn a_master_ends_the_doubt_and_the_next_demotion_is_another() {
        let (role_check, replica) = (RoleCheck::default(), hello("standalone", "replica"));
        assert!(!role_check.is_doubtful());
        role_check.mark_doubtful();
        assert_eq!(learned(&role_check, &replica, 0), Err(Kind::ReadOnly));
        assert_eq!(learned(&role_check, &hello("standalone", "master"), 29), Ok(()));
        assert!(!role_check.is_doubtful());
        role_check.mark_doubtful();
        assert_eq!(learned(&role_check, &replica, 100), Err(Kind::ReadOnly));
    }

    #[test]
    fn what_no_failover_makes_of_a_server_is_the_wrong_one_at_once() {
        let role_check = RoleCheck::default();
        for (mode, instead) in [("cluster", CLUSTER_NODE), ("sentinel", SENTINEL)] {
            let answer = hello(mode, "master");
            assert_eq!(learned(&role_check, &answer, 0), Err(Kind::WrongServer(instead)));
        }
    }

    #[test]
    fn a_server_that_does_not_tell_its_role_is_taken_for_a_master() {
        let role_check = RoleCheck::default();
        for answer in [Value::Nil, Value::Array(Vec::new()), Value::SimpleString("replica".into())] {
            role_check.mark_doubtful();
            assert_eq!(learned(&role_check, &answer, 0), Ok(()), "{answer:?}");
        }
    }
}
