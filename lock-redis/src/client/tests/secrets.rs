use std::{error::Error as StdError, sync::OnceLock};

use lock_conformance::LogText;

use super::*;
use crate::notify::Notifications;

const SECRET: &str = "S3CR3T-of-this-test";

/// Everything that any thread of this process traces from now on.
fn traced() -> LogText {
    static TRACED: OnceLock<LogText> = OnceLock::new();
    let traced = TRACED.get_or_init(|| {
        let traced = LogText::default();
        let writer = traced.clone();
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone())
            .init();
        traced
    });
    traced.clone()
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
        let text = traced.text();
        text.contains("notifications are down") && text.contains("connection opened")
    });
    seen.push(traced.text());
    for text in seen {
        assert!(!text.contains(SECRET), "{text}");
    }
}
