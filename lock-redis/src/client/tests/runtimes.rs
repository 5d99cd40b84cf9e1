use std::{
    sync::{Arc, mpsc},
    thread,
};

use super::*;

fn runtime_without(time: bool) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    if !time {
        builder.enable_io();
    }
    builder.build().unwrap()
}

#[test]
fn every_runtime_has_its_own_connection_and_uses_it_for_all_its_tasks() {
    let server = Server::start();
    let client = client(&server.url());
    let (one, two) = (runtime(), tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap());
    for _ in 0..3 {
        one.block_on(client.command(&words("PING"))).unwrap();
        two.block_on(async {
            let pings = (0..20).map(|_| {
                let client = client.clone();
                tokio::spawn(async move { client.command(&words("PING")).await })
            });
            for ping in pings.collect::<Vec<_>>() {
                ping.await.unwrap().unwrap();
            }
        });
        ask(&client, "PING").unwrap();
    }
    assert_eq!(server.clients().len(), 3);
}

#[test]
fn many_first_commands_open_one_connection() {
    let server = Server::start();
    let client = Arc::new(client(&server.url()));
    let threads: Vec<_> = (0..16)
        .map(|_| {
            let client = Arc::clone(&client);
            thread::spawn(move || ask(&client, "PING"))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
    let Value::BulkString(stats) = server.run("INFO stats") else { panic!() };
    let stats = String::from_utf8(stats).unwrap();
    // The connection of the client, and the one that asks.
    assert!(stats.contains("total_connections_received:2\r\n"), "{stats}");
}

#[test]
fn a_runtime_that_was_shut_down_stalls_nobody_and_leaves_no_connection() {
    let server = Server::start();
    let client = client(&server.url());
    for _ in 0..5 {
        let runtime = runtime();
        runtime.block_on(client.command(&words("PING"))).unwrap();
        assert_eq!(server.clients().len(), 1);
        drop(runtime);
        server.await_clients(0);
    }
    ask(&client, "PING").unwrap();
}

#[test]
fn a_runtime_that_is_blocked_stalls_nobody() {
    let server = Server::start();
    let client = client(&server.url());
    let blocked = runtime();
    let (tell, told) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let theirs = client.clone();
    let thread = thread::spawn(move || {
        blocked.block_on(async {
            theirs.command(&words("PING")).await.unwrap();
            // An answer is in flight, and no task reads it.
            let ping = words("PING");
            let mut pending = Box::pin(theirs.command(&ping));
            assert!((&mut pending).now_or_never().is_none());
            tell.send(()).unwrap();
            released.recv().unwrap();
            thread::sleep(Duration::from_millis(10));
            pending.await
        })
    });
    told.recv().unwrap();
    // A command that waited for the blocked runtime would time out.
    for _ in 0..20 {
        runtime().block_on(client.command(&words("PING"))).unwrap();
        ask(&client, "PING").unwrap();
    }
    release.send(()).unwrap();
    thread.join().unwrap().unwrap();
}

#[test]
fn a_connection_whose_runtime_is_blocked_while_it_opens_stalls_nobody() {
    let server = Server::start();
    let client = client(&format!("{}?connect_timeout=1s", server.url()));
    let idle = runtime();
    // Nothing drives this runtime, so its connection cannot be opened. A caller that has entered it gets an error in time.
    let guard = idle.enter();
    let error = refused(&client, "PING");
    assert_eq!((error.kind(), error.is_unsent()), (&Kind::TimedOut, true), "{error}");
    drop(guard);
    ask(&client, "PING").unwrap();
    runtime().block_on(client.command(&words("PING"))).unwrap();
}

#[test]
fn a_runtime_without_timers_is_enough_and_its_limits_hold() {
    let server = Server::start();
    let client = client(&format!("{}?command_timeout=1s&connect_timeout=1s", server.url()));
    let runtime = runtime_without(false);
    runtime.block_on(client.command(&words("PING"))).unwrap();
    server.pause();
    for unsent in [false, true] {
        let error = runtime.block_on(client.command(&words("PING"))).unwrap_err();
        assert_eq!((error.kind(), error.is_unsent()), (&Kind::TimedOut, unsent), "{error}");
    }
    server.resume();
}

#[test]
fn a_runtime_without_io_is_served_by_the_keeper() {
    let server = Server::start();
    let client = client(&server.url());
    let bare = runtime_without(true);
    for _ in 0..3 {
        bare.block_on(client.command(&words("PING"))).unwrap();
    }
    assert_eq!(server.clients().len(), 1);
}

#[test]
fn the_keeper_and_threads_without_a_runtime_share_a_connection() {
    let server = Server::start();
    let runtimes = crate::testing::runtime_selector();
    let client = Client::new(crate::testing::endpoint(&server.url()), Arc::clone(&runtimes));
    let (tell, told) = mpsc::channel();
    let theirs = client.clone();
    runtimes.keeper().spawn(async move { tell.send(theirs.command(&words("PING")).await).unwrap() });
    told.recv().unwrap().unwrap();
    ask(&client, "PING").unwrap();
    assert_eq!(server.clients().len(), 1);
}
