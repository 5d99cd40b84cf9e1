//! The costs of each verb for the server, as counts, which do not depend on speed.

mod common;

use common::*;
use futures_util::StreamExt;
use lock_core::{Departure, Hint, Renewal};

/// A client that has done everything once: its scripts are loaded, its notifications live.
async fn warm(server: &Server) -> Client {
    let client = server.client();
    let (first, second) = (mutex("warm"), mutex("warm"));
    let token = client.hold(&first).await;
    client.queue_up(&second).await;
    client.renew(&first, token).await;
    client.leave(&first).await;
    client.leave(&second).await;
    // A lock for which nobody waits is released by another script.
    let alone = mutex("alone");
    client.hold(&alone).await;
    client.leave(&alone).await;
    server.forget_calls();
    client
}

fn sent(server: &Server) -> [u64; 3] {
    ["evalsha", "eval", "script|load"].map(|command| server.calls(command))
}

#[tokio::test]
async fn an_uncontended_acquire_sends_one_transaction_and_a_release_one_script() {
    let server = Server::start();
    let client = warm(&server).await;
    let mine = mutex("job");
    client.hold(&mine).await;
    assert_eq!(sent(&server), [0, 0, 0]);
    let plain = ["multi", "exists", "xadd", "set", "exec"].map(|command| server.calls(command));
    assert_eq!(plain, [1; 5], "a look for waiters; the token and the holder");
    server.forget_calls();
    client.leave(&mine).await;
    assert_eq!(sent(&server), [1, 0, 0]);
    assert_eq!(["get", "del"].map(|command| server.calls(command)), [1, 1]);
    // The remaining calls are those of this test.
    let info: String = server.command("INFO commandstats");
    let others: Vec<_> = info.lines().filter_map(|line| line.split(':').next()).collect();
    for other in others.iter().filter(|line| line.starts_with("cmdstat_")) {
        let known = ["evalsha", "get", "del", "info", "config|resetstat", "ping"];
        let known = known.iter().any(|known| *other == format!("cmdstat_{known}"));
        assert!(known || *other == "cmdstat_client|setinfo", "{other}");
    }
}

/// With a name of 16 bytes, and nothing else to be sent: verbs that share a batch are fewer bytes.
#[tokio::test]
async fn an_uncontended_pair_is_at_most_460_bytes_on_the_wire() {
    const PAIRS: usize = 100;
    let server = Server::start();
    let client = warm(&server).await;
    let bytes = || {
        let info: String = server.command("INFO stats");
        let of = |field: &str| {
            let (_, value) = info.split_once(&format!("total_net_{field}_bytes:")).unwrap();
            value.split_whitespace().next().unwrap().parse::<usize>().unwrap()
        };
        of("input") + of("output")
    };
    let [_, before, again] = [bytes(), bytes(), bytes()];
    for i in 0..PAIRS {
        let mine = mutex(&format!("order/{i:010}"));
        client.hold(&mine).await;
        client.leave(&mine).await;
    }
    // `INFO` counts its own question and the answer before.
    let each = (bytes() - again - (again - before)) / PAIRS;
    assert!((400..=460).contains(&each), "{each} bytes");
}

#[tokio::test]
async fn a_renewal_of_many_leases_sends_one_command_for_128() {
    let server = Server::start();
    let client = warm(&server).await;
    let mut leases = Vec::new();
    for i in 0..256 {
        let entry = mutex(&format!("job/{i}"));
        let token = client.hold(&entry).await;
        leases.push(lock_core::Lease { entry: std::sync::Arc::new(entry), token });
    }
    server.forget_calls();
    let answers = lock_core::Backend::renew(&client.redis, &leases).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Renewal::Renewed { .. }))));
    assert_eq!(sent(&server), [2, 0, 0]);
}

#[tokio::test]
async fn a_server_that_forgot_the_scripts_is_told_them_in_the_same_verb() {
    let server = Server::start();
    let client = warm(&server).await;
    let (mine, next) = (mutex("job"), mutex("job"));
    server.command::<()>("SCRIPT FLUSH");
    let token = client.hold(&mine).await;
    server.command::<()>("SCRIPT FLUSH");
    assert!(matches!(client.renew(&mine, token).await, Renewal::Renewed { .. }));
    server.command::<()>("SCRIPT FLUSH");
    client.queue_up(&next).await;
    server.command::<()>("SCRIPT FLUSH");
    assert_eq!(client.leave(&mine).await, Departure::Left);
}

/// Most keys of a shared server are not locks. Each key is looked at, but not with a command of its own.
#[tokio::test]
async fn a_list_on_a_shared_server_sends_a_command_for_many_keys_of_others() {
    const OTHERS: u64 = 5_000;
    let server = Server::start();
    let fill = format!(
        "for i = 1, {OTHERS} do
            redis.call('SET', 'text ' .. i, string.rep('x', 40))
            redis.call('ZADD', 'set ' .. i, 1, 'a')
            redis.call('HSET', 'hash ' .. i, 'a', 1)
        end"
    );
    server.bytes::<()>(&[b"EVAL", fill.as_bytes(), b"0"]);
    // One value has the form of ours except for its last byte, the other is too long to be read.
    server.command::<()>(&format!("SET near {}:1795201861000467.", "4f".repeat(16)));
    server.bytes::<()>(&[b"SETRANGE", b"long", b"1000000", b"x"]);
    let client = warm(&server).await;
    for entry in [mutex("mine"), reader("page"), semaphore("pool", 1, 2)] {
        client.hold(&entry).await;
    }
    server.command::<()>("SET theirs x");
    client.queue_up(&mutex("theirs")).await;
    // After this, the server knows the scripts.
    lock_core::Operator::list(&client.redis, "").await.unwrap();
    server.forget_calls();
    let names = lock_core::Operator::list(&client.redis, "").await.unwrap();
    let names: Vec<_> = names.into_iter().map(String::from).collect();
    assert_eq!(names, ["mine", "page", "pool", "theirs"]);
    // A page counts all keys that the server looks at, whatever their type.
    let pages = server.calls("scan");
    assert!((1..=OTHERS / 50).contains(&pages), "{pages} pages");
    let scripts: u64 = sent(&server).into_iter().sum();
    assert!(scripts <= pages + 4, "{scripts} scripts for {pages} pages and four locks");
    let looks = ["getrange", "hexists"].map(|command| server.calls(command));
    // A key may be on several pages.
    assert!(looks.into_iter().all(|looks| (OTHERS..2 * OTHERS).contains(&looks)), "{looks:?}");
    // Only the two mutexes that have a queue or a holder of ours are read.
    assert_eq!(server.calls("get"), 2, "the data of others is read");
}

/// A thousand waiters keep the machine busy, so these tests run when no other does.
mod alone {
    use super::*;

    #[tokio::test]
    async fn a_hand_off_sends_one_command_and_costs_the_same_however_many_wait() {
        let server = Server::start();
        let client = warm(&server).await;
        for waiters in [2, 10, 100, 1_000] {
            let of = format!("job/{waiters}");
            let holder = mutex(&of);
            client.hold(&holder).await;
            let mut heir = waiting(client.create(&mutex(&of)).await);
            for _ in 1..waiters {
                client.queue_up(&mutex(&of)).await;
            }
            server.forget_calls();
            assert_eq!(client.leave(&holder).await, Departure::Left);
            assert_eq!(soon(heir.hints.next()).await, Some(Hint::Admitted { token: heir.token }));
            assert_eq!(sent(&server), [1, 0, 0], "{waiters} waiters");
            let commands = ["get", "zpopmin", "time", "hget", "set", "exists", "hdel", "publish", "type"];
            let inside = commands.map(|command| server.calls(command));
            assert_eq!(inside, [1, 1, 1, 1, 1, 1, 1, 1, 0], "{waiters} waiters");
        }
    }

    /// This includes joining the queue.
    #[tokio::test]
    async fn entering_a_long_queue_costs_the_same_as_a_short_one() {
        let server = Server::start();
        let client = warm(&server).await;
        let mut inside = Vec::new();
        for (of, waiters) in [("short", 2), ("long", 1_000)] {
            client.hold(&mutex(of)).await;
            for _ in 0..waiters {
                client.queue_up(&mutex(of)).await;
            }
            server.forget_calls();
            client.queue_up(&mutex(of)).await;
            assert_eq!(sent(&server), [1, 0, 0]);
            inside.push(["zrange", "hmget", "hset", "zadd", "pexpire"].map(|command| server.calls(command)));
        }
        assert_eq!(inside[0], inside[1]);
    }
}
