//! Tests of the harness of this crate: the shared server, and what it reports about each test.

use std::{
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use lock_conformance::{Footprint, SLACK, ServerControl, audit::eventually};
use lock_core::DistributedLock;
use tokio::task::JoinSet;

use crate::{
    common::{client, options, take},
    server::TestServer,
};

const NAME: &str = "job";

async fn footprint(server: &TestServer) -> Footprint {
    server.footprint().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_case_has_at_a_server_is_told_apart_from_what_others_have() {
    let (one, two) = (TestServer::shared().await, TestServer::shared().await);
    assert_eq!(one.address(), two.address());
    let shared = a_holder_and_a_waiter(&one).await;
    assert_eq!(footprint(&two).await, Footprint::default());

    let alone = TestServer::own().await;
    let at_its_own = a_holder_and_a_waiter(&alone).await;
    assert!(footprint(&alone).await.memory.is_some(), "it is that of one case");
    drop((shared, at_its_own));
    let nothing = |at: Footprint| Footprint { memory: None, ..at } == Footprint::default();
    for server in [&one, &alone] {
        eventually("the end of all that was dropped", SLACK, || async { nothing(footprint(server).await) })
            .await;
    }
}

/// Two clients with a session each: one holds a lock, and the other one waits for it. Returns when the server shows both.
async fn a_holder_and_a_waiter(server: &TestServer) -> impl Sized {
    // Each session watches for evictions, and the waiter for the holder and for its own node.
    let wanted =
        Footprint { queues: 2, sessions: 2, connections: 2, subscriptions: 4, ..Footprint::default() };
    let (holder, other) = (client(&server.url()), client(&server.url()));
    take(&other, "first", &options()).await.release().await.unwrap();
    let held = take(&holder, NAME, &options()).await;
    let lock = other.mutex(NAME).with_options(options());
    let mut waiter = JoinSet::new();
    waiter.spawn(async move { lock.acquire().await.map(drop) });
    let end = Instant::now() + SLACK;
    loop {
        let seen = Footprint { memory: None, ..footprint(server).await };
        if seen == wanted {
            return (waiter, held, holder, other);
        }
        assert!(Instant::now() < end, "{seen:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_that_shares_a_server_may_not_end_it() {
    let server = TestServer::shared().await;
    for refused in [server.kill().await, server.stop().await, server.pause().await] {
        assert!(refused.is_err());
    }
}

/// Makes the test below the program that is killed.
const VARIABLE: &str = "DISTLOCK_ZK_KILLED";

#[tokio::test(flavor = "multi_thread")]
async fn a_test_program_that_is_killed_leaves_no_server_and_no_file_behind() {
    if env::var_os(VARIABLE).is_some() {
        let server = TestServer::shared().await;
        println!("@at {}", server.admin().data().await);
        return std::future::pending().await;
    }
    let mut program = Command::new(env::current_exe().unwrap())
        .args([
            "harness::a_test_program_that_is_killed_leaves_no_server_and_no_file_behind",
            "--exact",
            "--nocapture",
        ])
        .env(VARIABLE, "")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines().map_while(Result::ok);
    let data = lines.find_map(|line| line.split_once("@at ").map(|(_, data)| data.to_owned())).unwrap();
    let directory = Path::new(&data).ancestors().nth(2).unwrap();
    assert!(directory.is_dir() && is_used(directory), "{data}");
    program.kill().unwrap();
    program.wait().unwrap();
    let gone = || async { !directory.exists() && !is_used(directory) };
    eventually("the end of the server, and of its files", SLACK + Duration::from_secs(5), gone).await;
}

/// Whether a process has this directory on its command line.
fn is_used(directory: &Path) -> bool {
    let told = |process: std::fs::DirEntry| {
        // A process that has ended in the meantime uses nothing.
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&*directory.to_string_lossy())
    };
    std::fs::read_dir("/proc").unwrap().flatten().any(told)
}
