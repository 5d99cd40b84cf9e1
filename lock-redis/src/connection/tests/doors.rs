use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use lock_core::EntryId;

use super::*;

const ENTRY: EntryId = EntryId::new(1);

#[test]
fn only_the_order_behind_a_create_of_a_caller_that_is_gone_opens_a_door() {
    let server = Server::start();
    let wire = wire(&server.url());
    let (doors, lane) = (&wire.0.doors, wire.0.lane());
    let asks = |creates| doors.asks(creates, &lane);
    let mut asking = asks(Some(ENTRY));
    asking.goes_alone();
    drop(asking);
    assert!(doors.behind(ENTRY).is_some_and(|behind| Arc::ptr_eq(&behind, &lane)));
    assert!(doors.behind(ENTRY).is_none(), "it is told once");

    let mut answered = asks(Some(ENTRY));
    answered.goes_alone();
    answered.is_done();
    drop(answered);
    assert!(doors.behind(ENTRY).is_none(), "answered");

    drop(asks(Some(ENTRY)));
    assert!(doors.behind(ENTRY).is_none(), "in a batch");

    let mut failed = asks(Some(ENTRY));
    failed.goes_alone();
    failed.has_failed();
    drop(failed);
    assert!(doors.behind(ENTRY).is_none(), "it may have been asked again");

    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut asking = asks(Some(ENTRY));
        asking.goes_alone();
        fail();
    }));
    assert!(panicked.is_err());
    assert!(doors.behind(ENTRY).is_none(), "a panic is a failure");

    let mut looks = asks(None);
    looks.goes_alone();
    drop(looks);
    assert!(doors.behind(ENTRY).is_none(), "creates nothing");
}

/// As a waker of others may.
fn fail() {
    panic!("a waker of the caller");
}

#[test]
fn of_several_creates_none_opens_a_door() {
    let server = Server::start();
    let wire = wire(&server.url());
    let (doors, lane) = (&wire.0.doors, wire.0.lane());
    for first_goes_alone in [true, false] {
        for goes_alone in [first_goes_alone, true] {
            let mut asking = doors.asks(Some(ENTRY), &lane);
            if goes_alone {
                asking.goes_alone();
            }
        }
        assert!(doors.behind(ENTRY).is_none(), "{first_goes_alone}");
    }
}

#[test]
fn a_connection_that_is_no_more_opens_no_door() {
    let server = Server::start();
    let wire = wire(&server.url());
    // It is open then, and nobody else has it.
    ask(&wire, "PING").unwrap();
    let lane = wire.0.lane();
    let mut asking = wire.0.doors.asks(Some(ENTRY), &lane);
    asking.goes_alone();
    drop(asking);
    wire.0.retire(&lane);
    drop(lane);
    assert!(wire.0.doors.behind(ENTRY).is_none());
}
