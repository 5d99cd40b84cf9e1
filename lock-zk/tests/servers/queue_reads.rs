//! How waiters read queues if a look fails, is late, or is not needed.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use lock_conformance::{
    Flow, Framing, Gate, HintsOnly, Layered, Links, Newcomers, SLACK, ServerControl, Way,
    audit::{LONG, await_queue, eventually},
};
use lock_core::{
    AcquireOptions, Claim, Creates, DistributedLock, Locks, Outage, Standing, Step, SystemEntropy, WaitMode,
};
use lock_test_servers::proxy;
use tokio::task::JoinSet;

use crate::{
    common::{client, soon, take, waiting},
    packet_faults::{ConnectionBreaker, DATA, LIST, NotificationFault, RequestCounter, relay},
    server::{Containers, Ensemble, TICK, TestServer},
};

const NAME: &str = "job";

/// PR14: the waiter has a place by then, but no watches. Only a hint can make it look again, because no look is due in time.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_first_look_breaks_looks_again_on_reconnect() {
    // So that the create does not need to make the container first.
    let server = TestServer::shared_with(Containers::Kept).await;
    let breaks = Arc::new(ConnectionBreaker::default());
    let (_relay, url) = relay(&server, Arc::clone(&breaks) as Arc<dyn Framing>);
    let (other, here) = (client(&server.url()), client(&url));
    let hinted = Layered::new(Arc::clone(&here.backend), Arc::new(HintsOnly));
    let hinted = Locks::with(Arc::new(hinted), here.keeper.clone(), Arc::new(SystemEntropy));
    let lasting = AcquireOptions::new().ttl(LONG);
    // From here on, it has its session.
    take(&here, "other", &lasting).await.release().await.unwrap().confirmed().unwrap();
    for operation in [LIST, DATA] {
        let held = take(&other, NAME, &lasting).await;
        breaks.at(operation, NAME);
        let lock = hinted.mutex(NAME).unwrap().with_options(lasting.clone());
        let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
        eventually("a look that breaks", SLACK, || async { breaks.is_over() }).await;
        await_queue(&other, NAME, 2).await;
        held.release().await.unwrap().confirmed().unwrap();
        let guard = soon("the turn of who could not look", waiting).await.unwrap();
        guard.release().await.unwrap().confirmed().unwrap();
    }
}

/// Reading a queue changes nothing, so a read is repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_read_though_the_connection_breaks_meanwhile() {
    let server = TestServer::shared_with(Containers::Kept).await;
    let breaks = Arc::new(ConnectionBreaker::default());
    let (_relay, url) = relay(&server, Arc::clone(&breaks) as Arc<dyn Framing>);
    let here = client(&url);
    let held = take(&here, NAME, &AcquireOptions::new().ttl(LONG)).await;
    for operation in [LIST, DATA] {
        breaks.at(operation, NAME);
        assert_eq!(soon("the queue", here.mutex(NAME).queue()).await.unwrap().len(), 1);
        assert!(breaks.is_over());
    }
    held.release().await.unwrap().confirmed().unwrap();
}

/// A thousand waiters do not list a queue of a thousand. Each only checks that its watched nodes exist.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_that_look_again_ask_for_watched_nodes_and_not_for_the_queue() {
    const WAITERS: u64 = 10;
    let server = TestServer::shared_with(Containers::Kept).await;
    let counts = Arc::new(RequestCounter::about(NAME));
    let (_relay, url) = relay(&server, Arc::clone(&counts) as Arc<dyn Framing>);
    let (other, here) = (client(&server.url()), client(&url));
    let held = take(&other, NAME, &AcquireOptions::new().ttl(LONG)).await;
    // Each waiter looks again after a second.
    let options = AcquireOptions::new().ttl(Duration::from_secs(3));
    let mut waiters = JoinSet::new();
    for len in 0..WAITERS {
        let lock = here.mutex(NAME).with_options(options.clone());
        waiters.spawn(async move { lock.acquire().await.unwrap() });
        await_queue(&other, NAME, usize::try_from(len).unwrap() + 2).await;
    }
    let of_all = |before: u64| before + WAITERS * 4;
    eventually("all have looked around", SLACK, || async { counts.of(LIST) >= WAITERS }).await;
    let (lists, looks) = (counts.of(LIST), counts.of(DATA));
    // The node of the entry ahead, and of the one ahead of that, twice for each waiter.
    eventually("all have looked again, twice", SLACK, || async { counts.of(DATA) >= of_all(looks) }).await;
    assert_eq!(counts.of(LIST), lists, "the queue was listed by somebody who waits on");
    // They still know the holder.
    held.release().await.unwrap().confirmed().unwrap();
    for _ in 0..WAITERS {
        let guard = soon("the turn of each", waiters.join_next()).await.unwrap().unwrap();
        guard.release().await.unwrap().confirmed().unwrap();
    }
}

/// A waiter that has to look while there is no connection waits for the next one, and its snapshot stays valid.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_that_look_without_a_connection_do_not_list_the_queue_later() {
    const WAITERS: u64 = 10;
    let server = TestServer::shared_with(Containers::Kept).await;
    let counts = Arc::new(RequestCounter::about(NAME));
    let (relay, _) = relay(&server, Arc::clone(&counts) as Arc<dyn Framing>);
    let road = proxy(relay.address());
    let url = format!("zk://{}{}?tick={}ms", road.address(), server.admin().chroot(), TICK.as_millis());
    // So long that no waiter gives up and starts over before there is a connection.
    let (other, here) = (client(&server.url()), client(&format!("{url}&command_timeout=30s")));
    let held = take(&other, NAME, &AcquireOptions::new().ttl(LONG)).await;
    // Each waiter looks again after three seconds.
    let options = AcquireOptions::new().ttl(Duration::from_secs(9)).outage(Outage::Wait);
    let mut waiters = JoinSet::new();
    for len in 0..WAITERS {
        let lock = here.mutex(NAME).with_options(options.clone());
        waiters.spawn(async move { lock.acquire().await.unwrap() });
        await_queue(&other, NAME, usize::try_from(len).unwrap() + 2).await;
    }
    // The nodes of all of them, and two to hear of evictions.
    let all = WAITERS + 3;
    eventually("the watches", SLACK, || async { server.footprint().await.unwrap().subscriptions >= all })
        .await;
    // They know it by then.
    tokio::time::sleep(TICK).await;
    let nodes = server.admin().nodes(held.name()).await;
    let (lists, looks) = (counts.of(LIST), counts.of(DATA));
    road.newcomers(Newcomers::Refuse);
    road.reset(Links::All);
    tokio::time::sleep(Duration::from_millis(3500)).await;
    road.newcomers(Newcomers::Serve);
    let watched = || async { counts.of(DATA) >= looks + WAITERS * 2 };
    eventually("all watch the same nodes again", SLACK, watched).await;
    assert_eq!(counts.of(LIST), lists, "the queue was listed though nobody had left");
    assert_eq!(server.admin().nodes(held.name()).await, nodes, "somebody has lost its place");
    held.release().await.unwrap().confirmed().unwrap();
    for _ in 0..WAITERS {
        let guard = soon("the turn of each", waiters.join_next()).await.unwrap().unwrap();
        guard.release().await.unwrap().confirmed().unwrap();
    }
}

/// The heartbeats of their session use the same connection.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_waiters_only_a_few_look_before_the_first_is_answered() {
    const CROWD: u64 = 200;
    const AT_ONCE: u64 = 64;
    let server = TestServer::shared_with(Containers::Kept).await;
    let counts = Arc::new(RequestCounter::about(NAME));
    let (relay, _) = relay(&server, Arc::clone(&counts) as Arc<dyn Framing>);
    let road = proxy(relay.address());
    let url = format!("zk://{}{}?tick={}ms", road.address(), server.admin().chroot(), TICK.as_millis());
    let (other, here) = (client(&server.url()), client(&format!("{url}&command_timeout=10s")));
    let lasting = AcquireOptions::new().ttl(LONG);
    let held = take(&other, NAME, &lasting).await;
    let mut crowd = JoinSet::new();
    for _ in 0..CROWD {
        let lock = here.mutex(NAME).with_options(lasting.clone());
        crowd.spawn(async move { lock.acquire().await.unwrap() });
    }
    // The nodes of all of them, and two to hear of evictions.
    let all = CROWD + 3;
    eventually("the watches", SLACK, || async { server.footprint().await.unwrap().subscriptions >= all })
        .await;
    // They know it by then.
    tokio::time::sleep(TICK).await;
    counts.lose(Some(DATA));
    let before = counts.of(DATA);
    road.reset(Links::All);
    eventually("the first looks", SLACK, || async { counts.of(DATA) > before }).await;
    // None is answered, so all that ask at once have asked by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = counts.of(DATA) - before;
    assert!(asked <= AT_ONCE * 3, "{asked} requests of {CROWD} who wait");
    counts.lose(None);
    road.reset(Links::All);
    held.release().await.unwrap().confirmed().unwrap();
    for _ in 0..CROWD {
        let guard = soon("the turn of each", crowd.join_next()).await.unwrap().unwrap();
        guard.release().await.unwrap().confirmed().unwrap();
    }
}

/// They are in the middle of a look, with all permits of their session, as where each is a branch of a `select!` whose other branch runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_looks_although_all_who_have_permits_are_not_polled() {
    const PERMITS: usize = 64;
    const CROWD: &str = "crowd";
    let server = TestServer::shared_with(Containers::Kept).await.behind_proxy();
    let other = client(&server.direct_url());
    let here = client(&format!("{}&command_timeout=3s", server.url()));
    let lasting = AcquireOptions::new().ttl(LONG);
    let (held, crowded) = (take(&other, NAME, &lasting).await, take(&other, CROWD, &lasting).await);
    let mut places = Vec::new();
    for _ in 0..PERMITS {
        let entry = here.entry(CROWD, Claim::mutex(), LONG);
        let entered = here.backend.enter(&entry, Step::Create, WaitMode::Queue).await.unwrap();
        let Standing::Waiting { token, .. } = entered else { panic!("{entered:?}") };
        places.push((entry, token));
    }
    let mut looks = Vec::new();
    for (entry, token) in &places {
        looks.push(here.backend.enter(entry, Step::Again(*token), WaitMode::Queue));
    }
    let gate = Gate::new();
    server.proxy().order(Links::All, Way::Replies, &Flow::Hold(gate.clone()));
    for look in &mut looks {
        assert!(look.now_or_never().is_none(), "answered at once");
        // So many would exhaust the budget that tokio gives to a task.
        tokio::task::yield_now().await;
    }
    gate.open();
    server.proxy().heal();

    let next = waiting(&here, NAME, &lasting, 2).await;
    held.release().await.unwrap().confirmed().unwrap();
    let guard = soon("the turn of who came later", next).await.unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
    drop(looks);
    for (entry, _) in &places {
        here.backend.leave(entry, Creates::Answered).await.unwrap();
    }
    crowded.release().await.unwrap().confirmed().unwrap();
}

/// PR18: only a look at the watched nodes and at its own node shows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_without_events_finds_out_by_looking_that_entries_have_left() {
    let server = TestServer::shared_with(Containers::Kept).await;
    for own in [false, true] {
        let words = Arc::new(NotificationFault::default());
        let (_relay, url) = relay(&server, Arc::clone(&words) as Arc<dyn Framing>);
        let (other, here) = (client(&server.url()), client(&url));
        let name = format!("{NAME} {own}");
        let held = take(&other, &name, &AcquireOptions::new().ttl(LONG)).await;
        let first = waiting(&other, &name, &AcquireOptions::new().ttl(LONG), 2).await;
        let brief = AcquireOptions::new().ttl(Duration::from_secs(3));
        let last = waiting(&here, &name, &brief, 3).await;
        // It has looked again before.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let nodes = server.admin().nodes(held.name()).await;
        words.lose();
        if own {
            server.admin().delete_together(&[server.admin().node(held.name(), 2).await]).await;
            eventually("it stands in the queue anew", SLACK, || async {
                let now = server.admin().nodes(held.name()).await;
                now.len() == 3 && now[2] != nodes[2]
            })
            .await;
        }
        held.release().await.unwrap().confirmed().unwrap();
        let first = soon("the first", first).await.unwrap();
        assert!(!last.is_finished());
        first.release().await.unwrap().confirmed().unwrap();
        soon("the last", last).await.unwrap().release().await.unwrap().confirmed().unwrap();
    }
}

/// The server does not know of the release yet, and still reports the node to a client that does not sync first.
#[tokio::test(flavor = "multi_thread")]
async fn a_try_by_way_of_a_lagging_follower_calls_no_released_lock_busy() {
    let ensemble = Ensemble::start_patient().await;
    let leader = ensemble.leader().await;
    let [lagging, _] = ensemble.followers().await;
    // Longer than it takes until the gate opens.
    let by = |member| {
        let url = ensemble.url_of(&ensemble.address(member));
        client(&format!("{url}&command_timeout=20s&connect_timeout=20s"))
    };
    let (other, here) = (by(leader), by(lagging));
    let lasting = AcquireOptions::new().ttl(LONG);
    for _ in 0..3 {
        let held = take(&other, NAME, &lasting).await;
        let lock = here.mutex(NAME).with_options(lasting.clone());
        assert!(soon("an answer", lock.try_acquire()).await.unwrap().is_none(), "it is held");
        let gate = Gate::new();
        ensemble.hold_back(lagging, &Flow::Hold(gate.clone()));
        held.release().await.unwrap().confirmed().unwrap();
        let trying = tokio::spawn(async move { lock.try_acquire().await });
        tokio::time::sleep(TICK).await;
        gate.open();
        let guard = soon("an answer", trying).await.unwrap().unwrap();
        let guard = guard.expect("it was released before");
        guard.release().await.unwrap().confirmed().unwrap();
        ensemble.hold_back(lagging, &Flow::Pass);
    }
}

/// PR29: a client that enters meanwhile would take such a node for an entry ahead.
#[tokio::test(flavor = "multi_thread")]
async fn a_try_that_is_refused_has_made_no_node() {
    let server = TestServer::shared_with(Containers::Kept).await;
    let (other, here) = (client(&server.url()), client(&server.url()));
    let lasting = AcquireOptions::new().ttl(LONG);
    let held = take(&other, NAME, &lasting).await;
    let (operator, container) = (server.admin().client().await, server.admin().folder(held.name()));
    // The transaction in which a node was last created or deleted there.
    let last_change = || async { operator.check_stat(&container).await.unwrap().expect("it is there").pzxid };
    let before = last_change().await;
    let lock = here.mutex(NAME).with_options(lasting);
    for _ in 0..5 {
        assert!(soon("an answer", lock.try_acquire()).await.unwrap().is_none(), "it is held");
    }
    assert_eq!(last_change().await, before, "a node came and went");
    held.release().await.unwrap().confirmed().unwrap();
    assert!(last_change().await > before, "the server does not count");
    let guard = soon("an answer", lock.try_acquire()).await.unwrap().expect("it was released");
    guard.release().await.unwrap().confirmed().unwrap();
}

/// PR18: the server notifies of one deletion after the other, in their order in the transaction. The relay holds everything after the first.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_deleted_in_one_transaction_with_the_one_ahead_is_not_granted() {
    let server = TestServer::shared_with(Containers::Kept).await;
    let words = Arc::new(NotificationFault::default());
    let (_relay, url) = relay(&server, Arc::clone(&words) as Arc<dyn Framing>);
    let (other, here) = (client(&server.url()), client(&url));
    let lasting = AcquireOptions::new().ttl(LONG);
    for round in 0..3 {
        let name = format!("{NAME} {round}");
        let lost = take(&other, &name, &lasting).await;
        let waiting = waiting(&here, &name, &lasting, 2).await;
        let nodes = [server.admin().node(lost.name(), 0).await, server.admin().node(lost.name(), 1).await];
        let gate = words.hold(&nodes[1]);
        // By now it watches both nodes.
        eventually("the watches", SLACK, || async { server.footprint().await.unwrap().subscriptions >= 4 })
            .await;
        server.admin().delete_together(&nodes).await;
        soon("the word that is held up", gate.reached()).await;
        let held = take(&other, &name, &lasting).await;
        let held_token = held.token();
        tokio::time::sleep(TICK).await;
        assert!(!waiting.is_finished(), "granted without a node, while another one holds it");
        gate.open();
        await_queue(&other, &name, 2).await;
        assert!(!waiting.is_finished() && held.is_held());
        held.release().await.unwrap().confirmed().unwrap();
        let guard = soon("the next grant", waiting).await.unwrap();
        assert!(guard.token() > held_token);
        guard.release().await.unwrap().confirmed().unwrap();
    }
}
