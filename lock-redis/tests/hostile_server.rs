//! A server that gives hostile answers: a typed error, in time, and little memory.

mod common;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use common::mutex;
use lock_core::{Backend, BackendErrorKind, Keeper, Step, WaitMode};
use lock_redis::{Redis, RedisConfig};

/// A server that completes the handshake, and answers every command with `beginning`, followed by `part` again and again.
fn hostile(beginning: &'static str, part: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}?command_timeout=20s", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || serve(stream, beginning, part));
        }
    });
    url
}

fn serve(mut stream: TcpStream, beginning: &str, part: &str) {
    let mut request = vec![0; 64 * 1024];
    let mut heard = |stream: &mut TcpStream| stream.read(&mut request).is_ok_and(|len| len > 0);
    if !heard(&mut stream) || stream.write_all(b"+OK\r\n").is_err() {
        return;
    }
    let part = part.repeat(64 * 1024 / part.len().max(1));
    if heard(&mut stream) && stream.write_all(beginning.as_bytes()).is_ok() {
        // Until the client stops reading.
        while stream.write_all(part.as_bytes()).is_ok() && !part.is_empty() {}
    }
}

#[tokio::test]
async fn a_reply_without_an_end_is_given_up_with_a_typed_error() {
    for (beginning, part) in [
        ("$99999999999\r\n", "x"),
        ("*99999999999\r\n", ":1\r\n"),
        ("+", "x"),
        // As many of the shortest values as fit in 64 MB. The driver would need a gigabyte for them.
        ("*22369620\r\n", "_\r\n"),
        // A reply that the limit accepts, but that does not answer the command.
        ("*1000000\r\n", "_\r\n"),
        // Lines that the driver takes for one line, and for a length.
        ("+", "xxx\n"),
        ("$ 99999999999\r\n", "+x\r\n"),
        ("$0000000000000000000000000099999999999\r\n", "+x\r\n"),
        ("=-1\r\n", "+x\r\n"),
    ] {
        let keeper = Keeper::start().unwrap();
        let config: RedisConfig = hostile(beginning, part).parse().unwrap();
        let redis = Redis::new(config, &keeper).unwrap();
        let before = peak();
        let error = redis.enter(&mutex("job"), Step::Create, WaitMode::Try).await.unwrap_err();
        assert_eq!(*error.kind(), BackendErrorKind::Protocol, "{beginning:?}: {error:?}");
        let taken = peak() - before;
        // The limit, in a buffer whose size doubles.
        assert!(taken < 256 << 10, "{beginning:?}: {taken} kB");
        keeper.stop();
    }
}

/// The peak memory of this process, in kB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}
