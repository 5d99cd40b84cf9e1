//! Every runtime on which a task waits has a subscription of its own.

use tokio::runtime::{Builder, Runtime};

use super::*;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn listen_on(runtime: &Runtime, notifications: &Notifications, entry: u128) -> (Arc<Subscriber>, Hints) {
    runtime.block_on(notifications.listen(EntryId::new(entry)))
}

/// Drives the runtime that receives the hint, and returns the next one.
fn next_on(runtime: &Runtime, hints: &mut Hints) -> Option<Hint> {
    runtime.block_on(async { tokio::time::timeout(LATE, hints.next()).await.ok().flatten() })
}

#[test]
fn every_runtime_hears_on_a_connection_and_a_channel_of_its_own() {
    let server = Server::start();
    let notifications = notifications(&server.url());
    let (one, two) = (runtime(), Builder::new_multi_thread().enable_all().build().unwrap());
    let (ones, mut hints) = listen_on(&one, &notifications, 1);
    let (twos, mut others) = listen_on(&two, &notifications, 2);
    let (keepers, mut kept) = listen(&notifications, 3);
    let (again, _) = listen_on(&one, &notifications, 4);
    assert!(Arc::ptr_eq(&ones, &again));
    assert!(Arc::ptr_eq(&ones, &one.block_on(async { notifications.current() })));
    assert_eq!(server.clients().len(), 3);

    for subscriber in [&ones, &twos, &keepers] {
        assert_eq!(publish(&server, subscriber.channel(), "C"), 1);
    }
    assert_eq!(next_on(&one, &mut hints), Some(Hint::Changed));
    assert_eq!(next_on(&two, &mut others), Some(Hint::Changed));
    assert_eq!(next(&mut kept), Some(Hint::Changed));
    for hints in [&mut hints, &mut others, &mut kept] {
        assert_eq!(hints.next().now_or_never(), None, "one hint for each");
    }
}

/// A waiter may be the next holder.
#[test]
fn a_process_that_listens_for_hints_is_told_of_evictions_too() {
    let server = Server::start();
    let runtime = runtime();
    for _ in 0..10 {
        let notifications = notifications(&server.url());
        let mut alarms = notifications.alarms();
        drop(listen_on(&runtime, &notifications, 1));
        publish(&server, notifications.eviction_channel(), &EntryId::new(1).to_string());
        let evicted = runtime.block_on(async { tokio::time::timeout(LATE, alarms.next()).await });
        assert_eq!(evicted, Ok(Some(EntryId::new(1))));
    }
}

#[test]
fn a_runtime_that_is_blocked_delays_no_hint_of_another() {
    let server = Server::start();
    let notifications = Arc::new(notifications(&server.url()));
    let (tell, told) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let theirs = Arc::clone(&notifications);
    let blocked = thread::spawn(move || {
        runtime().block_on(async {
            let listening = theirs.listen(EntryId::new(1)).await;
            tell.send(()).unwrap();
            released.recv().unwrap();
            drop(listening);
        });
    });
    told.recv().unwrap();
    let other = runtime();
    let (subscriber, mut hints) = listen_on(&other, &notifications, 2);
    let (keepers, mut kept) = listen(&notifications, 3);
    publish(&server, subscriber.channel(), "C");
    publish(&server, keepers.channel(), "C");
    assert_eq!(next_on(&other, &mut hints), Some(Hint::Changed));
    assert_eq!(next(&mut kept), Some(Hint::Changed));
    release.send(()).unwrap();
    blocked.join().unwrap();
}

#[test]
fn when_a_runtime_shuts_down_its_waiters_look_again_and_it_disconnects() {
    let server = Server::start();
    let notifications = notifications(&server.url());
    let (_, mut others) = listen(&notifications, 1);
    for _ in 0..3 {
        let ending = runtime();
        let (subscriber, mut hints) = listen_on(&ending, &notifications, 2);
        assert_eq!(server.clients().len(), 2);
        drop(ending);
        assert!(subscriber.is_closed());
        assert_eq!(hints.next().now_or_never(), Some(Some(Hint::Changed)));
        assert_eq!(hints.next().now_or_never(), None);
        server.await_clients(1);
    }
    assert_eq!(others.next().now_or_never(), None, "nobody else is disturbed");
}

#[test]
fn a_waiter_whose_runtime_is_being_shut_down_hears_through_the_keeper() {
    let server = Server::start();
    let notifications = notifications(&server.url());
    let ending = runtime();
    let handle = ending.handle().clone();
    drop(ending);
    let _borrowed = handle.enter();
    let (subscriber, mut hints) = listen(&notifications, 1);
    publish(&server, subscriber.channel(), "C");
    assert_eq!(next(&mut hints), Some(Hint::Changed));
}

#[test]
fn a_runtime_without_io_hears_through_the_keeper() {
    let server = Server::start();
    let notifications = notifications(&server.url());
    let bare = Builder::new_current_thread().build().unwrap();
    for entry in 0..3 {
        let (subscriber, mut hints) = listen_on(&bare, &notifications, entry);
        publish(&server, subscriber.channel(), "C");
        assert_eq!(next(&mut hints), Some(Hint::Changed));
    }
    assert_eq!(server.clients().len(), 1);
}

#[test]
fn the_connections_of_all_runtimes_are_gone_with_the_backend() {
    let server = Server::start();
    let notifications = notifications(&server.url());
    let (one, two) = (runtime(), Builder::new_multi_thread().enable_all().build().unwrap());
    let listeners = [listen_on(&one, &notifications, 1), listen_on(&two, &notifications, 2)];
    assert_eq!(server.clients().len(), 3);
    drop((notifications, listeners));
    one.block_on(tokio::task::yield_now());
    server.await_clients(0);
}
