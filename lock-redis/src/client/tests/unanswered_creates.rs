use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use lock_core::EntryId;

use super::*;

const ENTRY: EntryId = EntryId::new(1);

#[test]
fn a_tombstone_is_deleted_only_behind_a_create_whose_caller_is_gone() {
    let server = Server::start();
    let client = client(&server.url());
    let (unanswered, connection) = (&client.unanswered, client.pool.connection(&()));
    let begin = |creates| unanswered.begin_script(creates, &connection);
    let mut pending = begin(Some(ENTRY));
    pending.mark_sent_alone();
    drop(pending);
    assert!(unanswered.forget(ENTRY).is_some_and(|behind| Arc::ptr_eq(&behind, &connection)));
    assert!(unanswered.forget(ENTRY).is_none(), "it is told once");

    let mut answered = begin(Some(ENTRY));
    answered.mark_sent_alone();
    answered.mark_answered();
    drop(answered);
    assert!(unanswered.forget(ENTRY).is_none(), "answered");

    drop(begin(Some(ENTRY)));
    assert!(unanswered.forget(ENTRY).is_none(), "in a batch");

    let mut failed = begin(Some(ENTRY));
    failed.mark_sent_alone();
    failed.mark_failed();
    drop(failed);
    assert!(unanswered.forget(ENTRY).is_none(), "it may have been asked again");

    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut pending = begin(Some(ENTRY));
        pending.mark_sent_alone();
        fail();
    }));
    assert!(panicked.is_err());
    assert!(unanswered.forget(ENTRY).is_none(), "a panic is a failure");

    let mut looking = begin(None);
    looking.mark_sent_alone();
    drop(looking);
    assert!(unanswered.forget(ENTRY).is_none(), "creates nothing");
}

/// Panics, as a waker of the caller may.
fn fail() {
    panic!("a waker of the caller");
}

#[test]
fn behind_several_creates_no_tombstone_is_deleted() {
    let server = Server::start();
    let client = client(&server.url());
    let (unanswered, connection) = (&client.unanswered, client.pool.connection(&()));
    for first_sent_alone in [true, false] {
        for sent_alone in [first_sent_alone, true] {
            let mut pending = unanswered.begin_script(Some(ENTRY), &connection);
            if sent_alone {
                pending.mark_sent_alone();
            }
        }
        assert!(unanswered.forget(ENTRY).is_none(), "{first_sent_alone}");
    }
}

#[test]
fn a_closed_connection_deletes_no_tombstone() {
    let server = Server::start();
    let client = client(&server.url());
    // After this, the connection is open, and only the pool has it.
    ask(&client, "PING").unwrap();
    let connection = client.pool.connection(&());
    let mut pending = client.unanswered.begin_script(Some(ENTRY), &connection);
    pending.mark_sent_alone();
    drop(pending);
    client.pool.retire(&connection);
    drop(connection);
    assert!(client.unanswered.forget(ENTRY).is_none());
}
