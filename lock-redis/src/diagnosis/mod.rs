//! Facts about the server, and its problems as a store of locks.

mod acl;
mod counters;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::{BackendError, BackendErrorKind as Kind, Diagnosis, excerpt};
use redis::Cmd;

use crate::{
    client::Client,
    config::RedisConfig,
    error::STORE,
    notify::Notifications,
    server_info::{self, ServerInfo, use_instead},
};

/// The oldest version that has all commands of the scripts: `SET … PXAT` and `ZADD … GT`.
const MIN_VERSION: (u32, u32) = (6, 2);

/// Two clocks that are kept by a time service differ by less than this.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);

/// Whether the server answers, takes our credentials, can keep locks, and is new enough.
pub(crate) async fn check(client: &Client, config: &RedisConfig) -> Result<(), BackendError> {
    let mut hello = Cmd::new();
    hello.arg("HELLO");
    let answer = client.command(&hello).await.map_err(|error| match error.kind() {
        // A refusal while connecting has its own reason, such as a database that does not exist.
        Kind::Unsupported if !error.is_unsent() => unsupported(client.server(), "older than 6.0"),
        _ => error,
    })?;
    let facts = ServerInfo::from_pairs(&answer);
    if let Some(instead) = use_instead(facts.get("mode"), facts.get("role")) {
        return Err(BackendError::new(STORE, Kind::WrongServer(instead), format!("{config} cannot be used")));
    }
    let version = facts.get("version").unwrap_or_default();
    if is_too_old(version) { Err(unsupported(client.server(), version)) } else { Ok(()) }
}

pub(crate) async fn diagnose(
    client: &Client,
    config: &RedisConfig,
    notifications: &Notifications,
) -> Result<Diagnosis, BackendError> {
    let mut info = Cmd::new();
    info.arg("INFO");
    let facts = ServerInfo::from_info(&client.command(&info).await?);
    let settings = settings(client).await?;
    let ClockDifference { by: ahead, uncertain } = clock_ahead(client).await?;

    let mut diagnosis = Diagnosis::default();
    describe(&mut diagnosis, &facts, &settings, ahead);
    shape_problems(&mut diagnosis.problems, &facts);
    data_problems(&mut diagnosis.problems, &facts, &settings);
    diagnosis.problems.extend(notifications.problems().await.map_err(|failure| failure.to_unsent())?);
    check_users(client, config, &mut diagnosis).await?;
    counters::check(client, &config.prefix, &mut diagnosis).await?;
    if ahead.unsigned_abs() > MAX_CLOCK_DIFFERENCE.as_millis() + uncertain {
        diagnosis.problems.push(format!(
            "the server's clock differs from this machine's by {ahead} ms: leases are counted on the server alone, but set \
             both by a time service, for a clock that is set later ends leases too early or too late"
        ));
    }
    Ok(diagnosis)
}

fn describe(diagnosis: &mut Diagnosis, facts: &ServerInfo, settings: &ServerInfo, ahead: i128) {
    let known = |name: &str| excerpt(format_args!("{}", facts.get(name).unwrap_or("unknown")));
    let server = if facts.get("valkey_version").is_some() { "valkey" } else { "redis" };
    diagnosis.facts = vec![
        ("store", server.to_owned()),
        ("version", version(facts)),
        ("mode", known("redis_mode")),
        ("role", known("role")),
        ("replicas", known("connected_slaves")),
        ("persistence", persistence(facts, settings)),
        ("maxmemory", known("maxmemory")),
        ("maxmemory-policy", known("maxmemory_policy")),
        ("clock ahead by ms", ahead.to_string()),
    ];
}

fn shape_problems(problems: &mut Vec<String>, facts: &ServerInfo) {
    if is_too_old(facts.get("redis_version").unwrap_or_default()) {
        problems.push(format!("version {} is too old: use 6.2 or later", version(facts)));
    }
    problems.extend(use_instead(facts.get("redis_mode"), facts.get("role")).map(str::to_owned));
    if facts.number("connected_slaves").is_some_and(|replicas| replicas > 0) {
        problems.push(
            "there are replicas, and replication does not wait: a failover can lose locks that are held, so let the \
             resource check fencing tokens"
                .into(),
        );
    }
}

fn data_problems(problems: &mut Vec<String>, facts: &ServerInfo, settings: &ServerInfo) {
    let limit = facts.number("maxmemory").unwrap_or(0);
    let policy = facts.get("maxmemory_policy").unwrap_or("noeviction");
    if limit > 0 && policy != "noeviction" {
        let policy = excerpt(format_args!("{policy}"));
        problems.push(format!(
            "maxmemory-policy is {policy}, which deletes locks that are held when memory is short: set it to noeviction, \
             or use a server of its own"
        ));
    }
    if limit > 0 && facts.number("used_memory").is_some_and(|used| used >= limit) {
        problems.push(
            "the server is out of memory, so no lock can be taken: free some, or raise maxmemory".into(),
        );
    }
    if persistence(facts, settings) == "none" {
        problems.push(
            "nothing is written to disk, so a restart frees all locks that are held: set appendonly to yes, or restart no \
             sooner than the longest ttl"
                .into(),
        );
    }
    if facts.get("aof_last_write_status") == Some("err") || facts.get("rdb_last_bgsave_status") == Some("err")
    {
        problems.push(
            "the server could not write to its disk, and may refuse all writes: make room, and see its log"
                .into(),
        );
    }
}

fn persistence(facts: &ServerInfo, settings: &ServerInfo) -> String {
    let snapshots = settings.get("save").map(|save| !save.is_empty());
    match (facts.get("aof_enabled") == Some("1"), snapshots) {
        (true, _) => excerpt(format_args!("aof, fsync {}", settings.get("appendfsync").unwrap_or("unknown"))),
        (false, Some(true)) => "snapshots".into(),
        (false, Some(false)) => "none".into(),
        (false, None) => "no aof; snapshots unknown without permission for CONFIG GET".into(),
    }
}

/// What `CONFIG GET` tells. Empty where it is not permitted, as on hosted servers.
async fn settings(client: &Client) -> Result<ServerInfo, BackendError> {
    let mut all = ServerInfo::default();
    for name in ["save", "appendfsync"] {
        let mut get = Cmd::new();
        get.arg("CONFIG").arg("GET").arg(name);
        match client.command(&get).await {
            Ok(answer) => all.add_pairs(&answer),
            Err(error) if matches!(error.kind(), Kind::Denied | Kind::Unsupported) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Adds the users that may forge a hand-off. None if hints are confirmed.
async fn check_users(
    client: &Client,
    config: &RedisConfig,
    diagnosis: &mut Diagnosis,
) -> Result<(), BackendError> {
    if config.confirm_hints {
        return Ok(());
    }
    let mut list = Cmd::new();
    list.arg("ACL").arg("LIST");
    let users = match client.command(&list).await {
        Ok(answer) => acl::forgers(&answer, &config.prefix),
        Err(error) if matches!(error.kind(), Kind::Denied | Kind::Unsupported) => {
            diagnosis.facts.push(("users", "not told".to_owned()));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    if !users.is_empty() {
        diagnosis.problems.push(format!(
            "these users may publish on the channels of locks though they may not take one, and so can make a waiter believe that it \
             has a lock: {}; take the channels from them (resetchannels), or set confirm_hints",
            users.join(", ")
        ));
    }
    Ok(())
}

/// How much two clocks differ, in milliseconds.
#[derive(Debug, PartialEq, Eq)]
struct ClockDifference {
    /// By how much the server's clock is ahead of ours.
    by: i128,
    /// The uncertainty of `by`: half of the round trip.
    uncertain: u128,
}

impl ClockDifference {
    /// The server read its clock between two readings of ours.
    fn between(before: i128, theirs: i128, after: i128) -> Self {
        Self { by: theirs - i128::midpoint(before, after), uncertain: after.abs_diff(before).div_ceil(2) }
    }
}

async fn clock_ahead(client: &Client) -> Result<ClockDifference, BackendError> {
    let mut time = Cmd::new();
    time.arg("TIME");
    let before = wall_clock();
    let answer = client.command(&time).await?;
    let after = wall_clock();
    let theirs = server_info::time(&answer).ok_or_else(|| {
        let message = format!("{} sent a malformed answer to TIME", client.server());
        BackendError::new(STORE, Kind::Protocol, message)
    })?;
    Ok(ClockDifference::between(before, theirs, after))
}

fn wall_clock() -> i128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis().cast_signed())
}

fn version(facts: &ServerInfo) -> String {
    let told = facts.get("valkey_version").or_else(|| facts.get("redis_version"));
    excerpt(format_args!("{}", told.unwrap_or("unknown")))
}

/// `false` if the version is unknown: a program that is compatible with Redis may not report one.
pub(crate) fn is_too_old(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < MIN_VERSION,
        _ => false,
    }
}

fn unsupported(server: &str, version: &str) -> BackendError {
    let version = excerpt(format_args!("{version}"));
    let message = format!("the server at {server} is {version}; 6.2 or later is needed");
    BackendError::new(STORE, Kind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    fn problems(info: &str) -> Vec<String> {
        let facts = ServerInfo::from_info(&Value::BulkString(info.as_bytes().to_vec()));
        let mut problems = Vec::new();
        shape_problems(&mut problems, &facts);
        data_problems(&mut problems, &facts, &ServerInfo::default());
        problems
    }

    #[test]
    fn a_slow_answer_is_no_difference_of_clocks() {
        // Read at once, and answered late; and the other way round.
        for theirs in [1_000, 5_000] {
            let ClockDifference { by, uncertain } = ClockDifference::between(1_000, theirs, 5_000);
            assert!(by.unsigned_abs() <= uncertain, "{by} give or take {uncertain}");
        }
        assert_eq!(
            ClockDifference::between(1_000, 9_002, 1_004),
            ClockDifference { by: 8_000, uncertain: 2 }
        );
    }

    #[test]
    fn a_server_that_is_well_has_no_problems() {
        assert_eq!(
            problems("redis_version:7.0.15\r\nrole:master\r\naof_enabled:1\r\nmaxmemory:0\r\n"),
            [""; 0]
        );
    }

    #[test]
    fn each_problem_is_one_sentence_of_its_own() {
        for (info, says) in [
            ("redis_version:6.0.16", "6.2 or later"),
            ("role:slave", "replica"),
            ("redis_mode:cluster", "cluster"),
            ("redis_mode:sentinel", "sentinel"),
            ("connected_slaves:2", "failover"),
            ("maxmemory:100\r\nmaxmemory_policy:allkeys-lru", "noeviction"),
            ("maxmemory:100\r\nmaxmemory_policy:volatile-ttl", "noeviction"),
            ("maxmemory:100\r\nused_memory:100", "out of memory"),
            ("rdb_last_bgsave_status:err", "disk"),
        ] {
            let found = problems(info);
            assert!(found.len() == 1 && found[0].contains(says), "{info}: {found:?}");
        }
    }

    #[test]
    fn a_policy_that_never_acts_is_no_problem() {
        assert_eq!(problems("maxmemory:0\r\nmaxmemory_policy:allkeys-lru"), [""; 0]);
    }

    #[test]
    fn a_version_is_shown_as_harmless_as_it_is_long() {
        let version = format!("6.0\u{1b}[2J\u{202e}{}", "x".repeat(1_000));
        let shown = unsupported("h:1", &version).to_string();
        assert!(shown.starts_with("redis: the server at h:1 is 6.0\\u{1b}"), "{shown}");
        assert!(shown.contains("6.0\\u{1b}[2J\\u{202e}") && shown.len() < 400, "{shown}");
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        for (version, too_old) in
            [("6.0.16", true), ("6.2.0", false), ("10.0", false), ("5.9", true), ("", false), ("x.y", false)]
        {
            assert_eq!(is_too_old(version), too_old, "{version}");
        }
    }
}
