//! Bugs that locks on Redis have had, simulated between a client and the server, and the cases that have to find them. See
//! `docs/bug-bank.md`.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use lock_conformance::{BankedBug, Harness, Layer, finds, ran_nothing};
use lock_core::{
    Backend, BackendError, BackendErrorKind, Clock, Creates, Departure, Entry, Hint, Lease, LockName,
    Renewal, Standing, Step, SystemClock, WaitMode, valid_until,
};
use lock_redis::RedisConfig;
use redis::Value;

use crate::{
    RedisHarness,
    server::{self, Admin},
};

const BUGS: &[BankedBug] = &[
    BankedBug {
        id: "b03",
        case: ("renewal", "a_renewal_creates_nothing"),
        says: "left: Renewed",
        make: |harness| Arc::new(RenewsBySet(Commands::to(harness))),
    },
    BankedBug {
        id: "b04",
        case: ("renewal", "a_renewal_extends_nobody_elses_lease"),
        says: "left: Renewed",
        make: |harness| Arc::new(RenewsAnyHolder(Commands::to(harness))),
    },
    BankedBug {
        id: "b05",
        case: ("exclusion", "a_client_that_does_not_hold_a_lock_cannot_release_it"),
        says: "a stranger released the lock of another",
        make: |harness| Arc::new(ReleasesAnyHolder(Commands::to(harness))),
    },
    BankedBug {
        id: "b11",
        case: ("liveness", "waiters_look_again_when_their_notifications_come_back"),
        says: "the turn of a waiter who was told nothing: not within",
        make: |_| Arc::new(GoesOnWithoutALook),
    },
    BankedBug {
        id: "b39",
        case: ("alone", "a_look_of_a_waiter_costs_the_same_however_many_wait"),
        says: "bytes for a look among",
        make: |_| Arc::new(ReadsTheWholeQueue::default()),
    },
];

fn is_found(id: &str) {
    BankedBug::assert_found::<RedisHarness>(BUGS, id);
}

/// Sends the commands of a bug, which bypass our own scripts.
#[derive(Debug)]
struct Commands {
    server: Admin,
    prefix: String,
}

impl Commands {
    fn to(harness: &dyn Harness) -> Self {
        let url = harness.address().expect("other processes find the server, too");
        let config = RedisConfig::from_url(&url).expect("the URL of a test server is good");
        let server = url.split('?').next().unwrap_or_default();
        Self { server: Admin::new(server, &config.prefix, ""), prefix: config.prefix }
    }

    /// A command about the key of a lock.
    fn send(&self, command: &str, name: &LockName, arguments: &[String]) -> Value {
        let key = [&self.prefix, name.as_str()].concat();
        self.server.command(redis::cmd(command).arg(key).arg(arguments))
    }
}

fn renewed(lease: &Lease) -> Renewal {
    let ttl = lease.entry.ttl;
    Renewal::Renewed { valid_until: valid_until(SystemClock.now(), ttl, ttl) }
}

/// The holder writes its key once more, whether or not it is there (H44).
#[derive(Debug)]
struct RenewsBySet(Commands);

#[async_trait]
impl Layer for RenewsBySet {
    async fn renew(&self, _: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let renew = |lease: &Lease| {
            let answer = renewed(lease);
            let value = format!("{}:{}", lease.token, lease.entry.id);
            let ttl = lease.entry.ttl.as_millis().to_string();
            self.0.send("SET", &lease.entry.name, &[value, "PX".to_owned(), ttl]);
            Ok(answer)
        };
        leases.iter().map(renew).collect()
    }
}

#[test]
fn b03_a_renewal_by_set_is_found() {
    is_found("b03");
}

/// The key lives longer, whichever entry it belongs to (H45).
#[derive(Debug)]
struct RenewsAnyHolder(Commands);

#[async_trait]
impl Layer for RenewsAnyHolder {
    async fn renew(&self, _: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let renew = |lease: &Lease| {
            let (answer, ttl) = (renewed(lease), lease.entry.ttl.as_millis().to_string());
            let there = self.0.send("PEXPIRE", &lease.entry.name, &[ttl]) == Value::Int(1);
            Ok(if there { answer } else { Renewal::Lost })
        };
        leases.iter().map(renew).collect()
    }
}

#[test]
fn b04_a_renewal_of_another_holder_is_found() {
    is_found("b04");
}

/// The key is deleted, whichever entry it belongs to (H24).
#[derive(Debug)]
struct ReleasesAnyHolder(Commands);

#[async_trait]
impl Layer for ReleasesAnyHolder {
    async fn leave(
        &self,
        _: &Arc<dyn Backend>,
        entry: &Entry,
        _: Creates,
    ) -> Result<Departure, BackendError> {
        let there = self.0.send("DEL", &entry.name, &[]) == Value::Int(1);
        Ok(if there { Departure::Left } else { Departure::Absent })
    }
}

#[test]
fn b05_a_release_of_another_holder_is_found() {
    is_found("b05");
}

/// The connection is opened again, and waiters do not learn that they may have missed hints (H74).
#[derive(Debug)]
struct GoesOnWithoutALook;

#[async_trait]
impl Layer for GoesOnWithoutALook {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let mut standing = store.enter(entry, step, wait).await?;
        if let Standing::Waiting { hints, .. } = &mut standing {
            let told = std::mem::replace(hints, Box::pin(stream::empty()));
            *hints = Box::pin(told.filter(|hint| std::future::ready(*hint != Hint::Changed)));
        }
        Ok(standing)
    }
}

#[test]
fn b11_a_stream_that_goes_on_without_a_look_is_found() {
    is_found("b11");
}

/// At every tenth look, a client reads the whole queue. A waiter needs only the entries ahead that it waits for.
#[derive(Debug, Default)]
struct ReadsTheWholeQueue(AtomicUsize);

#[async_trait]
impl Layer for ReadsTheWholeQueue {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        // If this were done more often, the machine would be too busy for the looks themselves.
        if step != Step::Create && self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(10) {
            store.operator().queue(&entry.name).await?;
        }
        store.enter(entry, step, wait).await
    }
}

/// This case has very many waiters.
mod alone {
    #[test]
    fn b39_a_waiter_that_reads_the_whole_queue_is_found() {
        super::is_found("b39");
    }
}

#[test]
fn the_bugs_of_redis_are_listed_with_their_cases() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/bug-bank.md");
    let text = fs::read_to_string(path).expect("the document is there");
    let rows = text.lines().filter(|line| line.contains("| Redis |"));
    let listed: BTreeSet<String> = rows
        .map(|row| row.split('|').map(|cell| cell.trim().replace('`', "")).collect::<Vec<_>>())
        .map(|cells| format!("{} {}", cells[1], cells[4]))
        .collect();
    let ours = BUGS.iter().map(|bug| format!("{} {}::{}", bug.id, bug.case.0, bug.case.1));
    assert_eq!(listed, ours.collect());
}

/// A waiter treats a refusal as final, as if the server could not serve it again.
#[derive(Debug)]
struct GivesUpWhenLockedOut;

#[async_trait]
impl Layer for GivesUpWhenLockedOut {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let answer = store.enter(entry, step, wait).await;
        match answer {
            Err(error) if step != Step::Create && *error.kind() == BackendErrorKind::Denied => {
                Err(BackendError::new("redis", BackendErrorKind::Unsupported, "a final refusal"))
            }
            answer => answer,
        }
    }
}

#[test]
fn a_waiter_that_gives_up_when_it_is_locked_out_is_found() {
    if server::url().is_some() {
        let test = "bug_bank::a_waiter_that_gives_up_when_it_is_locked_out_is_found";
        return ran_nothing(test, "declared T24: nobody may lock out the clients of a server of others");
    }
    let (group, case) = ("outages", "clients_that_are_locked_out_for_a_while_lose_nothing");
    let said = finds::<RedisHarness>(group, case, |_| Arc::new(GivesUpWhenLockedOut));
    let said = said.unwrap_or_else(|| panic!("{group}::{case} does not find it"));
    assert!(said.contains("a look is tried again"), "{said}");
}
