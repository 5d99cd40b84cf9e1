//! What the tests of this crate rely on: a server that they share, and what it tells of each of them.

mod common;
mod server;

use std::{
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use common::{client, options, take, waiting};
use lock_conformance::{Footprint, SLACK, ServerControl, audit::eventually};
use server::TestServer;

const NAME: &str = "job";

async fn footprint(server: &TestServer) -> Footprint {
    server.footprint().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_case_has_at_a_server_is_told_apart_from_what_others_have() {
    let (one, two) = (TestServer::shared().await, TestServer::shared().await);
    assert_eq!(one.address(), two.address());
    let (holder, other) = (client(&one.url()), client(&one.url()));
    let _held = take(&holder, NAME, &options()).await;
    let waiter = waiting(&other, NAME, &options(), 2).await;
    // Each session watches for evictions, and the waiter for the holder and for its own node.
    let wanted =
        Footprint { queues: 2, sessions: 2, connections: 2, subscriptions: 4, ..Footprint::default() };
    eventually("all that two clients have", SLACK, || async { footprint(&one).await == wanted }).await;
    assert_eq!(footprint(&two).await, Footprint::default());

    let alone = TestServer::own().await;
    let (holder, other) = (client(&alone.url()), client(&alone.url()));
    let _held = take(&holder, NAME, &options()).await;
    let second = waiting(&other, NAME, &options(), 2).await;
    let same = || async {
        let seen = footprint(&alone).await;
        assert!(seen.memory.is_some());
        Footprint { memory: None, ..seen } == wanted
    };
    eventually("the same at a server that serves no others", SLACK, same).await;
    waiter.abort();
    second.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_shares_a_server_may_not_end_it() {
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
        .args(["a_test_program_that_is_killed_leaves_no_server_and_no_file_behind", "--exact", "--nocapture"])
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

/// Whether a process has been told of it.
fn is_used(directory: &Path) -> bool {
    let told = |process: std::fs::DirEntry| {
        // One that has ended meanwhile uses nothing.
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&*directory.to_string_lossy())
    };
    std::fs::read_dir("/proc").unwrap().flatten().any(told)
}
