//! Actions of operators, and outages, while clients hold locks and wait for them. H08, H11, H27, H59, H97, H98; Z2, Z4, Z6.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lock_conformance::{
    Data, Flow, Gate, Links, Newcomers, SLACK, ServerControl, Way,
    audit::{await_queue, eventually, within},
};
use lock_core::{AcquireOptions, BackendErrorKind, DistributedLock, HoldState, Outage};

use crate::{
    common::{assert_free, client, kind, name, options, queue, soon, take, waiting},
    server::{Containers, TestServer},
};

const NAME: &str = "job";
const LIMITS: &str = "command_timeout=1s&connect_timeout=1s";

/// So long that no session expires and no look is due during a test.
fn long() -> AcquireOptions {
    options().ttl(Duration::from_secs(600)).look_again(Duration::from_secs(600), Duration::from_secs(3600))
}

fn url(server: &TestServer) -> String {
    format!("{}&{LIMITS}", server.url())
}

/// The URL of the server without its proxy.
fn direct_url(server: &TestServer) -> String {
    format!("{}&{LIMITS}", server.direct_url())
}

/// Closes the session of an entry in the queue, as if its client had done so.
async fn close_session(server: &TestServer, place: usize) {
    let node = server.admin().node(&name(NAME), place).await;
    let session = server.admin().session_of(&node).await;
    assert_ne!(session, 0, "an entry without a session would outlive its client");
    server.admin().close_session(session).await;
}

/// An operator may delete the node above those of locks while no lock is in use.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_empty_if_the_node_above_those_of_locks_is_missing() {
    let server = TestServer::shared().await;
    let this = client(&url(&server));
    // This opens a session, and with it creates the nodes above those of locks.
    assert_eq!(queue(&this, NAME).await.len(), 0);
    let node = format!("{}/q1", server.admin().chroot());
    server.admin().client().await.delete(&node, None).await.unwrap();
    assert_eq!(this.locks.operator().list("").await.unwrap(), []);
}

/// The next heartbeat of this session is due after fifty seconds. An operator sees how long it is since the last one.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_lease_shrinks_until_the_next_heartbeat() {
    let server = TestServer::shared().await;
    let (holder, other) = (client(&url(&server)), client(&url(&server)));
    let guard = take(&holder, NAME, &long()).await;
    let left = async || queue(&other, NAME).await[0].lease_left.unwrap();
    let before = left().await;
    let is_less = || async { left().await + Duration::from_secs(1) < before };
    eventually("less of the lease", SLACK, is_less).await;
    guard.release().await.unwrap().confirmed().unwrap();
}

/// PR18: the holder learns of it long before its next renewal.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_session_is_closed_by_an_operator_is_told_so() {
    let server = TestServer::shared().await;
    let (holder, other) = (client(&url(&server)), client(&url(&server)));
    let guard = take(&holder, NAME, &long()).await;
    let waiter = waiting(&other, NAME, &long(), 2).await;
    close_session(&server, 0).await;
    soon("the loss of a lock whose session was closed", guard.lost()).await;
    assert!(matches!(guard.state(), HoldState::Lost(_)) && !guard.is_held());
    let next = soon("the next in the queue", waiter).await.unwrap();
    assert!(next.token() > guard.token());
    assert!(matches!(guard.release().await, Err(lock_core::Error::Lost { .. })));
    assert!(next.is_held(), "the late release took another's lock");
    next.release().await.unwrap().confirmed().unwrap();
    // The client gets another session, and continues: H08.
    assert_free(&holder, NAME).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_session_an_operator_closes_enters_the_queue_again() {
    let server = TestServer::shared().await;
    let (holder, other) = (client(&url(&server)), client(&url(&server)));
    let guard = take(&holder, NAME, &long()).await;
    let waiter = waiting(&other, NAME, &long(), 2).await;
    for _ in 0..3 {
        let before = queue(&holder, NAME).await[1].entry;
        close_session(&server, 1).await;
        let again = async {
            while queue(&holder, NAME).await.get(1).is_none_or(|row| row.entry == before) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon("a new place for the waiter, which does not look again by itself", again).await;
    }
    assert!(guard.is_held() && !waiter.is_finished());
    guard.release().await.unwrap().confirmed().unwrap();
    let next = soon("the waiter after its session was closed", waiter).await.unwrap();
    next.release().await.unwrap().confirmed().unwrap();
    assert_free(&other, NAME).await;
}

/// Z4: the client crate reports the end seconds after the next client has the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_session_expires_is_told_before_the_next_grant() {
    let server = TestServer::shared().await.behind_proxy();
    let direct = direct_url(&server);
    let (holder, other) = (client(&url(&server)), client(&direct));
    let guard = take(&holder, NAME, &options().ttl(Duration::from_millis(2400))).await;
    let hold = guard.hold();
    let lock = other.mutex(NAME).with_options(long());
    let next = tokio::spawn(async move {
        let next = lock.acquire().await.unwrap();
        (hold.remaining(), next)
    });
    await_queue(&other, NAME, 2).await;
    server.proxy().silence(Links::All);
    let (left, next) = within("the next grant", guard.ttl() * 2 + SLACK, next).await.unwrap();
    assert_eq!(left, Duration::ZERO, "granted before the deadline of the holder");
    server.proxy().heal();
    server.proxy().reset(Links::All);
    assert!(matches!(guard.release().await, Err(lock_core::Error::Lost { .. })));
    assert!(next.is_held());
    next.release().await.unwrap().confirmed().unwrap();
    assert_free(&holder, NAME).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_session_expires_while_cut_off_enters_the_queue_again() {
    let server = TestServer::shared().await.behind_proxy();
    let direct = direct_url(&server);
    let (holder, other) = (client(&direct), client(&url(&server)));
    let guard = take(&holder, NAME, &long()).await;
    let brief = options().ttl(Duration::from_millis(1200)).outage(Outage::Wait);
    let waiter = waiting(&other, NAME, &brief, 2).await;
    server.proxy().silence(Links::All);
    await_queue(&holder, NAME, 1).await;
    server.proxy().heal();
    server.proxy().reset(Links::All);
    within("a new place for the waiter", SLACK * 2, async {
        while queue(&holder, NAME).await.len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(guard.is_held() && !waiter.is_finished());
    guard.release().await.unwrap().confirmed().unwrap();
    let next = soon("the waiter after its session expired", waiter).await.unwrap();
    next.release().await.unwrap().confirmed().unwrap();
}

/// The server closes one connection of a session for another. The request to attach on a connection that was given up arrives when the next
/// connection already exists.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_reattachment_arrives_late_reconnects_and_keeps_its_lock() {
    let server = TestServer::shared().await.behind_proxy();
    let (this, proxy) = (client(&url(&server)), server.proxy());
    let guard = take(&this, NAME, &long()).await;
    let question = Gate::new();
    proxy.order(Links::All, Way::Requests, &Flow::Hold(question.clone()));
    proxy.reset(Links::All);
    soon("somebody asks for its session", question.reached()).await;
    proxy.order(Links::All, Way::Requests, &Flow::Pass);
    let renewed = || async { while guard.extend().await.is_err() {} };
    within("a renewal on another connection", SLACK, renewed()).await;
    question.open();
    eventually("the question is answered", SLACK, || async { proxy.is_drained() }).await;
    within("a renewal, once that has happened", SLACK, renewed()).await;
    assert_eq!(queue(&this, NAME).await.len(), 1);
    guard.release().await.unwrap().confirmed().unwrap();
}

/// PR18: both its own node and the one ahead are gone when it looks again.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_node_was_deleted_while_it_was_away_is_not_granted() {
    let server = TestServer::shared().await.behind_proxy();
    let direct = direct_url(&server);
    let (holder, other) = (client(&direct), client(&url(&server)));
    for _ in 0..10 {
        let guard = take(&holder, NAME, &long()).await;
        let waiter = waiting(&other, NAME, &options().outage(Outage::Wait), 2).await;
        let lost = queue(&holder, NAME).await[1].entry;
        server.proxy().newcomers(Newcomers::Refuse);
        server.proxy().reset(Links::All);
        server.admin().delete(guard.name()).await;
        server.proxy().newcomers(Newcomers::Serve);
        let next = within("the waiter, from a new place", SLACK * 2, waiter).await.unwrap();
        assert_ne!(Some(next.entry_id()), lost, "granted though its node was deleted");
        next.release().await.unwrap().confirmed().unwrap();
        drop(guard);
        await_queue(&holder, NAME, 0).await;
    }
}

/// H27, Z6: with the client crate's own lock, the node would stay as long as the session lives.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_lost_in_a_partition_is_made_up_for_before_the_session_ends() {
    let server = TestServer::shared().await.behind_proxy();
    let direct = direct_url(&server);
    let (holder, other) = (client(&url(&server)), client(&direct));
    for dropped in [true, false] {
        let guard = take(&holder, NAME, &long()).await;
        let waiter = waiting(&other, NAME, &long(), 2).await;
        server.proxy().silence(Links::All);
        if dropped {
            drop(guard);
        } else {
            let release = within("an answer to the release", SLACK * 2, guard.release()).await;
            assert!(
                matches!(release, Ok(lock_core::Released::Pending { free_within: None, .. })),
                "{release:?}"
            );
        }
        assert!(!waiter.is_finished());
        tokio::time::sleep(Duration::from_millis(1500)).await;
        server.proxy().heal();
        server.proxy().reset(Links::All);
        let next = within("the next grant, long before the session ends", SLACK * 2, waiter).await.unwrap();
        next.release().await.unwrap().confirmed().unwrap();
        assert_free(&other, NAME).await;
    }
}

/// Z2: with the client crate's own lock, an orphaned node stays in the queue.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquisition_dropped_with_its_create_in_doubt_leaves_nothing() {
    // If the container was just removed, the lost answer says that it does not exist.
    let server = TestServer::shared_with(Containers::Kept).await.behind_proxy();
    let direct = direct_url(&server);
    let (this, other) = (client(&url(&server)), client(&direct));
    for _ in 0..3 {
        assert_free(&this, NAME).await;
        // The create is carried out, and never answered.
        server.proxy().newcomers(Newcomers::Refuse);
        server.proxy().order(Links::Open, Way::Replies, &Flow::Lose);
        let lock = this.mutex(NAME).with_options(options());
        let acquiring = tokio::spawn(async move { lock.acquire().await.map(drop) });
        await_queue(&other, NAME, 1).await;
        acquiring.abort();
        server.proxy().heal();
        server.proxy().reset(Links::All);
        within("the end of an entry that nobody wants", SLACK * 2, async {
            while !queue(&other, NAME).await.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

/// It is not kept until its ttl would have ended.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquisition_that_fails_before_its_create_is_forgotten_at_once() {
    let server = TestServer::shared().await;
    let this = client(&url(&server));
    server.admin().put_foreign(&name(NAME)).await;
    for _ in 0..3 {
        let error = this.mutex(NAME).with_options(long()).try_acquire().await.unwrap_err();
        assert_eq!(*kind(&error), BackendErrorKind::ForeignData, "{error:?}");
        assert!(error.to_string().contains(&server.address()), "people know where to look: {error}");
        let members = format!("{:?}", this.backend);
        assert!(members.contains("members: 0"), "{members}");
    }
}

/// It creates the container of the lock first, and that answer may be cut off as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_acquisition_is_granted_wherever_its_connection_is_cut() {
    // The answers up to the grant are shorter than this.
    const LONGEST: usize = 200;
    let server = TestServer::shared().await.behind_proxy();
    let this = client(&url(&server));
    assert_free(&this, NAME).await;
    for bytes in (0..LONGEST).step_by(2) {
        let name = format!("{NAME}-{bytes}");
        server.proxy().order(Links::Open, Way::Replies, &Flow::Cut(bytes));
        let guard = soon("a grant", take(&this, &name, &long())).await;
        server.proxy().heal();
        assert!(guard.release().await.unwrap().confirmed().is_ok(), "{bytes}");
    }
}

/// H98: the server removes a container when it is empty, even if a create in it is in flight.
#[tokio::test(flavor = "multi_thread")]
async fn containers_that_are_removed_all_the_time_cost_no_lock() {
    const ROUNDS: usize = 100;
    // This many containers have to be removed while the locks are taken again and again.
    const REMOVED: usize = 10;
    let server = TestServer::shared().await;
    let clients = [client(&url(&server)), client(&url(&server))];
    let mut names = [NAME, "another job"].into_iter();
    let reaped = Arc::new(AtomicUsize::new(0));
    let tasks = clients.each_ref().map(|client| {
        // There is no other client, so its container is empty again and again.
        let lock = client.mutex(names.next().expect("there is a name for each")).with_options(options());
        let reaped = Arc::clone(&reaped);
        tokio::spawn(async move {
            let (mut last, mut rounds) = (None, 0);
            while rounds < ROUNDS || reaped.load(Ordering::Relaxed) < REMOVED {
                rounds += 1;
                let guard = lock.acquire().await.unwrap();
                assert!(last < Some(guard.token()), "tokens begin again with the container");
                last = Some(guard.token());
                guard.release().await.unwrap().confirmed().unwrap();
            }
        })
    });
    while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
        reaped.fetch_add(server.admin().reap().await, Ordering::Relaxed);
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// H97: the number that the server gives to nodes has 32 bits, and shows no order any more after the last one.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_whose_numbers_are_used_up_keeps_its_order_or_says_so() {
    let server = TestServer::own().await;
    let (holder, other) = (client(&url(&server)), client(&url(&server)));
    let first = take(&holder, NAME, &long()).await;
    // A test cannot create two thousand million nodes, so this sets the counter in the data of the server.
    server.stop().await.unwrap();
    server.set_children_made(&name(NAME), i32::MAX - 2);
    server.start(Data::Kept).await.unwrap();
    for client in [&holder, &other] {
        let back = || async { client.mutex(NAME).queue().await.is_ok() };
        eventually("both are connected again", SLACK, back).await;
    }
    let mut waiters = Vec::new();
    for len in 2..8 {
        let lock = other.mutex(NAME).with_options(long());
        let waiter = tokio::spawn(async move { lock.acquire().await });
        eventually("a place in the queue, or a refusal", SLACK, || async {
            waiter.is_finished() || queue(&holder, NAME).await.len() == len
        })
        .await;
        waiters.push(waiter);
    }
    let mut last = first.token();
    assert!(first.is_held());
    first.release().await.unwrap().confirmed().unwrap();
    let (mut granted, mut refused) = (0, 0);
    for waiter in waiters {
        match soon("the next in the queue", waiter).await.unwrap() {
            Ok(guard) => {
                assert!(guard.token() > last, "{} after {last}: out of order", guard.token());
                last = guard.token();
                guard.release().await.unwrap().confirmed().unwrap();
                granted += 1;
            }
            Err(error) => {
                assert_eq!(*kind(&error), BackendErrorKind::TokensExhausted, "{error:?}");
                refused += 1;
            }
        }
    }
    assert!(granted >= 2 && granted + refused == 6, "{granted} granted, {refused} refused");
    // An empty queue starts over.
    await_queue(&holder, NAME, 0).await;
    eventually("the end of the container", SLACK, || async { server.admin().reap().await == 0 }).await;
    assert_free(&other, NAME).await;
}

/// A session has room for forty locks with names as long as these, and for one after the other as many as there are.
#[tokio::test(flavor = "multi_thread")]
async fn locks_that_are_gone_leave_room_in_their_session() {
    let server = TestServer::shared().await;
    let here = client(&server.url());
    for i in 0..50 {
        // Each of its bytes takes three in a path.
        let name = format!("{i:04}{}", "/".repeat(4092));
        take(&here, &name, &options()).await.release().await.unwrap().confirmed().unwrap();
    }
    assert_eq!(server.admin().nodes_of_sessions().await, 1);
}
