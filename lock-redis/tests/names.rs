//! What very many names leave on the server.

mod common;

use common::*;
use futures_util::{StreamExt, stream};
use lock_conformance::volume;
use lock_core::Departure;

/// So many slots, and so many counters at the most.
const SLOTS: usize = 16_384;

/// The most that a counter may take, in bytes, with its part of the table of keys.
const EACH: u64 = 512;

fn used_memory(server: &Server) -> u64 {
    let info: String = server.command("INFO memory");
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    used.and_then(|used| used.trim().parse().ok()).expect("the server tells how much memory it uses")
}

/// Takes a lock of this name, with a waiter now and then, and gives it back.
async fn use_name(client: &Client, i: u64) {
    let of = format!("order/{i}");
    let (mine, next) = match i % 16 {
        0 => (reader(&of), Some(writer(&of))),
        1 => (semaphore(&of, 2, 3), None),
        2 => (mutex(&of), Some(mutex(&of))),
        _ => (mutex(&of), None),
    };
    client.hold(&mine).await;
    if let Some(next) = &next {
        client.queue_up(next).await;
    }
    for one in [Some(&mine), next.as_ref()].into_iter().flatten() {
        assert_eq!(client.leave(one).await, Departure::Left);
    }
}

/// So many requests keep the machine busy, so this test runs when no other does.
mod alone {
    use super::*;

    #[tokio::test]
    async fn any_number_of_names_leaves_a_counter_for_each_slot_and_nothing_else() {
        let names = volume(10_000, 1_000_000);
        let server = Server::start();
        let client = server.client_with("?command_timeout=60s");
        for i in 0..3 {
            use_name(&client, i).await;
        }
        let before = used_memory(&server);
        stream::iter(0..names).for_each_concurrent(64, |i| use_name(&client, i)).await;
        let keys = server.keys();
        let other = keys.iter().find(|key| !is_counter(key));
        assert_eq!(other, None, "something else stays behind");
        let most = SLOTS.min(usize::try_from(names).unwrap());
        assert!(keys.len() > SLOTS / 4 && keys.len() <= most, "{} counters for {names} names", keys.len());
        let each: u64 = server.bytes(&[b"MEMORY", b"USAGE", &keys[0]]);
        let more = used_memory(&server).saturating_sub(before);
        let count = keys.len();
        println!("{names} names leave {count} counters of {each} bytes; the server has grown by {more}");
        assert!(more <= EACH * SLOTS as u64 && each <= EACH, "{each} bytes each, {more} in all");
    }
}
