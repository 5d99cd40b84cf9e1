//! Tests the contract about traces: their names and fields.

mod support;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use lock_core::{AcquireOptions, DistributedLock};
use support::{Fault, Sim, Verb, ms, s, sleep};
use tracing::{Event, Id, Subscriber, field::Field, span};

/// Records spans and events by name, with their fields.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Traced>>>);

type Traced = (String, BTreeMap<String, String>);

impl Seen {
    fn find(&self, name: &str) -> Vec<BTreeMap<String, String>> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .filter(|(seen, _)| seen == name)
            .map(|(_, fields)| fields.clone())
            .collect()
    }
}

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl tracing::field::Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Subscriber for Seen {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "distlock"
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> Id {
        let mut fields = BTreeMap::new();
        attributes.record(&mut Fields(&mut fields));
        let mut seen = self.0.lock().unwrap();
        seen.push((attributes.metadata().name().to_owned(), fields));
        Id::from_u64(seen.len() as u64)
    }

    fn record(&self, span: &Id, values: &span::Record<'_>) {
        let mut seen = self.0.lock().unwrap();
        let index = usize::try_from(span.into_u64()).unwrap() - 1;
        values.record(&mut Fields(&mut seen[index].1));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        let name = fields.remove("message").unwrap_or_default();
        self.0.lock().unwrap().push((name, fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn what_is_documented_is_traced_under_its_name_with_its_fields() {
    let seen = Seen::default();
    let _default = tracing::subscriber::set_default(seen.clone());
    let sim = Sim::new();
    let client = sim.client();
    let lock = client.locks.mutex("invoices/42").unwrap();
    let options = AcquireOptions::new().ttl(s(12));

    // A renewal that fails once, then one that is never answered until the lock is lost, then a leave that fails.
    client.wire.once(Verb::Renew, Fault::Refused);
    let guard = lock.acquire_with(&options).await.unwrap();
    sleep(s(5)).await;
    client.wire.always(Verb::Renew, Some(Fault::Refused));
    client.wire.once(Verb::Leave, Fault::Refused);
    guard.lost().await;
    sleep(s(1)).await;
    // A waiter that loses its place.
    client.wire.always(Verb::Renew, None);
    let holder = lock.acquire_with(&options).await.unwrap();
    let waiter = {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire_with(&AcquireOptions::new().ttl(s(3))).await })
    };
    sleep(ms(1)).await;
    let place = sim.rows("invoices/42").await[1].entry.unwrap();
    client.locks.operator().evict(lock.name(), place).await.unwrap();
    sleep(s(2)).await;
    drop(holder);
    drop(waiter.await);
    sleep(s(1)).await;

    let named =
        |fields: &BTreeMap<String, String>| fields["name"] == "invoices/42" && fields["entry"].len() == 32;
    let spans = seen.find("acquire");
    assert!(spans.iter().all(|span| named(span) && span["kind"] == "mutex"), "{spans:?}");
    assert_eq!(spans[0]["token"], guard.token().to_string());
    assert!(
        spans.iter().all(|span| span.contains_key("waited_ms") && span.contains_key("outcome")),
        "{spans:?}"
    );
    assert_eq!(spans[0]["outcome"], "granted");
    for (event, fields) in [
        ("lock suspect", &["token", "remaining_ms"][..]),
        ("lock recovered", &["token"]),
        ("lock lost", &["token", "reason", "held_ms"]),
        ("lock released", &["token", "held_ms"]),
        ("place lost", &[]),
        ("store away", &["verb", "error"]),
        ("cleanup owed", &[]),
        ("cleanup settled", &[]),
    ] {
        let events = seen.find(event);
        assert!(!events.is_empty(), "no `{event}` was traced");
        for traced in events {
            assert!(
                named(&traced) && fields.iter().all(|field| traced.contains_key(*field)),
                "{event}: {traced:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn traces_tell_how_each_wait_ended_and_how_long_it_and_the_hold_took() {
    let seen = Seen::default();
    let _default = tracing::subscriber::set_default(seen.clone());
    let sim = Sim::new();
    let client = sim.client();
    let lock = client.locks.mutex("job").unwrap();
    let waits = |time| AcquireOptions::new().wait(time);

    let guard = lock.acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    lock.acquire_with(&waits(s(0))).await.unwrap_err();
    lock.acquire_with(&waits(s(3))).await.unwrap_err();
    tokio::time::timeout(s(2), lock.acquire()).await.unwrap_err();
    sleep(s(1)).await;
    client.wire.once(Verb::Enter, Fault::Lost(ms(500)));
    lock.try_acquire().await.unwrap_err();
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    sleep(s(1)).await;
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    sleep(s(4)).await;
    drop(next);
    let taken = lock.acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    sleep(s(1)).await;
    let _ = client.locks.close(s(1)).await;
    waiting.await.unwrap().unwrap_err();
    drop(taken);

    let of = |name: &str, fields: [&str; 2]| -> Vec<[String; 2]> {
        seen.find(name).iter().map(|traced| fields.map(|field| traced[field].clone())).collect()
    };
    let expected = [
        ["granted", "0"],
        ["busy", "0"],
        ["timed out", "0"],
        ["timed out", "3000"],
        ["dropped", "2000"],
        ["failed", "500"],
        ["granted", "1000"],
        ["granted", "0"],
        ["closed", "1000"],
    ];
    assert_eq!(of("acquire", ["outcome", "waited_ms"]), expected);
    let held: Vec<_> = of("lock released", ["name", "held_ms"]).into_iter().map(|[_, held]| held).collect();
    assert_eq!(held, ["7500", "4000", "2000"]);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_finds_its_entry_gone_is_traced_as_a_loss() {
    let seen = Seen::default();
    let _default = tracing::subscriber::set_default(seen.clone());
    let sim = Sim::new();
    let client = sim.client();
    client.wire.silence();
    let lock = client.locks.mutex("job").unwrap();
    let guard = lock.acquire().await.unwrap();
    client.locks.operator().evict(lock.name(), guard.entry_id()).await.unwrap();
    guard.release().await.unwrap_err();
    assert_eq!(seen.find("lock lost")[0]["reason"], "the store says that it is gone");
    assert!(seen.find("lock released").is_empty());
}

/// The answer comes after the keeper has given up the place, and before the lease in the answer ends.
#[tokio::test(start_paused = true)]
async fn a_place_that_is_lost_before_a_late_answer_is_traced_too() {
    let seen = Seen::default();
    let _default = tracing::subscriber::set_default(seen.clone());
    let sim = Sim::new();
    let (holder, waiter) = (sim.client(), sim.client());
    waiter.wire.silence();
    let guard = holder.locks.mutex("job").unwrap().acquire().await.unwrap();
    let lock = waiter.locks.mutex("job").unwrap();
    let waiting = tokio::spawn(async move { lock.acquire_with(&AcquireOptions::new().ttl(s(6))).await });
    sleep(ms(1)).await;
    // The look at a third of its ttl.
    waiter.wire.once(Verb::Enter, Fault::Late(ms(4_500)));
    guard.release().await.unwrap();
    let granted = waiting.await.unwrap().unwrap();
    assert_eq!(waiter.wire.sent(Verb::Enter).len(), 3, "it started over");
    assert_eq!(seen.find("place lost").len(), 1);
    assert_eq!(seen.find("acquire")[1]["entry"], granted.entry_id().to_string());
}

/// A hundred waiters and a hundred holders meet the same outage, and look every second.
#[tokio::test(start_paused = true)]
async fn what_many_meet_at_once_is_one_line_a_second_with_their_number() {
    const CROWD: usize = 100;
    let seen = Seen::default();
    let _default = tracing::subscriber::set_default(seen.clone());
    let sim = Sim::new();
    let (holder, client) = (sim.client(), sim.client());
    let options = AcquireOptions::new().ttl(s(12));
    let taken = holder.locks.mutex("taken").unwrap().acquire_with(&options).await.unwrap();
    let mut held = Vec::new();
    for i in 0..CROWD {
        held.push(client.locks.mutex(format!("held/{i}")).unwrap().acquire_with(&options).await.unwrap());
    }
    let waiting: Vec<_> = (0..CROWD)
        .map(|_| {
            let (lock, options) = (client.locks.mutex("taken").unwrap(), options.clone());
            tokio::spawn(async move { drop(lock.acquire_with(&options).await) })
        })
        .collect();
    sleep(ms(100)).await;
    for verb in [Verb::Enter, Verb::Renew, Verb::Leave] {
        client.wire.always(verb, Some(Fault::Refused));
    }
    let before = (client.wire.sent(Verb::Enter).len(), client.wire.entries(Verb::Renew));
    sleep(s(30)).await;
    let asked = client.wire.sent(Verb::Enter).len() - before.0;
    let renewed = client.wire.entries(Verb::Renew) - before.1;

    let times = |line: &BTreeMap<String, String>| -> usize {
        line.get("times").map_or(1, |times| times.parse().expect("it is a number"))
    };
    let told = |name: &str, verb: &str| -> (usize, usize) {
        let lines = seen.find(name);
        let lines =
            lines.iter().filter(|line| line.get("verb").is_none_or(|said| said.trim_matches('"') == verb));
        lines.fold((0, 0), |(lines, all), line| (lines + 1, all + times(line)))
    };
    for (name, verb, all) in [
        ("store away", "enter", asked),
        ("store away", "renew", renewed),
        ("lock suspect", "", CROWD),
        ("lock lost", "", CROWD),
    ] {
        let (lines, times) = told(name, verb);
        assert!(lines <= 31, "{lines} lines of `{name}` {verb} in 30 s");
        // The events of the last second are not logged yet.
        assert!(times <= all && times + 2 * CROWD >= all, "`{name}` {verb} tells of {times} of {all}");
    }
    assert!(held.iter().all(|guard| !guard.is_held()));
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    drop(taken);
}

/// The store does not confirm the leave, but the lease must have ended by then.
#[tokio::test(start_paused = true)]
async fn a_cleanup_that_fails_until_its_lease_has_ended_is_told_as_abandoned() {
    let seen = Seen::default();
    let _default = tracing::subscriber::set_default(seen.clone());
    let sim = Sim::new();
    let client = sim.client();
    client.wire.always(Verb::Leave, Some(Fault::Refused));
    let lock = client.locks.mutex("job").unwrap();
    drop(lock.acquire_with(&AcquireOptions::new().ttl(s(10))).await.unwrap());
    sleep(s(30)).await;
    let abandoned = seen.find("cleanup abandoned");
    assert_eq!(abandoned.len(), 1, "{abandoned:?}");
    let fields = &abandoned[0];
    assert!(fields["name"] == "job" && fields["entry"].len() == 32, "{fields:?}");
    assert!(fields.contains_key("error"), "{fields:?}");
    let tries = client.wire.sent(Verb::Leave).len();
    sleep(s(30)).await;
    assert_eq!(client.wire.sent(Verb::Leave).len(), tries, "it is tried again");
}

/// A session keeps an entry, so its leave is repeated until it is confirmed. Not each attempt is logged.
#[tokio::test(start_paused = true)]
async fn what_is_tried_for_ever_is_told_ever_more_seldom() {
    let seen = Seen::default();
    let _default = tracing::subscriber::set_default(seen.clone());
    let sim = Sim::new();
    let client = sim.client();
    client.wire.share_leases();
    client.wire.always(Verb::Enter, Some(Fault::Lost(ms(500))));
    client.wire.always(Verb::Leave, Some(Fault::Refused));
    let lock = client.locks.mutex("a").unwrap();
    lock.try_acquire_with(&AcquireOptions::new().ttl(s(10))).await.unwrap_err();
    sleep(s(24 * 60 * 60)).await;
    let tries = client.wire.sent(Verb::Leave).len();
    let told = seen.find("store away").iter().filter(|line| line["verb"].contains("leave")).count();
    assert!(tries > 10_000 && told >= 1, "{tries} tries, told {told} times");
    assert!(told <= 16, "{tries} tries were told {told} times");
    client.wire.always(Verb::Leave, None);
    client.locks.close(s(6)).await.expect("it has left");
}
