//! Any data in the keys of a lock, from any client: no panic, no hang, and foreign locks stay as they are.

mod common;

use std::{cell::RefCell, collections::BTreeMap};

use common::*;
use lock_core::{
    Backend, BackendError, BackendErrorKind as Kind, Claim, Creates, Entry, EntryId, FencingToken, Lease,
    Step, WaitMode,
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

/// An entry that the stored data mentions, and that also makes requests.
const ID: &str = "000000000000000000000000000000ff";

#[derive(Clone, Debug)]
enum Stored {
    Nothing,
    Text(Vec<u8>),
    /// Members of a sorted set.
    Scores(Vec<(Vec<u8>, f64)>),
    /// Fields of a hash.
    Fields(BTreeMap<Vec<u8>, Vec<u8>>),
    List(Vec<u8>),
    /// The last id of an empty stream.
    Stream(u64, u64),
}

fn number() -> BoxedStrategy<String> {
    prop_oneof![
        Just("0".to_owned()),
        Just("18446744073709551615".to_owned()),
        Just("99999999999999999999999999999999".to_owned()),
        Just("-1".to_owned()),
        Just("1e309".to_owned()),
        Just("nan".to_owned()),
        // Present-day milliseconds and tokens.
        (0..u64::from(u32::MAX)).prop_map(|n| (1_760_000_000_000 + n).to_string()),
        (0..u64::from(u32::MAX)).prop_map(|n| (1_760_000_000_000_000 + n).to_string()),
        "[0-9]{1,20}",
    ]
    .boxed()
}

fn id() -> BoxedStrategy<String> {
    prop_oneof![Just(ID.to_owned()), "[0-9a-f]{32}", "[0-9a-fA-F+]{31,33}", ".{0,8}"].boxed()
}

fn text() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        number().prop_map(String::into_bytes),
        // Almost the value of a mutex.
        (id(), "[:+.]", number(), ":?.{0,5}")
            .prop_map(|(id, mark, token, rest)| format!("{id}{mark}{token}{rest}").into_bytes()),
        // Almost the description of an entry.
        (prop::collection::vec(number(), 2..6), id(), ":?.{0,5}").prop_map(|(numbers, id, rest)| format!(
            "{} {id} {rest}",
            numbers.join(" ")
        )
        .into_bytes()),
        // The kind and limit of a queue.
        "[mrsz]:[0-9]{1,11}".prop_map(String::into_bytes),
    ]
    .boxed()
}

fn scores() -> BoxedStrategy<Stored> {
    let member = prop_oneof![id().prop_map(String::into_bytes), text()];
    let score = prop_oneof![any::<f64>().prop_filter("redis has none", |score| !score.is_nan()), 0.0..4e12];
    prop::collection::vec((member, score), 1..6).prop_map(Stored::Scores).boxed()
}

fn fields() -> BoxedStrategy<Stored> {
    let field =
        prop_oneof![Just(b"k".to_vec()), Just(b"s".to_vec()), id().prop_map(String::into_bytes), text()];
    prop::collection::btree_map(field, text(), 1..8).prop_map(Stored::Fields).boxed()
}

fn stored() -> BoxedStrategy<Stored> {
    prop_oneof![
        2 => Just(Stored::Nothing),
        4 => text().prop_map(Stored::Text),
        3 => scores(),
        1 => fields(),
        1 => text().prop_map(Stored::List),
    ]
    .boxed()
}

fn ids() -> BoxedStrategy<Stored> {
    const EXACT_TO: u64 = 1 << 53;
    let part = || prop_oneof![Just(u64::MAX), 1..2_000_u64, EXACT_TO - 5..EXACT_TO + 5, 1_u64..u64::MAX];
    (part(), part()).prop_map(|(ms, sequence)| Stored::Stream(ms, sequence)).boxed()
}

/// The lock, its queue, entries, counter and tombstone: mostly with the right type, which reaches the interesting cases.
fn keys() -> impl Strategy<Value = Vec<(Vec<u8>, Stored)>> {
    let queue = prop_oneof![2 => Just(Stored::Nothing), 4 => scores(), 1 => stored()];
    let entries = prop_oneof![1 => Just(Stored::Nothing), 5 => fields(), 1 => stored()];
    let tokens = prop_oneof![1 => Just(Stored::Nothing), 4 => ids(), 1 => stored()];
    let counter = counter("job");
    (stored(), queue, entries, tokens, stored()).prop_map(move |(lock, queue, entries, tokens, tombstone)| {
        vec![
            (b"job".to_vec(), lock),
            (companion("q", "job"), queue),
            (companion("e", "job"), entries),
            (counter.clone(), tokens),
            (companion(&format!("x{ID}"), "job"), tombstone),
        ]
    })
}

fn store(server: &mut redis::Connection, keys: &[(Vec<u8>, Stored)]) {
    let mut pipe = redis::pipe();
    pipe.cmd("FLUSHALL");
    for (key, stored) in keys {
        match stored {
            Stored::Nothing => {}
            Stored::Text(text) => drop(pipe.cmd("SET").arg(key).arg(text)),
            Stored::List(text) => drop(pipe.cmd("RPUSH").arg(key).arg(text)),
            Stored::Stream(ms, sequence) => {
                let id = format!("{ms}-{sequence}");
                pipe.cmd("XADD").arg(key).arg("MAXLEN").arg(0).arg(id).arg("t").arg("");
            }
            Stored::Scores(members) => {
                for (member, score) in members {
                    pipe.cmd("ZADD").arg(key).arg(*score).arg(member);
                }
            }
            Stored::Fields(fields) => {
                for (field, value) in fields {
                    pipe.cmd("HSET").arg(key).arg(field).arg(value);
                }
            }
        }
    }
    pipe.query::<()>(server).unwrap();
}

/// Errors that say that the data is not ours, or not understood: no outage, no time limit, no panic.
fn is_about_the_data(error: &BackendError) {
    let kind = error.kind();
    let fits = matches!(
        kind,
        Kind::ForeignData | Kind::Protocol | Kind::ClaimMismatch { .. } | Kind::TokensExhausted
    );
    assert!(fits, "{kind:?}: {error}");
}

async fn ask_for_all(client: &Client) {
    for claim in [Claim::mutex(), Claim::reader(), Claim::writer(), Claim::semaphore(2, 3).unwrap()] {
        let entry = Entry::new(name("job"), ID.parse().unwrap(), claim, ms(30_000));
        let token = FencingToken::new(1_760_000_000_000_000);
        for (step, wait) in [
            (Step::Create, WaitMode::Try),
            (Step::Again(token), WaitMode::Queue),
            (Step::Create, WaitMode::Queue),
        ] {
            let _ = client.enter(&entry, step, wait).await.inspect_err(is_about_the_data);
        }
        let lease = Lease { entry: entry.clone().into(), token };
        let _ = client.redis.renew(&[lease]).await.pop().unwrap().inspect_err(is_about_the_data);
        let operator = client.redis.operator();
        let _ = operator.queue(&entry.name).await.inspect_err(is_about_the_data);
        let _ = operator.list("").await.inspect_err(is_about_the_data);
        let _ = operator.evict(&entry.name, EntryId::new(7)).await.inspect_err(is_about_the_data);
        let _ = client.redis.leave(&entry, Creates::InDoubt).await.inspect_err(is_about_the_data);
    }
}

#[test]
fn no_stored_data_makes_a_verb_panic_hang_or_touch_a_foreign_lock() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server::start();
    let client = server.client_with("?command_timeout=5s");
    let admin = RefCell::new(server.connection());
    let outcome =
        TestRunner::new(Config { failure_persistence: None, ..Config::default() }).run(&keys(), |keys| {
            let mut admin = admin.borrow_mut();
            store(&mut admin, &keys);
            runtime.block_on(ask_for_all(&client));
            let foreign = match &keys[0].1 {
                Stored::Text(text) if !is_ours(text) => Some(("GET", text)),
                Stored::List(text) => Some(("LPOP", text)),
                _ => None,
            };
            if let Some((command, text)) = foreign {
                let now: Option<Vec<u8>> = redis::cmd(command).arg("job").query(&mut admin).unwrap();
                prop_assert_eq!(now.as_ref(), Some(text));
            }
            Ok(())
        });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// Whether a value is an entry, a token and possibly a label, as in ADR 1. A value that contains the id of the requesting entry counts, too:
/// other clients cannot guess 128 bits.
fn is_ours(text: &[u8]) -> bool {
    if text.windows(ID.len()).any(|part| part == ID.as_bytes()) {
        return true;
    }
    let hex = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
    let digits = text.iter().take_while(|b| hex(b)).count();
    let [b':' | b'+', rest @ ..] = &text[digits..] else { return false };
    let token = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    digits == 32 && matches!(rest.get(token), None | Some(b':'))
}
