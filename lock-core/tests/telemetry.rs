//! The names and fields of what is traced are a contract: this is its test.

mod support;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use lock_core::{AcquireOptions, DistributedLock};
use support::{Fault, Sim, Verb, ms, s, sleep};
use tracing::{Event, Id, Subscriber, field::Field, span};

/// Writes down what it sees: spans and events by name, with their fields.
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
    assert!(spans[0].contains_key("waited_ms"));
    for (event, fields) in [
        ("lock suspect", &["token", "remaining_ms"][..]),
        ("lock recovered", &["token"]),
        ("lock lost", &["token", "reason"]),
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
