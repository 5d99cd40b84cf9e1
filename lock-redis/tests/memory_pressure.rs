//! PR20: out of memory, no new entries are created, and existing ones continue and end as usual.

mod common;

use common::*;
use futures_util::StreamExt;
use lock_core::{Backend, BackendErrorKind, Creates, Departure, Hint, Operator, Renewal, Step, WaitMode};

fn fill(server: &Server) {
    server.command::<()>("CONFIG SET maxmemory 1");
    let refused: redis::RedisResult<()> =
        redis::cmd("SET").arg("one").arg("more").query(&mut server.connection());
    assert_eq!(refused.unwrap_err().code(), Some("OOM"));
}

#[tokio::test]
async fn enter_is_refused_and_nothing_is_written() {
    let server = Server::start();
    let client = server.client();
    client.hold(&mutex("held")).await;
    fill(&server);
    let before = server.dump();
    for of in ["free", "held"] {
        assert_eq!(client.refused(&mutex(of)).await, BackendErrorKind::OutOfMemory, "{of}");
    }
    assert_eq!(client.refused(&semaphore("free", 1, 2)).await, BackendErrorKind::OutOfMemory);
    let tried = client.enter(&writer("free"), Step::Create, WaitMode::Try).await;
    assert_eq!(*tried.unwrap_err().kind(), BackendErrorKind::OutOfMemory);
    assert_eq!(server.dump(), before);
}

#[tokio::test]
async fn holders_are_renewed_and_waiters_keep_their_places() {
    let server = Server::start();
    let client = server.client();
    let pairs =
        [(mutex("a"), mutex("a")), (reader("b"), writer("b")), (semaphore("c", 1, 1), semaphore("c", 1, 1))];
    let mut kept = Vec::new();
    for (mine, next) in pairs {
        let token = client.hold(&mine).await;
        let place = client.queue_up(&next).await;
        kept.push((mine, token, next, place));
    }
    fill(&server);
    for _ in 0..3 {
        tokio::time::sleep(ms(50)).await;
        for (mine, token, next, place) in &kept {
            let asked = client.keeper.now();
            assert!(matches!(client.renew(mine, *token).await, Renewal::Renewed { .. }));
            assert_eq!(waiting(client.again(next, *place).await).token, *place);
            // The whole ttl, counted from the request, in whole milliseconds. Before, it was 50 ms less.
            let rows = client.redis.queue(&mine.name).await.unwrap();
            let passed = client.keeper.now().since(asked);
            for row in &rows {
                let left = row.lease_left.unwrap();
                assert!(left + passed + ms(1) >= mine.ttl, "{left:?} after {passed:?} of {row:?}");
            }
            assert_eq!(rows.len(), 2);
        }
    }
}

#[tokio::test]
async fn a_departure_hands_on_to_those_who_wait() {
    let server = Server::start();
    let client = server.client();
    for (mine, next) in
        [(mutex("a"), mutex("a")), (writer("b"), reader("b")), (semaphore("c", 2, 2), semaphore("c", 1, 2))]
    {
        client.hold(&mine).await;
        let mut heir = waiting(client.create(&next).await);
        fill(&server);
        assert_eq!(client.leave(&mine).await, Departure::Left);
        assert_eq!(soon(heir.hints.next()).await, Some(Hint::Admitted { token: heir.token }));
        assert!(matches!(client.renew(&next, heir.token).await, Renewal::Renewed { .. }));
        assert_eq!(client.leave(&next).await, Departure::Left);
        server.command::<()>("CONFIG SET maxmemory 0");
    }
}

/// PR08 under PR20.
#[tokio::test]
async fn an_entry_that_leaves_in_doubt_leaves_a_tombstone() {
    let server = Server::start();
    let client = server.client();
    let late = mutex("job");
    fill(&server);
    assert_eq!(client.redis.leave(&late, Creates::InDoubt).await.unwrap(), Departure::Absent);
    server.command::<()>("CONFIG SET maxmemory 0");
    assert!(matches!(client.create(&late).await, lock_core::Standing::Gone));
}
