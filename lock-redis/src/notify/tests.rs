//! These tests run against real servers.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use futures_executor::block_on;
use futures_util::{FutureExt, StreamExt};
use lock_conformance::{Links, Port};
use lock_core::{FencingToken, Hint, Hints};

use super::{
    subscriber::{Phase, pause},
    *,
};
use crate::testing::{LATE, Server, endpoint, eventually, proxy, runtime_selector};

mod runtimes;

fn notifications(url: &str) -> Notifications {
    Notifications::new(endpoint(url), runtime_selector())
}

/// Listens from a thread without a runtime, which the keeper serves.
fn listen(notifications: &Notifications, entry: u128) -> (Arc<Subscriber>, Hints) {
    block_on(notifications.listen(EntryId::new(entry)))
}

fn phase(subscriber: &Subscriber) -> Phase {
    *subscriber.shared.phase.borrow()
}

fn publish(server: &Server, channel: &[u8], message: &str) -> u32 {
    redis::cmd("PUBLISH").arg(channel).arg(message).query(&mut server.admin()).unwrap()
}

fn next(hints: &mut Hints) -> Option<Hint> {
    let mut hint = None;
    eventually(|| {
        hint = hints.next().now_or_never().flatten();
        hint.is_some()
    });
    hint
}

/// Waits for a hint to look again and for a live subscription.
fn told_to_look_again(server: &Server, subscriber: &Subscriber, hints: &mut Hints) {
    assert_eq!(next(hints), Some(Hint::Changed));
    assert_eq!(publish(server, subscriber.channel(), "C"), 1);
    assert_eq!(next(hints), Some(Hint::Changed));
}

#[test]
fn a_hint_reaches_its_entry_and_an_eviction_reaches_every_process() {
    let server = Server::start();
    let (one, two) = (notifications(&server.url()), notifications(&server.url()));
    let id = EntryId::new(7);
    let (subscriber, mut mine) = listen(&one, 7);
    let (_, mut others) = listen(&one, 8);
    let (other_subscriber, mut theirs) = listen(&two, 7);
    let alarms = [one.alarms(), two.alarms()];

    assert_ne!(subscriber.channel(), other_subscriber.channel());
    assert_eq!(publish(&server, subscriber.channel(), &format!("A {id} 42")), 1);
    let admitted = Hint::Admitted { token: FencingToken::new(42) };
    assert_eq!(next(&mut mine), Some(admitted));
    publish(&server, subscriber.channel(), "C");
    for hints in [&mut mine, &mut others] {
        assert_eq!(next(hints), Some(Hint::Changed));
    }
    assert_eq!(publish(&server, one.eviction_channel(), &id.to_string()), 2);
    for mut alarms in alarms {
        assert_eq!(block_on(alarms.next()), Some(id));
    }
    assert_eq!(theirs.next().now_or_never(), None);
}

#[test]
fn nothing_is_opened_before_it_is_needed_and_nothing_is_left_after() {
    let server = Server::start();
    let notifications = notifications(&format!("{}?client_name=me&prefix=p:", server.url()));
    let channel = notifications.current().channel().to_vec();
    assert!(channel.starts_with(b"p:\xff2h:"));
    assert_eq!(channel.len(), b"p:\xff2h:".len() + 32);
    assert_eq!(server.clients().len(), 0);
    drop(listen(&notifications, 1));
    drop(listen(&notifications, 2));
    drop(notifications.alarms());
    let clients = server.clients();
    assert!(clients.len() == 1 && clients[0].contains(" name=me "), "{clients:?}");
    drop(notifications);
    server.await_clients(0);
}

#[test]
fn a_killed_subscription_comes_back_and_all_waiters_look_again() {
    let server = Server::start();
    let notifications = notifications(&server.url());
    let (subscriber, mut hints) = listen(&notifications, 1);
    for _ in 0..3 {
        server.run("CLIENT KILL TYPE pubsub");
        told_to_look_again(&server, &subscriber, &mut hints);
    }
}

#[test]
fn a_half_open_connection_is_noticed_and_all_waiters_look_again() {
    let server = Server::start();
    let proxy = proxy(&server);
    let notifications = notifications(&format!("redis://127.0.0.1:{}", proxy.address().port()));
    let (subscriber, mut hints) = listen(&notifications, 1);
    // A whole heartbeat passes first.
    thread::sleep(Duration::from_millis(1100));
    proxy.silence(Links::Open);
    assert_eq!(next(&mut hints), Some(Hint::Changed));
    eventually(|| publish(&server, subscriber.channel(), "C") >= 1);
    assert_eq!(next(&mut hints), Some(Hint::Changed));
}

#[test]
fn a_stopped_server_is_noticed_by_heartbeat_and_used_when_it_goes_on() {
    let server = Server::start();
    let notifications = notifications(&format!("{}?heartbeat=100ms&connect_timeout=200ms", server.url()));
    let (subscriber, mut hints) = listen(&notifications, 1);
    server.pause();
    eventually(|| phase(&subscriber) == Phase::Down);
    server.resume();
    told_to_look_again(&server, &subscriber, &mut hints);
}

#[test]
fn a_restarted_server_is_taken_back() {
    let server = Server::start();
    let notifications = notifications(&server.url());
    let (subscriber, mut hints) = listen(&notifications, 1);
    server.restart();
    told_to_look_again(&server, &subscriber, &mut hints);
}

#[test]
fn without_a_server_or_permission_the_waiter_goes_on_at_once() {
    let server = Server::start();
    server.run("ACL SETUSER app on >pw ~* resetchannels +@all");
    let nobody = Port::reserve();
    for url in [format!("redis://127.0.0.1:{nobody}"), format!("redis://app:pw@127.0.0.1:{}", server.port())]
    {
        // The time limits are far longer than this test may take.
        let notifications = notifications(&format!("{url}?command_timeout=1h&connect_timeout=1h"));
        let started = Instant::now();
        drop(listen(&notifications, 1));
        let (subscriber, _) = listen(&notifications, 2);
        assert!(started.elapsed() < LATE, "{url}: {:?}", started.elapsed());
        assert_eq!(phase(&subscriber), Phase::Down);
    }
}

#[test]
fn a_black_hole_holds_a_waiter_up_for_one_time_limit_and_no_longer() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let notifications =
        notifications(&format!("redis://127.0.0.1:{port}?command_timeout=200ms&connect_timeout=1h"));
    let started = Instant::now();
    drop(listen(&notifications, 1));
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(200) && took < LATE, "{took:?}");
}

#[test]
fn pauses_grow_to_two_seconds_and_leave_a_half_to_chance() {
    for (failures, full) in [(1, 50), (2, 100), (5, 800), (6, 1600), (7, 2000), (1000, 2000)] {
        for _ in 0..20 {
            let pause = pause(failures).as_millis();
            assert!((full / 2..=full).contains(&pause), "{failures}: {pause}");
        }
    }
}
