//! The leases, lives and departures of entries.

mod common;

use common::*;
use lock_core::{Backend, Claim, Creates, Departure, Operator, Renewal, Standing, Step, WaitMode};

/// PR04.
#[tokio::test]
async fn a_late_shorter_renewal_cuts_nothing() {
    let (server, of) = (Server::start(), "job");
    let client = server.client();
    let holder = mutex(of);
    let token = client.hold(&holder).await;
    assert!(matches!(client.renew(&living(holder, 200), token).await, Renewal::Renewed { .. }));
    // If it were cut, it would be 200.
    assert!(server.command::<i64>("PTTL job") > 10_000);

    let member = semaphore("many", 1, 2);
    let token = client.hold(&member).await;
    let end = |id| server.command::<f64>(&format!("ZSCORE many {id}"));
    let before = end(member.id);
    assert!(matches!(client.renew(&living(member.clone(), 200), token).await, Renewal::Renewed { .. }));
    assert!(end(member.id) >= before);
    assert!(server.command::<i64>("PTTL many") > 10_000);
}

/// PR04, for a waiter: it will hold for the rest of its lease.
#[tokio::test]
async fn a_shorter_look_again_cuts_nothing_of_a_waiter() {
    let server = Server::start();
    let client = server.client();
    let (holder, waiter) = (mutex("job"), mutex("job"));
    client.hold(&holder).await;
    let token = client.queue_up(&waiter).await;
    waiting(client.again(&living(waiter, 200), token).await);
    client.leave(&holder).await;
    assert!(server.command::<i64>("PTTL job") > 10_000);
}

/// PR06.
#[tokio::test]
async fn an_expired_holder_that_nobody_purged_is_lost_and_never_first_again() {
    let server = Server::start();
    let client = server.client();
    let (dead, next) = (living(semaphore("one", 1, 1), BRIEF), semaphore("one", 1, 1));
    let token = client.hold(&dead).await;
    let next_token = client.queue_up(&next).await;
    outlive(BRIEF).await;
    // Its entry is still in the set, and still the first one.
    assert_eq!(server.command::<u64>("ZCARD one"), 1);
    assert_eq!(client.renew(&dead, token).await, Renewal::Lost);
    assert!(matches!(client.again(&dead, token).await, Standing::Gone));
    assert_eq!(admitted(client.again(&next, next_token).await), next_token);
}

/// PR06 and C4.
#[tokio::test]
async fn an_expired_waiter_that_nobody_purged_loses_its_place_and_its_life() {
    let server = Server::start();
    let client = server.client();
    let (holder, dead, behind) = (mutex("job"), living(mutex("job"), BRIEF), mutex("job"));
    client.hold(&holder).await;
    let token = client.queue_up(&dead).await;
    let behind_token = client.queue_up(&behind).await;
    outlive(BRIEF).await;
    assert!(matches!(client.again(&dead, token).await, Standing::Gone));
    let new_life = waiting(client.create(&dead).await);
    assert!(new_life.token > behind_token);
    assert_eq!(new_life.ahead, 2, "the holder, and the entry that was behind");
}

/// PR06, with a create that is repeated after its entry died.
#[tokio::test]
async fn a_create_after_death_is_another_life_at_the_end_of_the_queue() {
    let server = Server::start();
    let client = server.client();
    let (holder, dead, behind) = (mutex("job"), living(mutex("job"), BRIEF), mutex("job"));
    client.hold(&holder).await;
    let token = client.queue_up(&dead).await;
    client.queue_up(&behind).await;
    outlive(BRIEF).await;
    let again = waiting(client.create(&dead).await);
    assert!(again.token > token);
    assert_eq!(again.ahead, 2);
    assert!(matches!(client.again(&dead, token).await, Standing::Gone), "the old life stays dead (PR03)");
}

/// PR08.
#[tokio::test]
async fn a_late_create_finds_the_tombstone() {
    let server = Server::start();
    // The server is asked, and not the memory of the client that has left.
    let (client, late_client) = (server.client_by_scripts(""), server.client_by_scripts(""));
    for late in [mutex("job"), semaphore("many", 1, 2), writer("page")] {
        assert_eq!(client.redis.leave(&late, Creates::InDoubt).await.unwrap(), Departure::Absent);
        for wait in [WaitMode::Queue, WaitMode::Try] {
            let standing = late_client.enter(&late, Step::Create, wait).await.unwrap();
            assert!(matches!(standing, Standing::Gone), "{standing:?}");
        }
        assert!(!server.command::<bool>(&format!("EXISTS {}", late.name.as_str())));
    }
}

/// PR08: also for an entry that was there, because its create may arrive twice; and for a waiter.
#[tokio::test]
async fn holders_and_waiters_leave_a_tombstone_too() {
    let server = Server::start();
    // The server is asked, and not the memory of the client that has left.
    let (client, late_client) = (server.client_by_scripts(""), server.client_by_scripts(""));
    let (holder, waiter) = (mutex("job"), mutex("job"));
    client.hold(&holder).await;
    client.queue_up(&waiter).await;
    for one in [&waiter, &holder] {
        assert_eq!(client.redis.leave(one, Creates::InDoubt).await.unwrap(), Departure::Left);
        assert!(matches!(late_client.create(one).await, Standing::Gone));
    }
    assert!(!server.command::<bool>("EXISTS job"));
}

/// PR08: as long as a late create can do harm.
#[tokio::test]
async fn a_tombstone_stays_for_a_minute_and_for_the_ttl() {
    let server = Server::start();
    let client = server.client();
    for (ttl, closed) in [(1_000, 60_000), (120_000, 120_000)] {
        let late = living(mutex("job"), ttl);
        let asked = client.keeper.now();
        client.redis.leave(&late, Creates::InDoubt).await.unwrap();
        let tombstone = companion(&format!("x{}", late.id), "job");
        let left: i64 = server.bytes(&[b"PTTL", &tombstone]);
        let passed = client.keeper.now().since(asked).as_millis() as i64 + 1;
        assert!((closed - passed..=closed).contains(&left), "{left} after {passed}");
    }
}

#[tokio::test]
async fn a_departure_without_doubt_leaves_no_tombstone() {
    let server = Server::start();
    let client = server.client();
    let holder = mutex("job");
    client.hold(&holder).await;
    assert_eq!(client.leave(&holder).await, Departure::Left);
    assert_eq!(server.keys(), [counter("job")], "only the counter of the slot stays");
    client.hold(&holder).await;
}

/// PR10 and C5.
#[tokio::test]
async fn a_repeated_leave_finds_nothing_and_harms_nobody() {
    let server = Server::start();
    let client = server.client();
    for (first, next) in [(mutex("job"), mutex("job")), (semaphore("one", 1, 1), semaphore("one", 1, 1))] {
        client.hold(&first).await;
        let token = client.queue_up(&next).await;
        assert_eq!(client.leave(&first).await, Departure::Left);
        assert_eq!(client.leave(&first).await, Departure::Absent);
        assert!(matches!(client.renew(&next, token).await, Renewal::Renewed { .. }));
    }
}

/// C3, and PR10 for creates.
#[tokio::test]
async fn a_repeated_create_keeps_place_and_token_and_refreshes_the_lease() {
    let server = Server::start();
    let client = server.client();
    let (holder, waiter, last) = (mutex("job"), mutex("job"), mutex("job"));
    let token = client.hold(&holder).await;
    assert_eq!(client.hold(&holder).await, token);
    let token = client.queue_up(&waiter).await;
    client.queue_up(&last).await;
    for _ in 0..3 {
        tokio::time::sleep(ms(50)).await;
        let asked = client.keeper.now();
        let again = waiting(client.create(&waiter).await);
        assert_eq!((again.token, again.ahead), (token, 1));
        // The whole ttl, counted from the request. Before, it was 50 ms less.
        let rows = client.redis.queue(&name("job")).await.unwrap();
        let left = rows.iter().find(|row| row.entry == Some(waiter.id)).unwrap().lease_left.unwrap();
        let passed = client.keeper.now().since(asked);
        assert!(left + passed >= waiter.ttl, "{left:?} after {passed:?}");
    }
    let member = reader("page");
    let token = client.hold(&member).await;
    assert_eq!(client.hold(&member).await, token);
    assert_eq!(server.command::<u64>("ZCARD page"), 1);
}

#[tokio::test]
async fn a_lease_that_was_made_eternal_by_hand_ends_again() {
    let server = Server::start();
    let client = server.client();
    let holder = mutex("job");
    let token = client.hold(&holder).await;
    server.command::<()>("PERSIST job");
    client.renew(&holder, token).await;
    assert!(server.command::<i64>("PTTL job") > 0, "H59");
}

#[tokio::test]
async fn a_renewal_is_lost_for_another_token_another_entry_and_no_entry() {
    let server = Server::start();
    let client = server.client();
    for (mine, other) in [(mutex("job"), mutex("job")), (reader("page"), reader("page"))] {
        let token = client.hold(&mine).await;
        let another_life = lock_core::FencingToken::new(token.get() + 1);
        assert_eq!(client.renew(&mine, another_life).await, Renewal::Lost);
        assert_eq!(client.renew(&other, token).await, Renewal::Lost);
        client.leave(&mine).await;
        assert_eq!(client.renew(&mine, token).await, Renewal::Lost);
        assert!(!server.command::<bool>(&format!("EXISTS {}", mine.name.as_str())), "R05");
    }
}

#[tokio::test]
async fn leases_are_renewed_together_and_one_failure_does_not_fail_the_others() {
    let server = Server::start();
    let client = server.client();
    let mut leases = Vec::new();
    for i in 0..300 {
        let of = format!("job/{i}");
        let entry = if i % 3 == 0 { reader(&of) } else { mutex(&of) };
        let token = client.hold(&entry).await;
        leases.push(lock_core::Lease { entry: std::sync::Arc::new(entry), token });
    }
    server.command::<()>("DEL job/7");
    server.command::<()>("DEL job/8");
    server.command::<()>("RPUSH job/8 data");
    server.bytes::<()>(&[b"DEL", &companion("e", "job/9")]);
    server.bytes::<()>(&[b"SET", &companion("e", "job/9"), b"of another type"]);
    for (i, answer) in client.redis.renew(&leases).await.into_iter().enumerate() {
        match i {
            7 | 8 => assert_eq!(answer.unwrap(), Renewal::Lost, "{i}"),
            9 => assert_eq!(*answer.unwrap_err().kind(), lock_core::BackendErrorKind::ForeignData),
            _ => assert!(matches!(answer.unwrap(), Renewal::Renewed { .. }), "{i}"),
        }
    }
}

/// PR07.
#[tokio::test]
async fn another_kind_or_limit_is_refused_until_the_queue_is_empty() {
    let server = Server::start();
    let client = server.client();
    let claims =
        [Claim::mutex(), Claim::writer(), Claim::semaphore(1, 1).unwrap(), Claim::semaphore(1, 2).unwrap()];
    for mine in claims {
        let holder = entry("job", mine, ms(30_000));
        client.hold(&holder).await;
        let before = server.locks();
        for other in claims.into_iter().filter(|other| !other.agrees_with(&mine)) {
            let (found_kind, found_limit) = (mine.kind(), mine.limit());
            let mismatch = lock_core::BackendErrorKind::ClaimMismatch { found_kind, found_limit };
            assert_eq!(client.refused(&entry("job", other, ms(30_000))).await, mismatch);
        }
        assert_eq!(server.locks(), before);
        client.leave(&holder).await;
    }
}

/// PR07: the dead do not count.
#[tokio::test]
async fn a_queue_of_the_dead_has_no_kind() {
    let server = Server::start();
    let client = server.client();
    client.hold(&living(writer("job"), BRIEF)).await;
    client.queue_up(&living(reader("job"), BRIEF)).await;
    outlive(BRIEF).await;
    client.hold(&mutex("job")).await;
}
