//! The log lines about a keeper that stands still, and about one that a panic has ended. This is the only test of the program, because a log
//! subscriber serves a whole process.
#![cfg(unix)]

#[path = "support/keeper_end.rs"]
mod keeper_end;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use futures_executor::block_on;
use lock_core::{AcquireOptions, DistributedLock, Keeper, Locks, Memory, SystemEntropy};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use self::keeper_end::end;

/// The longest that any step may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends the message and the fields of each event.
struct Telling(mpsc::Sender<(String, Fields)>);

#[derive(Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Subscriber for Telling {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "distlock"
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.0.remove("message").unwrap_or_default();
        // When the test is over, the receiver is gone.
        let _ = self.0.send((message, fields));
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A field of the next event with this message.
fn field_of(told: &mpsc::Receiver<(String, Fields)>, message: &str, field: &str) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let next = told.recv_timeout(until.saturating_duration_since(Instant::now()));
        let (said, Fields(mut fields)) = next.unwrap_or_else(|_| panic!("no `{message}` was told"));
        if said == message {
            return fields.remove(field).unwrap_or_else(|| panic!("`{message}` without `{field}`"));
        }
    }
}

/// A lock is taken on a keeper that is blocked: its renewal is due after a third of its ttl, and is not made. The watchdog finds that.
fn stand_still(told: &mpsc::Receiver<(String, Fields)>) {
    let keeper = Keeper::start().unwrap();
    let (go_on, blocked) = mpsc::channel::<()>();
    let (start, started) = mpsc::channel();
    keeper.spawn(async move {
        start.send(()).unwrap();
        let _ = blocked.recv();
    });
    started.recv_timeout(PATIENCE).unwrap();
    let locks = Locks::with(Arc::new(Memory::new()), keeper, Arc::new(SystemEntropy));
    let options = AcquireOptions::new().ttl(Duration::from_secs(3));
    let guard = block_on(locks.mutex("job").unwrap().acquire_with(&options)).unwrap();
    assert_eq!(field_of(told, "lock lost", "name"), "job");
    let overdue: u64 = field_of(told, "keeper stands still", "overdue_ms").parse().unwrap();
    assert!(overdue >= 1000, "told when something was due {overdue} ms ago");
    drop(go_on);
    drop(guard);
}

#[test]
fn a_keeper_that_stands_still_and_one_that_has_ended_are_told() {
    let (tell, told) = mpsc::channel();
    tracing::subscriber::set_global_default(Telling(tell)).unwrap();

    stand_still(&told);

    // It panics, goes on, and panics again immediately, because the driver of its sockets is gone.
    end(&Keeper::start().unwrap());
    assert_eq!(field_of(&told, "keeper panicked", "panic"), "an ordered panic of a waker");
    assert!(!field_of(&told, "keeper ended", "panic").is_empty());
}
