//! Which entry is admitted next: PR11 and PR12.

mod common;

use common::*;
use futures_util::{FutureExt, StreamExt};
use lock_core::{Claim, Departure, Hint, Operator, Renewal, Standing, Step, WaitMode};

#[tokio::test]
async fn a_hand_off_is_told_with_the_token_and_nothing_is_left_to_ask() {
    let server = Server::start();
    let (mine, theirs) = (server.client(), server.client());
    let (holder, next) = (mutex("job"), mutex("job"));
    mine.hold(&holder).await;
    let mut waiter = waiting(theirs.create(&next).await);
    assert_eq!(waiter.hints.next().now_or_never(), None);
    mine.leave(&holder).await;
    assert_eq!(soon(waiter.hints.next()).await, Some(Hint::Admitted { token: waiter.token }));
    assert!(matches!(theirs.renew(&next, waiter.token).await, Renewal::Renewed { .. }));
}

#[tokio::test]
async fn a_cancelled_writer_frees_the_readers_behind_it() {
    let server = Server::start();
    let client = server.client();
    client.hold(&reader("page")).await;
    let w = writer("page");
    client.queue_up(&w).await;
    let mut behind = Vec::new();
    for _ in 0..5 {
        behind.push(waiting(client.create(&reader("page")).await));
    }
    client.leave(&w).await;
    for mut reader in behind {
        assert_eq!(soon(reader.hints.next()).await, Some(Hint::Admitted { token: reader.token }));
    }
    assert_eq!(server.command::<u64>("ZCARD page"), 6);
}

#[tokio::test]
async fn several_permits_freed_admit_several_and_no_more_than_fit() {
    let server = Server::start();
    let client = server.client();
    let big = semaphore("pool", 3, 4);
    client.hold(&semaphore("pool", 1, 4)).await;
    client.hold(&big).await;
    let mut queue = Vec::new();
    for permits in [1, 2, 2, 1] {
        let entry = semaphore("pool", permits, 4);
        let token = client.queue_up(&entry).await;
        queue.push((entry, token));
    }
    client.leave(&big).await;
    let rows = client.redis.queue(&name("pool")).await.unwrap();
    let admitted: Vec<_> = rows.iter().map(|row| (row.claim.permits(), row.admitted)).collect();
    // The last entry would fit, but no entry passes the one before it.
    assert_eq!(admitted, [(1, true), (1, true), (2, true), (2, false), (1, false)]);
}

#[tokio::test]
async fn readers_by_the_hundred_are_admitted_by_one_departure() {
    let server = Server::start();
    let client = server.client();
    let w = writer("page");
    client.hold(&w).await;
    let mut behind = Vec::new();
    for _ in 0..200 {
        behind.push(waiting(client.create(&reader("page")).await));
    }
    client.leave(&w).await;
    assert_eq!(server.command::<u64>("ZCARD page"), 200);
    for mut reader in behind {
        // With this many in one process, all its waiters are told to look.
        assert_eq!(soon(reader.hints.next()).await, Some(Hint::Changed));
    }
}

#[tokio::test]
async fn an_expired_holder_is_noticed_by_the_next_entry() {
    let server = Server::start();
    for (dead, next, comer) in [
        (mutex("a"), mutex("a"), mutex("a")),
        (writer("b"), reader("b"), writer("b")),
        (semaphore("c", 2, 2), semaphore("c", 2, 2), semaphore("c", 1, 2)),
    ] {
        let client = server.client();
        client.hold(&living(dead, BRIEF)).await;
        let mut waiter = waiting(client.create(&next).await);
        outlive(BRIEF).await;
        // Another client, which only tries.
        let standing = client.enter(&comer, Step::Create, WaitMode::Try).await.unwrap();
        assert!(matches!(standing, Standing::Busy));
        assert_eq!(soon(waiter.hints.next()).await, Some(Hint::Admitted { token: waiter.token }));
    }
}

/// PR11: also a renewal, and a departure that finds nothing.
#[tokio::test]
async fn every_verb_admits_those_who_now_fit() {
    let server = Server::start();
    let client = server.client();
    let (dead, live) = (living(semaphore("pool", 1, 2), BRIEF), semaphore("pool", 1, 2));
    client.hold(&dead).await;
    let token = client.hold(&live).await;
    let mut waiter = waiting(client.create(&semaphore("pool", 1, 2)).await);
    outlive(BRIEF).await;
    client.renew(&live, token).await;
    assert_eq!(soon(waiter.hints.next()).await, Some(Hint::Admitted { token: waiter.token }));

    client.hold(&living(mutex("job"), BRIEF)).await;
    let mut waiter = waiting(client.create(&mutex("job")).await);
    outlive(BRIEF).await;
    client.leave(&mutex("job")).await;
    assert_eq!(soon(waiter.hints.next()).await, Some(Hint::Admitted { token: waiter.token }));
}

/// PR12.
#[tokio::test]
async fn a_free_name_with_a_live_queue_goes_to_its_head_and_to_nobody_else() {
    let server = Server::start();
    let client = server.client();
    for (first, head, stranger) in [
        (mutex("a"), mutex("a"), mutex("a")),
        (writer("b"), writer("b"), reader("b")),
        (semaphore("c", 2, 2), semaphore("c", 2, 2), semaphore("c", 1, 2)),
    ] {
        client.hold(&first).await;
        let head_token = client.queue_up(&head).await;
        server.command::<()>(&format!("DEL {}", first.name.as_str()));
        let standing = client.enter(&stranger, Step::Create, WaitMode::Try).await.unwrap();
        assert!(matches!(standing, Standing::Busy), "{standing:?}");
        assert_eq!(admitted(client.again(&head, head_token).await), head_token);
        assert_eq!(waiting(client.create(&stranger).await).ahead, 1);
    }
}

#[tokio::test]
async fn crashed_waiters_cost_no_time() {
    let server = Server::start();
    let client = server.client();
    let holder = mutex("job");
    client.hold(&holder).await;
    for _ in 0..300 {
        client.queue_up(&living(mutex("job"), BRIEF)).await;
    }
    let mut last = waiting(client.create(&mutex("job")).await);
    outlive(BRIEF).await;
    client.leave(&holder).await;
    assert_eq!(soon(last.hints.next()).await, Some(Hint::Admitted { token: last.token }));
    assert_eq!(server.bytes::<u64>(&[b"ZCARD", &companion("q", "job")]), 0);
    assert!(!server.bytes::<bool>(&[b"EXISTS", &companion("e", "job")]));
}

#[tokio::test]
async fn an_heir_holds_with_what_is_left_of_its_own_lease() {
    let server = Server::start();
    let client = server.client();
    let holder = mutex("job");
    client.hold(&holder).await;
    let before = client.keeper.now();
    client.queue_up(&mutex("job")).await;
    tokio::time::sleep(ms(200)).await;
    client.leave(&holder).await;
    let left: i64 = server.command("PTTL job");
    let waited = client.keeper.now().since(before).as_millis() as i64 + 1;
    assert!((30_000 - waited..=29_802).contains(&left), "{left} after {waited}");
}

/// PR15 on Redis: the end of a lease that can admit me, and not just any.
#[tokio::test]
async fn a_waiter_is_told_to_look_when_a_lease_ends_that_stands_in_its_way() {
    let server = Server::start();
    let client = server.client();
    let began = client.keeper.now();
    client.hold(&living(reader("page"), 20_000)).await;
    client.hold(&living(reader("page"), 14_000)).await;
    let look = async |entry| {
        let asked = client.keeper.now();
        let look_again = waiting(client.create(&entry).await).look_again;
        (asked, look_again)
    };
    // Every lease was requested between the beginning and now. Leases are counted in whole milliseconds, and a look comes one
    // millisecond later.
    let assert_at_the_end_of = |ttl, look_again: lock_core::BootTime| {
        let late = client.keeper.now() + ms(2);
        assert!(look_again >= began + ms(ttl), "{:?} after the beginning", look_again.since(began));
        assert!(look_again <= late + ms(ttl), "{:?} after the beginning", look_again.since(began));
    };
    // A writer needs both entries gone.
    let (_, look_again) = look(living(writer("page"), 9_000)).await;
    assert_at_the_end_of(20_000, look_again);
    // A reader needs the writer gone, whatever entries are between them.
    let (asked, look_again) = look(living(reader("page"), 2_000)).await;
    assert_at_the_end_of(9_000, look_again);
    let nearest = look_again;
    let (asked_last, look_again) = look(reader("page")).await;
    assert!(look_again < nearest, "the nearest set is the two ahead");
    assert!(look_again >= asked + ms(2_000) && look_again >= asked_last, "{look_again:?}");
}

#[tokio::test]
async fn a_waiter_who_only_tries_leaves_nothing_behind() {
    let server = Server::start();
    let client = server.client();
    client.hold(&mutex("job")).await;
    let before = server.locks();
    let standing = client.enter(&mutex("job"), Step::Create, WaitMode::Try).await.unwrap();
    assert!(matches!(standing, Standing::Busy));
    assert_eq!(server.locks(), before);
}

#[tokio::test]
async fn a_next_holder_in_the_same_process_is_told_by_answer_and_by_message() {
    let server = Server::start();
    let client = server.client();
    let holder = mutex("job");
    client.hold(&holder).await;
    let mut heir = waiting(client.create(&mutex("job")).await);
    assert_eq!(client.leave(&holder).await, Departure::Left);
    let hint = Hint::Admitted { token: heir.token };
    assert_eq!(heir.hints.next().now_or_never(), Some(Some(hint)), "told when the release is answered");
    // The message is still sent: if the answer of a release is lost, nothing else reports the hand-off.
    assert_eq!(soon(heir.hints.next()).await, Some(hint));
}

/// A waiter that moves from one runtime to another gets its hint on the runtime where it entered last, also after the first one has ended.
#[test]
fn a_waiter_is_told_on_the_runtime_on_which_it_entered_last() {
    let server = Server::start();
    let client = server.client();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, last, third) = (runtime(), runtime(), runtime());
    for moved in [false, true] {
        for claim in [Claim::mutex(), Claim::writer()] {
            let of = format!("{moved} {claim:?}");
            let (holder, waiter) = (entry(&of, claim, ms(30_000)), entry(&of, claim, ms(30_000)));
            third.block_on(client.hold(&holder));
            let Waiting { token, hints, .. } = waiting(first.block_on(client.create(&waiter)));
            let (home, mut hints) = if moved {
                (&last, waiting(last.block_on(client.again(&waiter, token))).hints)
            } else {
                (&first, hints)
            };
            third.block_on(client.leave(&holder));
            let hint = home.block_on(async { soon(hints.next()).await });
            assert_eq!(hint, Some(Hint::Admitted { token }), "{of}");
        }
    }
}
