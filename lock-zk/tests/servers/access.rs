//! Which clients are accepted, and that others are refused in time.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use lock_conformance::{Client, Links, Port, SLACK, ServerControl, unique};
use lock_core::{
    Backend, BackendError, BackendErrorKind, Claim, Creates, Departure, DistributedLock, Entry, EntryId,
    Keeper, Step, WaitMode,
};
use lock_zk::{ConnectError, ZkConfig, ZooKeeper};
use zookeeper_client::{Acl, AuthId, Permission};

use crate::{
    common::{assert_free, client, kind, name, options, soon, take},
    server::TestServer,
};

const NAME: &str = "job";

/// Both time limits. They are the longest time that a server takes to answer on a busy machine: the server has to accept or refuse within
/// it.
const LIMIT: Duration = Duration::from_secs(2);
const LIMITS: &str = "tick=200ms&command_timeout=2s&connect_timeout=2s";

/// The error of a connection that is refused.
async fn refused(url: &str) -> BackendError {
    let keeper = Keeper::start().expect("a keeper's thread can be started");
    let asked = Instant::now();
    let answer = ZooKeeper::connect(ZkConfig::from_url(url).unwrap(), &keeper).await;
    let took = asked.elapsed();
    assert!(took < LIMIT * 2 + SLACK, "refused after {took:?}");
    match answer {
        Err(ConnectError::Store(error)) => error,
        other => panic!("{url}: {other:?}"),
    }
}

/// Checks that a lock cannot be taken for this reason, and that the error comes in time.
async fn assert_refused(client: &Client, expected: &BackendErrorKind) {
    let asked = Instant::now();
    let error = client.mutex(NAME).acquire().await.unwrap_err();
    let took = asked.elapsed();
    assert!(took < LIMIT * 2 + SLACK, "refused after {took:?}");
    assert_eq!(kind(&error), expected, "{error:?}");
    assert!(error.to_string().contains(NAME), "{error}");
}

fn url(server: &TestServer, user: &str) -> String {
    format!("zk://{user}{}{}?{LIMITS}", server.address(), server.admin().chroot())
}

/// The nodes of a user belong to that user alone. Another user gets no lock of the same name, and leaves the nodes as they are.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_none_at_all_are_denied() {
    let server = TestServer::shared().await;
    let owner = client(&url(&server, "clients:open@"));
    let guard = take(&owner, NAME, &options()).await;
    for user in ["clients:wrong@", "nobody:open@", ""] {
        let other = client(&url(&server, user));
        let error = soon("an answer", other.mutex(NAME).acquire()).await.unwrap_err();
        assert_eq!(*kind(&error), BackendErrorKind::Denied, "{user}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("wrong"), "{error:?}");
    }
    assert!(guard.is_held());
    guard.release().await.unwrap().confirmed().unwrap();
    assert_free(&owner, NAME).await;
}

/// The rights as the server shows them to an operator.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_give_rights_to_their_user_alone_and_without_a_user_to_all() {
    let server = TestServer::shared().await;
    for (user, scheme) in [("clients:open@", "digest"), ("", "world")] {
        let admin = server.admin().at(&format!("{scheme}-{}", unique()));
        let client = client(&format!("zk://{user}{}{}?{LIMITS}", server.address(), admin.chroot()));
        let guard = take(&client, NAME, &options()).await;
        for node in [admin.folder(&name(NAME)), admin.node(&name(NAME), 0).await] {
            let (acls, _) = admin.client().await.get_acl(&node).await.unwrap();
            assert!(!acls.is_empty() && acls.iter().all(|acl| acl.scheme() == scheme), "{node}: {acls:?}");
        }
        guard.release().await.unwrap().confirmed().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_everybody_may_change_are_a_problem_that_is_told() {
    let server = TestServer::shared().await;
    for (user, acl, told) in
        [("", "", true), ("clients:open@", "", false), ("clients:open@", "&acl=world", true)]
    {
        let chroot = server.admin().at(&format!("open-{}", unique())).chroot().to_owned();
        let config =
            ZkConfig::from_url(&format!("zk://{user}{}{chroot}?{LIMITS}{acl}", server.address())).unwrap();
        let zookeeper = ZooKeeper::connect(config, &Keeper::start().unwrap()).await.unwrap();
        let problems = zookeeper.operator().diagnose().await.unwrap().problems;
        let is_told = problems.iter().any(|problem| problem.contains("everybody may change what is under"));
        assert_eq!(is_told, told, "{user}{acl}: {problems:?}");
    }
}

/// The client that creates the nodes first decides who may change them, and an address is no user.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_others_made_or_may_change_are_problems_that_are_told() {
    const OPEN: &str = "everybody may change what is under";
    const TAKEN: &str = "belongs to somebody else";
    let server = TestServer::shared().await;
    let us = "clients:open@";
    let (everybody, somebody) = (AuthId::anyone(), AuthId::new("digest", "nobody:that-we-know-of"));
    let address = AuthId::new("ip", "127.0.0.1");
    for (node, whose, told) in [
        ("", &everybody, OPEN),
        ("", &address, OPEN),
        ("", &somebody, TAKEN),
        ("/q1", &address, OPEN),
        ("/s1", &everybody, OPEN),
        ("/e1", &everybody, OPEN),
        ("/e1", &somebody, TAKEN),
    ] {
        let admin = server.admin().at(&format!("first-{}", unique()));
        let url = format!("zk://{us}{}{}?{LIMITS}", server.address(), admin.chroot());
        let zookeeper =
            ZooKeeper::connect(ZkConfig::from_url(&url).unwrap(), &Keeper::start().unwrap()).await.unwrap();
        let problems = async || zookeeper.operator().diagnose().await.unwrap().problems;
        let ours = |problems: &[String]| {
            problems.iter().filter(|problem| problem.contains(OPEN) || problem.contains(TAKEN)).count()
        };
        let before = problems().await;
        assert_eq!(ours(&before), 0, "{before:?}");
        let path = format!("{}{node}", admin.chroot());
        admin.client().await.set_acl(&path, &[Acl::new(Permission::ALL, whose.clone())], None).await.unwrap();
        let found = problems().await;
        let is_told = found.iter().any(|problem| problem.contains(told) && problem.contains(&path));
        assert!(is_told && ours(&found) == 1, "{path}, {whose:?}: {found:?}");
    }
}

/// The diagnosis compares the timeout of the shortest session. Sessions of locks have longer ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_with_a_long_lease_is_no_problem_for_the_diagnosis() {
    let server = TestServer::shared().await;
    let owner = client(&url(&server, "clients:open@"));
    let guard = take(&owner, NAME, &options()).await;
    let problems = soon("a diagnosis", owner.locks.operator().diagnose()).await.unwrap().problems;
    assert!(!problems.iter().any(|problem| problem.contains("was asked for")), "{problems:?}");
    guard.release().await.unwrap().confirmed().unwrap();
}

/// The nodes above a chroot belong to no lock, and other programs create nodes beside it, even after an operator has deleted all of them.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_above_a_chroot_let_others_create_and_only_the_owner_delete() {
    let server = TestServer::shared().await;
    let above = server.admin().at(&format!("team-{}", unique()));
    let url = |user: &str, chroot: &str| {
        format!("zk://{user}{}{}{chroot}?{LIMITS}", server.address(), above.chroot())
    };
    let owner = client(&url("clients:open@", "/ours/locks"));
    for _ in 0..2 {
        assert_free(&owner, NAME).await;
        for user in ["nobody:open@", ""] {
            let other = client(&url(user, &format!("/theirs-{}", unique())));
            assert_free(&other, NAME).await;
        }
        let (acls, _) = above.client().await.get_acl(above.chroot()).await.unwrap();
        for acl in acls.iter().filter(|acl| acl.scheme() == "world") {
            let takes_away = [Permission::DELETE, Permission::ADMIN, Permission::WRITE];
            assert!(!takes_away.iter().any(|right| acl.permission().has(*right)), "{acls:?}");
        }
        above.flush().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_rights_is_denied_until_they_are_given_back() {
    let server = TestServer::shared().await.behind_proxy();
    let client = client(&url(&server, "clients:open@"));
    assert_free(&client, NAME).await;
    server.lock_out().await.unwrap();
    let error = client.mutex(NAME).acquire().await.unwrap_err();
    assert_eq!(*kind(&error), BackendErrorKind::Denied, "{error:?}");
    assert!(error.to_string().contains(&server.address()), "people know where to look: {error}");
    server.let_in().await.unwrap();
    assert_free(&client, NAME).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_gives_a_typed_error_in_time() {
    let port = Port::reserve();
    let url = format!("zk://127.0.0.1:{port}/case?{LIMITS}");
    assert_eq!(*refused(&url).await.kind(), BackendErrorKind::Unreachable);
    assert_refused(&client(&url), &BackendErrorKind::Unreachable).await;
}

/// It accepts connections, and then stays silent: Z4.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_answer_gives_a_typed_error_in_time() {
    let server = TestServer::shared().await.behind_proxy();
    let url = url(&server, "");
    let client = client(&url);
    assert_free(&client, NAME).await;
    server.proxy().silence(Links::All);
    let error = refused(&url).await;
    assert!(error.is_transient(), "{error:?}");
    let error = soon("an answer", client.mutex(NAME).acquire()).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert!(error.to_string().contains(&server.address()), "people know where to look: {error}");
}

/// A leave is repeated until it succeeds, however long the server is away: what fails for nothing would fill the memory.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_up_before_there_is_a_session_is_left_for_without_a_server() {
    // Connections are accepted by the operating system, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = client(&format!("zk://{}/case?{LIMITS}", silent.local_addr().unwrap()));
    let entry = Entry::new(name("job"), EntryId::new(1), Claim::mutex(), Duration::from_secs(30));
    let entering = client.backend.enter(&entry, Step::Create, WaitMode::Queue);
    assert!(tokio::time::timeout(Duration::from_millis(100), entering).await.is_err(), "it was answered");
    let left = client.backend.leave(&entry, Creates::InDoubt).now_or_never();
    assert!(matches!(left, Some(Ok(Departure::Absent))), "{left:?}");
}

/// A queue without an entry that exists would be a lie.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_with_an_entry_that_may_not_be_read_is_an_error() {
    let server = TestServer::shared().await;
    let (here, admin) = (client(&url(&server, "")), server.admin());
    let guard = take(&here, NAME, &options()).await;
    let (path, blind) = (
        admin.node(&name(NAME), 0).await,
        Permission::CREATE | Permission::DELETE | Permission::WRITE | Permission::ADMIN,
    );
    admin.client().await.set_acl(&path, &[Acl::new(blind, AuthId::anyone())], None).await.unwrap();
    let error = soon("an answer", here.mutex(NAME).queue()).await.unwrap_err();
    assert_eq!(*kind(&error), BackendErrorKind::Denied, "{error:?}");
    guard.release().await.unwrap().confirmed().unwrap();
}
