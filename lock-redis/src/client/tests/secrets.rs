use std::{
    error::Error as StdError,
    io,
    sync::{Arc, Mutex, OnceLock},
};

use super::*;
use crate::notify::Notifications;

const SECRET: &str = "S3CR3T-of-this-test";

/// Everything that any thread of this process traces from now on.
fn traced() -> Arc<Mutex<Vec<u8>>> {
    static TRACED: OnceLock<Arc<Mutex<Vec<u8>>>> = OnceLock::new();
    Arc::clone(TRACED.get_or_init(|| {
        let traced = Arc::new(Mutex::new(Vec::new()));
        let writer = Writer(Arc::clone(&traced));
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone())
            .init();
        traced
    }))
}

#[derive(Clone)]
struct Writer(Arc<Mutex<Vec<u8>>>);

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn whole(error: &BackendError) -> String {
    let mut text = vec![format!("{error} {error:?} {error:#?}")];
    let mut source = error.source();
    while let Some(error) = source {
        text.push(format!("{error} {error:?}"));
        source = error.source();
    }
    text.join(" ")
}

/// A password may be a single letter, which is in most words.
#[test]
fn a_password_is_removed_from_server_messages_and_other_letters_are_kept() {
    let server = Server::start_with(&["--requirepass", "another"]);
    let error = ask(&client(&format!("redis://:p@127.0.0.1:{}", server.port())), "PING").unwrap_err();
    assert!(error.to_string().contains("invalid username-password pair"), "{error}");
    let old = Server::start_with(&["--rename-command", "AUTH", ""]);
    let error = ask(&client(&format!("redis://:A@127.0.0.1:{}", old.port())), "PING").unwrap_err();
    assert!(error.to_string().contains("AUTH") && !error.to_string().contains("'A'"), "{error}");
}

#[test]
fn a_password_is_in_no_error_no_debug_and_no_trace() {
    let traced = traced();
    let server = Server::start_with(&["--requirepass", SECRET]);
    let old = Server::start_with(&["--rename-command", "AUTH", ""]);
    let url =
        |port| format!("redis://:{SECRET}@127.0.0.1:{port}?connect_timeout=200ms&command_timeout=200ms");
    let mut seen = Vec::new();

    let right = client(&url(server.port()));
    ask(&right, "PING").unwrap();
    let notifications =
        Notifications::new(crate::testing::endpoint(&url(server.port())), crate::testing::runtime_selector());
    drop(block_on(notifications.listen(lock_core::EntryId::new(1))));
    seen.push(format!("{right:?} {notifications:?}"));
    seen.push(whole(&ask(&right, "NOSUCHCOMMAND").unwrap_err()));
    server.pause();
    seen.push(whole(&ask(&right, "PING").unwrap_err()));
    server.resume();
    server.kill();
    seen.push(whole(&ask(&right, "PING").unwrap_err()));

    let wrong = Server::start_with(&["--requirepass", "another"]);
    seen.push(whole(&ask(&client(&url(wrong.port())), "PING").unwrap_err()));
    // This server repeats the command, with the password, in its refusal.
    let error = ask(&client(&url(old.port())), "PING").unwrap_err();
    assert!(error.to_string().contains("***"), "{error}");
    seen.push(whole(&error));

    eventually(|| {
        let text = String::from_utf8(traced.lock().unwrap().clone()).unwrap();
        text.contains("notifications are down") && text.contains("connection opened")
    });
    seen.push(String::from_utf8(traced.lock().unwrap().clone()).unwrap());
    for text in seen {
        assert!(!text.contains(SECRET), "{text}");
    }
}
