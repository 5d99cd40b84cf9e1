use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use lock_conformance::{Flow, Links, Port, Way};

use super::*;
use crate::testing::proxy;

/// Long enough for an answer on a busy machine that pauses for two seconds. Some tests wait for the whole of it.
const LIMITS: &str = "connect_timeout=3s&command_timeout=3s";

fn limited(port: u16) -> Client {
    client(&format!("redis://127.0.0.1:{port}?{LIMITS}"))
}

#[test]
fn a_wrong_password_is_denied_and_nothing_was_sent() {
    let server = Server::start_with(&["--requirepass", "right"]);
    let (wrong, missing) = ("the user or the password: WRONGPASS", "a client without a password: NOAUTH");
    for (auth, what) in [(":wrong@", wrong), ("nobody:right@", wrong), ("", missing)] {
        let client = client(&format!("redis://{auth}127.0.0.1:{}", server.port()));
        let error = refused(&client, "PING");
        assert_eq!((error.kind(), error.is_unsent()), (&Kind::Denied, true), "{auth}: {error}");
        let told = format!("redis: 127.0.0.1:{} refused {what} ", server.port());
        assert!(error.to_string().starts_with(&told), "{error}");
    }
    let client = client(&format!("redis://:right@127.0.0.1:{}", server.port()));
    ask(&client, "PING").unwrap();
}

#[test]
fn a_password_where_none_is_set_is_denied() {
    let server = Server::start();
    let error = refused(&client(&format!("redis://:pw@127.0.0.1:{}", server.port())), "PING");
    assert_eq!((error.kind(), error.is_unsent()), (&Kind::Denied, true), "{error}");
}

#[test]
fn a_database_that_is_not_there_is_unsupported() {
    let server = Server::start();
    let error = refused(&client(&format!("{}/99", server.url())), "PING");
    assert_eq!((error.kind(), error.is_unsent()), (&Kind::Unsupported, true), "{error}");
}

#[test]
fn a_refused_port_and_a_name_that_is_not_there_are_unreachable() {
    let nobody = Port::reserve();
    for url in [format!("redis://127.0.0.1:{nobody}"), "redis://no.such.host.invalid".to_owned()] {
        let error = refused(&client(&url), "PING");
        assert!(
            matches!(error.kind(), Kind::Unreachable | Kind::TimedOut) && error.is_unsent(),
            "{url}: {error:?}"
        );
    }
    let error = refused(&limited(nobody.number()), "PING");
    assert_eq!(error.kind(), &Kind::Unreachable, "{error}");
}

/// At first three attempts at once, each with a probe whether the port speaks TLS; five in the first second, and two in each later one.
#[test]
fn few_attempts_are_made_while_a_server_is_away_however_many_ask() {
    const TRYING: Duration = Duration::from_secs(2);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = client(&format!("redis://127.0.0.1:{}", listener.local_addr().unwrap().port()));
    let came = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&came);
    thread::spawn(move || {
        for client in listener.incoming() {
            counted.fetch_add(1, Relaxed);
            drop(client);
        }
    });
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let runtime = runtime();
                while began.elapsed() < TRYING {
                    runtime.block_on(client.command(&words("PING"))).unwrap_err();
                }
            });
        }
        scope.spawn(|| {
            while began.elapsed() < TRYING {
                refused(&client, "PING");
            }
        });
    });
    let (came, seconds) = (came.load(Relaxed), began.elapsed().as_secs() + 1);
    assert!(came <= 8 + 2 * seconds, "{came} came within {seconds} s");
}

#[test]
fn a_listener_that_never_answers_times_out_unsent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = limited(listener.local_addr().unwrap().port());
    for _ in 0..2 {
        let error = refused(&client, "PING");
        assert_eq!((error.kind(), error.is_unsent()), (&Kind::TimedOut, true), "{error}");
    }
}

#[test]
fn what_is_no_redis_is_a_protocol_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut socket, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        thread::sleep(Duration::from_secs(2));
    });
    let error = refused(&limited(port), "PING");
    assert_eq!((error.kind(), error.is_unsent()), (&Kind::Protocol, true), "{error}");
}

#[test]
fn a_stopped_server_times_out_and_is_used_again_when_it_goes_on() {
    let server = Server::start();
    let client = limited(server.port());
    ask(&client, "PING").unwrap();
    server.pause();
    let error = refused(&client, "SET k 1");
    assert_eq!((error.kind(), error.is_unsent()), (&Kind::TimedOut, false), "{error}");
    // The kernel still accepts connections.
    let error = refused(&client, "SET k 1");
    assert_eq!((error.kind(), error.is_unsent()), (&Kind::TimedOut, true), "{error}");
    server.resume();
    ask(&client, "PING").unwrap();
    server.await_clients(1);
}

#[test]
fn a_black_hole_costs_one_time_limit_and_the_next_command_reconnects() {
    let server = Server::start();
    let proxy = proxy(&server);
    let client = limited(proxy.address().port());
    ask(&client, "PING").unwrap();
    proxy.silence(Links::Open);
    let error = refused(&client, "SET k 1");
    assert_eq!((error.kind(), error.is_unsent()), (&Kind::TimedOut, false), "{error}");
    ask(&client, "PING").unwrap();
}

/// A server that is always slow would otherwise be connected to again for each renewal, which takes another round trip.
#[test]
fn a_connection_whose_answer_is_late_is_used_again() {
    let server = Server::start();
    let proxy = proxy(&server);
    let client = limited(proxy.address().port());
    ask(&client, "PING").unwrap();
    let connection = client.pool.connection(&());
    proxy.order(Links::All, Way::Replies, &Flow::Delay(Duration::from_millis(300)));
    let channel = [b"nobody listens".to_vec()];
    let renewed = block_on(client.renew(Duration::from_millis(50), 0, &[], &channel)).unwrap();
    assert!(renewed.is_empty());
    assert!(Arc::ptr_eq(&client.pool.connection(&()), &connection));
}

#[test]
fn after_a_restart_the_first_command_is_served() {
    let server = Server::start();
    let client = limited(server.port());
    ask(&client, "PING").unwrap();
    let connection = client.pool.connection(&());
    server.restart();
    // The client sees the connection close while it is idle, so that no command is lost on it.
    eventually(|| connection.is_closed());
    ask(&client, "PING").unwrap();
    server.kill();
    let error = refused(&client, "PING");
    assert_eq!(error.kind(), &Kind::Unreachable, "{error}");
}

#[test]
fn a_server_that_dies_under_a_command_leaves_the_command_in_doubt() {
    let server = Server::start();
    let client = client(&server.url());
    ask(&client, "PING").unwrap();
    let waiting = thread::spawn(move || ask(&client, "BLPOP list 0"));
    eventually(|| server.clients().iter().any(|line| line.contains("cmd=blpop")));
    server.kill();
    let error = waiting.join().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.is_unsent()), (&Kind::Unreachable, false), "{error}");
}

#[test]
fn a_server_that_is_loading_is_unavailable() {
    let server = Server::start_with(&["--enable-debug-command", "yes", "--save", "3600 1"]);
    server.run("DEBUG POPULATE 20000 key 10");
    // Loading takes long enough for each key to leave time for a command.
    server.run("CONFIG SET key-load-delay 200");
    server.run("CONFIG SET loading-process-events-interval-bytes 1024");
    let mut admin = server.admin();
    let reload = thread::spawn(move || words("DEBUG RELOAD").query::<Value>(&mut admin));
    let client = client(&server.url());
    let mut seen = None;
    eventually(|| {
        seen = ask(&client, "SET k 1").err();
        seen.is_some()
    });
    let error = seen.unwrap();
    assert_eq!(error.kind(), &Kind::Unavailable, "{error}");
    assert!(error.to_string().contains("LOADING"), "{error}");
    drop(server);
    drop(reload.join());
}

#[test]
fn a_replica_takes_no_writes_and_the_connection_is_made_anew() {
    let server = Server::start();
    let client = client(&server.url());
    ask(&client, "PING").unwrap();
    let nobody = Port::reserve();
    server.run(&format!("REPLICAOF 127.0.0.1 {nobody}"));
    let error = ask(&client, "SET k 1").unwrap_err();
    assert_eq!((error.kind(), error.is_unsent()), (&Kind::ReadOnly, false), "{error}");
    server.run("REPLICAOF NO ONE");
    ask(&client, "SET k 1").unwrap();
}

#[test]
fn memory_that_is_full_and_types_that_are_wrong_have_their_kinds() {
    let server = Server::start();
    let client = client(&server.url());
    ask(&client, "LPUSH list x").unwrap();
    assert_eq!(ask(&client, "GET list").unwrap_err().kind(), &Kind::ForeignData);
    assert_eq!(ask(&client, "NOSUCHCOMMAND").unwrap_err().kind(), &Kind::Unsupported);
    server.run("CONFIG SET maxmemory 1");
    assert_eq!(ask(&client, "SET k 1").unwrap_err().kind(), &Kind::OutOfMemory);
    let script = crate::scripts::Script::new("do return redis.call('SET', KEYS[1], 'x') end\n", "");
    let error = block_on(client.call(&script, &[b"k".to_vec()], &[])).unwrap_err();
    assert_eq!(error.kind(), &Kind::OutOfMemory, "{error}");
}

#[test]
fn a_server_with_too_many_clients_is_unavailable_and_nothing_was_sent() {
    let server = Server::start();
    let mut taken = server.admin();
    // Only now: before, the connection that waited for the start of the server may still count as a client.
    redis::cmd("CONFIG").arg("SET").arg("maxclients").arg(1).exec(&mut taken).unwrap();
    let error = refused(&limited(server.port()), "PING");
    assert_eq!((error.kind(), error.is_unsent()), (&Kind::Unavailable, true), "{error}");
}

#[test]
fn a_server_that_is_busy_with_a_script_is_unavailable() {
    let server = Server::start_with(&["--busy-reply-threshold", "50"]);
    let client = limited(server.port());
    ask(&client, "PING").unwrap();
    let mut admin = server.admin();
    let busy =
        thread::spawn(move || redis::cmd("EVAL").arg("while true do end").arg(0).query::<Value>(&mut admin));
    let mut seen = None;
    eventually(|| {
        seen = ask(&client, "SET k 1").err();
        seen.is_some()
    });
    assert_eq!(seen.unwrap().kind(), &Kind::Unavailable);
    server.run("SCRIPT KILL");
    assert!(busy.join().unwrap().is_err());
    ask(&client, "SET k 1").unwrap();
}
