//! Tests with an echo server.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    time::{Duration, Instant},
};

use super::*;
use crate::{Gate, Port};

const SOON: Duration = Duration::from_secs(5);
/// Long enough for bytes that must not arrive to have arrived.
const QUIET: Duration = Duration::from_millis(100);

fn hints(sent: &[u8]) -> bool {
    sent.starts_with(b"hint")
}

/// A server that sends back what it receives, and records it.
fn echo() -> (SocketAddr, Arc<std::sync::Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, told) = (listener.local_addr().unwrap(), Arc::default());
    let kept = Arc::clone(&told);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let told: Arc<std::sync::Mutex<Vec<u8>>> = Arc::clone(&kept);
            thread::spawn(move || {
                let mut buffer = [0; 1024];
                while let Ok(len @ 1..) = stream.read(&mut buffer) {
                    told.lock().unwrap().extend_from_slice(&buffer[..len]);
                    if stream.write_all(&buffer[..len]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    (address, told)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

fn ask(stream: &mut TcpStream, request: &[u8]) -> Vec<u8> {
    stream.write_all(request).unwrap();
    let mut answer = vec![0; request.len()];
    stream.read_exact(&mut answer).unwrap();
    answer
}

fn assert_quiet(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(QUIET)).unwrap();
    let error = stream.read(&mut [0; 8]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    stream.set_read_timeout(Some(SOON)).unwrap();
}

fn assert_reset(stream: &mut TcpStream) {
    assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

fn await_that(what: &str, check: impl Fn() -> bool) {
    let started = Instant::now();
    while !check() {
        assert!(started.elapsed() < SOON, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn start() -> (Proxy, Arc<std::sync::Mutex<Vec<u8>>>) {
    let (address, told) = echo();
    (Proxy::start(address, hints), told)
}

#[test]
fn without_orders_everything_passes_and_so_does_the_end() {
    let (proxy, told) = start();
    let mut stream = connect(&proxy);
    assert_eq!(ask(&mut stream, b"one"), b"one");
    assert_eq!(ask(&mut stream, b"two"), b"two");
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(*told.lock().unwrap(), b"onetwo");
    await_that("it is drained", || proxy.is_drained());
}

#[test]
fn what_is_lost_stays_lost_and_new_connections_are_not_touched() {
    let (proxy, told) = start();
    let mut stream = connect(&proxy);
    ask(&mut stream, b"one");
    proxy.order(Links::Open, Way::Requests, &Flow::Lose);
    stream.write_all(b"two").unwrap();
    assert_quiet(&mut stream);
    proxy.heal();
    stream.write_all(b"three").unwrap();
    assert_quiet(&mut stream);
    ask(&mut connect(&proxy), b"four");
    assert_eq!(*told.lock().unwrap(), b"onefour");
}

#[test]
fn a_lost_reply_was_asked_for() {
    let (proxy, told) = start();
    proxy.order(Links::All, Way::Replies, &Flow::Lose);
    let mut stream = connect(&proxy);
    stream.write_all(b"one").unwrap();
    assert_quiet(&mut stream);
    assert_eq!(*told.lock().unwrap(), b"one");
}

#[test]
fn what_is_held_arrives_when_the_gate_opens_though_its_sender_is_gone() {
    let (proxy, told) = start();
    let mut stream = connect(&proxy);
    ask(&mut stream, b"one");
    let gate = Gate::new();
    proxy.order(Links::Open, Way::Requests, &Flow::Hold(gate.clone()));
    stream.write_all(b"two").unwrap();
    drop(stream);
    await_that("it is not drained", || !proxy.is_drained());
    thread::sleep(QUIET);
    assert_eq!(*told.lock().unwrap(), b"one");
    gate.open();
    await_that("it is drained", || proxy.is_drained());
    assert_eq!(*told.lock().unwrap(), b"onetwo");
}

#[test]
fn a_delay_is_kept_in_both_directions() {
    let (proxy, _) = start();
    let delay = Duration::from_millis(60);
    proxy.order(Links::All, Way::Requests, &Flow::Delay(delay));
    proxy.order(Links::All, Way::Replies, &Flow::Delay(delay));
    let started = Instant::now();
    assert_eq!(ask(&mut connect(&proxy), b"one"), b"one");
    assert!(started.elapsed() >= delay * 2, "{:?}", started.elapsed());
}

#[test]
fn a_cut_lets_so_many_bytes_pass_and_resets() {
    let (proxy, told) = start();
    for (way, arrived) in [(Way::Replies, 6), (Way::Requests, 2)] {
        let mut stream = connect(&proxy);
        ask(&mut stream, b"one");
        told.lock().unwrap().clear();
        proxy.order(Links::Open, way, &Flow::Cut(2));
        stream.write_all(b"second").unwrap();
        let (mut answer, mut buffer) = (0, [0; 8]);
        let error = loop {
            match stream.read(&mut buffer) {
                Ok(len) => answer += len,
                Err(error) => break error.kind(),
            }
        };
        assert_eq!(error, ErrorKind::ConnectionReset);
        assert!(answer <= 2, "{answer}");
        await_that("the bytes before the cut arrive", || told.lock().unwrap().len() == arrived);
    }
}

#[test]
fn orders_keep_to_the_connections_that_they_are_for() {
    let (proxy, _) = start();
    let (mut plain, mut hinting) = (connect(&proxy), connect(&proxy));
    ask(&mut plain, b"hello");
    ask(&mut hinting, b"hint");
    assert_eq!(proxy.hinting(), 1);
    proxy.reset(Links::OpenHints);
    assert_reset(&mut hinting);
    ask(&mut plain, b"hello");
    proxy.silence(Links::OpenCommands);
    plain.write_all(b"hello").unwrap();
    assert_quiet(&mut plain);
    proxy.order(Links::Hints, Way::Replies, &Flow::Lose);
    let (mut plain, mut hinting) = (connect(&proxy), connect(&proxy));
    ask(&mut plain, b"hello");
    hinting.write_all(b"hint").unwrap();
    assert_quiet(&mut hinting);
    assert_eq!(proxy.opened(), 4);
}

#[test]
#[should_panic(expected = "hints and commands share connections here")]
fn an_order_for_commands_alone_is_refused_where_connections_are_shared() {
    let (server, _) = echo();
    Proxy::start(server, |_| true).silence(Links::OpenCommands);
}

#[test]
fn a_refused_connection_is_reset_at_once() {
    let (proxy, told) = start();
    proxy.newcomers(Newcomers::Refuse);
    assert_reset(&mut connect(&proxy));
    assert_eq!((proxy.refused(), proxy.opened()), (1, 0));
    proxy.heal();
    ask(&mut connect(&proxy), b"one");
    assert_eq!((proxy.refused(), proxy.opened()), (1, 1));
    assert_eq!(*told.lock().unwrap(), b"one");
}

#[test]
fn a_server_that_comes_up_later_is_awaited() {
    let port = Port::reserve();
    let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
    let proxy = Proxy::start(address, |_| false);
    assert_reset(&mut connect(&proxy));
    proxy.newcomers(Newcomers::Await);
    let mut stream = connect(&proxy);
    assert_quiet(&mut stream);
    let listener = TcpListener::bind(address).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.write_all(b"hello").unwrap();
    stream.read_exact(&mut [0; 5]).unwrap();
}

#[test]
fn dropping_the_proxy_breaks_its_connections() {
    let (proxy, _) = start();
    let mut stream = connect(&proxy);
    ask(&mut stream, b"one");
    drop(proxy);
    assert!(matches!(stream.read(&mut [0; 8]), Ok(0) | Err(_)), "the connection ends");
}
