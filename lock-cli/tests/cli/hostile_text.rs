//! Control characters from a server, and in names: they never reach the terminal.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Stdio,
    thread,
};

use crate::{
    process::{Outcome, Process, distlock, outcome, until_queued},
    store::Store,
};

/// Sets the title of the window, rings the bell, and reverses the direction of the text that follows.
const HOSTILE: &str = "\u{1b}]0;x\u{7}\u{202e}";

/// Starts a proxy of a Redis server that answers some commands itself. Returns its URL.
fn answering_proxy(server: SocketAddr, answer: fn(&str) -> Option<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            // An error ends the connection.
            thread::spawn(move || serve(&client, server, answer));
        }
    });
    format!("redis://{address}")
}

/// Forwards a command only when the one before is answered, so that all answers are in order.
fn serve(client: &TcpStream, server: SocketAddr, answer: fn(&str) -> Option<String>) -> io::Result<()> {
    let (server, mut to_client) = (TcpStream::connect(server)?, client.try_clone()?);
    let mut from_server = BufReader::new(server.try_clone()?);
    let mut commands = BufReader::new(client);
    while let Some((command, verb)) = next(&mut commands)? {
        if let Some(said) = answer(&verb) {
            to_client.write_all(said.as_bytes())?;
            continue;
        }
        (&server).write_all(&command)?;
        if verb.ends_with("SUBSCRIBE") {
            // From here on the server speaks unasked.
            thread::spawn(move || io::copy(&mut from_server, &mut to_client));
            while let Some((command, _)) = next(&mut commands)? {
                (&server).write_all(&command)?;
            }
            break;
        }
        let mut said = Vec::new();
        read_answer(&mut from_server, &mut said)?;
        to_client.write_all(&said)?;
    }
    Ok(())
}

/// Reads one answer, with all that is in it.
fn read_answer(from: &mut impl BufRead, into: &mut Vec<u8>) -> io::Result<()> {
    let begin = into.len();
    if from.read_until(b'\n', into)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let (kind, line) = (into[begin], String::from_utf8_lossy(&into[begin + 1..]).trim().parse::<i64>());
    // The null value has the length -1.
    let length = usize::try_from(line.unwrap_or_default()).ok();
    match (kind, length) {
        (b'$', Some(length)) => {
            let mut text = vec![0; length + 2];
            from.read_exact(&mut text)?;
            into.extend_from_slice(&text);
        }
        (b'*', Some(length)) => (0..length).try_for_each(|_| read_answer(from, into))?,
        _ => {}
    }
    Ok(())
}

/// A command, and its first word. `None` at the end of the connection.
fn next(from: &mut impl BufRead) -> io::Result<Option<(Vec<u8>, String)>> {
    let mut command = Vec::new();
    if from.read_until(b'\n', &mut command)? == 0 {
        return Ok(None);
    }
    let mut verb = None;
    for _ in 0..number(&command) {
        let begin = command.len();
        from.read_until(b'\n', &mut command)?;
        let mut word = vec![0; number(&command[begin..]) + 2];
        from.read_exact(&mut word)?;
        command.extend_from_slice(&word);
        verb.get_or_insert_with(|| String::from_utf8_lossy(&word).trim().to_ascii_uppercase());
    }
    Ok(Some((command, verb.unwrap_or_default())))
}

/// The number after the first letter of a line.
fn number(line: &[u8]) -> usize {
    let line = String::from_utf8_lossy(line);
    line.trim()[1..].parse().expect("our clients speak the protocol")
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// `HELLO` of an old version.
fn old_version(verb: &str) -> Option<String> {
    let version = format!("6.0.9{HOSTILE}");
    let words = ["server", "redis", "version", &version, "mode", "standalone", "role", "master"];
    let words: String = words.iter().copied().map(bulk).collect();
    (verb == "HELLO").then(|| format!("*8\r\n{words}"))
}

/// `INFO` of an old version.
fn too_old(verb: &str) -> Option<String> {
    let info = format!(
        "redis_version:6.0.9{HOSTILE}\r\nredis_mode:standalone{HOSTILE}\r\nmaxmemory_policy:{HOSTILE}\r\nmaxmemory:9\r\n"
    );
    (verb == "INFO").then(|| bulk(&info))
}

/// The answer of a server that is loading its data.
fn loading(verb: &str) -> Option<String> {
    verb.starts_with("EVAL").then(|| format!("-LOADING {HOSTILE}\r\n"))
}

/// Only lines of plain text.
#[track_caller]
fn assert_plain(text: &str) {
    let tricky = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    assert!(!text.contains(tricky), "{text:?}");
}

#[track_caller]
fn assert_all_plain(told: &Outcome) {
    assert_plain(&told.stdout);
    assert_plain(&told.stderr);
}

#[test]
fn what_a_server_says_of_its_version_plays_no_tricks() {
    let store = Store::redis();
    let url = answering_proxy(store.address(), old_version);
    for args in [&["list"][..], &["doctor"], &["doctor", "--json"], &["run", "a", "--", "true"]] {
        let told = outcome(&url, args);
        assert!(told.code == Some(69) && told.stderr.contains("6.2 or later is needed"), "{told:?}");
        assert_all_plain(&told);
    }
}

#[test]
fn what_doctor_reads_on_a_server_plays_no_tricks() {
    let store = Store::redis();
    let url = answering_proxy(store.address(), too_old);
    let told = outcome(&url, &["doctor"]);
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(told.stdout.contains("version 6.0.9\\u{1b}]0;x\\u{7}\\u{202e} is too old"), "{told:?}");
    assert_all_plain(&told);
    assert_all_plain(&outcome(&url, &["doctor", "--json"]));
}

#[test]
fn what_a_loading_server_says_plays_no_tricks_on_watch() {
    let store = Store::redis();
    let url = answering_proxy(store.address(), loading);
    let mut watch = distlock(&url, &["watch", "a", "--json", "--interval", "50ms"]);
    let mut watch = watch.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(watch.stderr.take().unwrap()).read_line(&mut line).unwrap();
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert!(line.contains("trying again") && line.contains("LOADING"), "{line:?}");
    assert_plain(&line);
}

/// A name has no control characters, but it may reverse the direction of text.
#[test]
fn names_play_no_tricks_where_they_are_listed_shown_and_broken() {
    for (backend, store) in Store::all() {
        let name = "jobs/\u{202e}a";
        let _holder = Process::fed(&mut distlock(&store.url, &["hold", name, "--label", HOSTILE]), b"");
        until_queued(&store.url, name, 1);
        for args in [
            &["list"][..],
            &["list", "--json"],
            &["show", name],
            &["show", name, "--json"],
            &["run", name, "--try", "--", "true"],
            &["break", name, "--yes"],
        ] {
            let told = outcome(&store.url, args);
            assert!(told.stdout.len() + told.stderr.len() > 0, "{backend}: {args:?}: {told:?}");
            assert_all_plain(&told);
        }
        assert_all_plain(&outcome(&store.url, &["show", name]));
    }
}
