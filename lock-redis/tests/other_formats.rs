//! Clients of format 1 on the same server: each format takes the locks of the other for those of a foreign client. Nothing of format 1 was
//! released, so these tests write what such a client stored.

mod common;

use common::*;
use lock_core::{BackendErrorKind, Departure, Holder, Operator, Renewal, Step, WaitMode};

const ID: &str = "4f0123456789abcdef0123456789abcd";

const TOKEN: u64 = 1_795_201_861_000_467;

/// A companion of format 1.
fn old_companion(letter: &str) -> Vec<u8> {
    [b"\xff1", letter.as_bytes(), b"{job}"].concat()
}

/// The value of a mutex of format 1.
fn old_value(label: &str) -> String {
    format!("{TOKEN}:{ID}{label}")
}

/// What the scripts of format 1 took for their own: a token, 32 hexadecimal digits, and then the end or a label.
fn is_of_format_1(value: &str) -> bool {
    let Some((token, rest)) = value.split_once(':') else { return false };
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let id = rest.chars().take_while(|c| hex(*c)).count();
    !token.is_empty()
        && token.chars().all(|c| c.is_ascii_digit())
        && id == 32
        && (rest.len() == 32 || rest[32..].starts_with(':'))
}

#[tokio::test]
async fn a_mutex_of_format_1_is_a_foreign_holder() {
    let server = Server::start();
    let client = server.client();
    for label in ["", ":web-1"] {
        let value = old_value(label);
        assert!(is_of_format_1(&value));
        server.bytes::<()>(&[b"SET", b"job", value.as_bytes(), b"PX", b"60000"]);
        server.bytes::<()>(&[b"SET", &old_companion("t"), TOKEN.to_string().as_bytes()]);
        // A waiter of format 1.
        let (waiter, waits) = ("e".repeat(32), format!("{} 30000 9999999999999 1 p ", TOKEN + 1));
        server.bytes::<()>(&[b"ZADD", &old_companion("q"), b"1", waiter.as_bytes()]);
        let entries = old_companion("e");
        server.bytes::<()>(&[b"HSET", &entries, b"k", b"m:1", waiter.as_bytes(), waits.as_bytes()]);
        let before = server.dump();

        let mine = mutex("job");
        let tried = client.enter(&mine, Step::Create, WaitMode::Try).await.unwrap();
        assert!(matches!(tried, lock_core::Standing::Busy), "{tried:?}");
        let place = waiting(client.create(&mine).await);
        assert_eq!(place.holder, Some(Holder::Foreign { expires: true }));
        // Not even an entry with the id of the holder is taken for the holder.
        let mut same = mutex("job");
        same.id = ID.parse().unwrap();
        assert_eq!(client.renew(&same, lock_core::FencingToken::new(TOKEN)).await, Renewal::Lost);
        assert_eq!(client.leave(&same).await, Departure::Absent);
        let rows = client.redis.queue(&name("job")).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.entry).collect::<Vec<_>>(), [None, Some(mine.id)]);
        // Whatever format 1 stored is still there.
        let after = server.dump();
        assert!(before.iter().all(|kept| after.contains(kept)), "{after:?}");

        server.command::<()>("DEL job");
        assert_eq!(admitted(client.again(&mine, place.token).await), place.token);
        client.leave(&mine).await;
        server.command::<()>("FLUSHALL");
    }
}

#[tokio::test]
async fn format_1_takes_no_mutex_of_ours_for_its_own() {
    let server = Server::start();
    let client = server.client();
    let labels = [None, Some(String::new()), Some("web-1".to_owned()), Some("e".repeat(32))];
    for (label, id) in labels.iter().flat_map(|label| [(label, ID.to_owned()), (label, "1".repeat(32))]) {
        let mut mine = mutex("job").with_label(label.clone());
        mine.id = id.parse().unwrap();
        let token = client.hold(&mine).await;
        let held: String = server.command("GET job");
        assert!(!is_of_format_1(&held), "{held}");
        assert!(!server.command::<bool>("SETNX job theirs"));
        // An heir, whose value another script writes.
        let mut heir = mutex("job").with_label(label.clone());
        heir.id = "2".repeat(32).parse().unwrap();
        let next = client.queue_up(&heir).await;
        assert!(matches!(client.renew(&mine, token).await, Renewal::Renewed { .. }));
        client.leave(&mine).await;
        let held: String = server.command("GET job");
        assert!(held.contains(&next.to_string()) && !is_of_format_1(&held), "{held}");
        client.leave(&heir).await;
        assert!(server.keys().iter().all(|key| !key.starts_with(b"\xff1")));
    }
}

/// The set of another format is data of a type that no entry of ours describes.
#[tokio::test]
async fn holders_in_a_set_of_format_1_keep_every_kind_out() {
    let server = Server::start();
    let client = server.client();
    server.bytes::<()>(&[b"ZADD", b"job", b"9999999999999", ID.as_bytes()]);
    let details = format!("{TOKEN} 30000 9999999999999 1 p ");
    let entries = old_companion("e");
    let details = details.as_bytes();
    server.bytes::<()>(&[b"HSET", &entries, b"k", b"s:2", b"s", b"1", ID.as_bytes(), details]);
    let before = server.locks();
    for mine in [mutex("job"), reader("job"), writer("job"), semaphore("job", 1, 2)] {
        assert_eq!(client.refused(&mine).await, BackendErrorKind::ForeignData);
        assert_eq!(client.leave(&mine).await, Departure::Absent);
    }
    assert_eq!(server.locks(), before);
}
