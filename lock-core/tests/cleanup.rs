//! The clean-up that the keeper does for dropped and released guards, on simulated time: it repeats each removal until the store has
//! confirmed it, or until the lease must have ended.

mod support;

use std::time::Duration;

use lock_core::{AcquireOptions, DistributedLock, Error, Guard, Released};
use support::{Client, Fault, Sim, Verb, lease, ms, s, sleep};

fn ttl(ttl: Duration) -> AcquireOptions {
    AcquireOptions::new().ttl(ttl)
}

async fn hold(client: &Client, options: &AcquireOptions) -> Guard {
    client.locks.mutex("a").unwrap().acquire_with(options).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_leave_that_the_store_did_not_get_is_repeated_before_the_lease_ends() {
    let sim = Sim::new();
    let client = sim.client();
    client.wire.always(Verb::Leave, Some(Fault::Refused));
    drop(hold(&client, &ttl(s(60))).await);
    sleep(s(20)).await;
    assert_eq!(sim.rows("a").await.len(), 1, "nothing came through");
    let tries = client.wire.sent(Verb::Leave).len();
    // 20 ms, then twice as long each time, up to 5 s.
    assert!((8..=30).contains(&tries), "{tries} tries in 20 s");
    client.wire.always(Verb::Leave, None);
    sleep(s(6)).await;
    assert!(sim.rows("a").await.is_empty(), "the keeper gave up before the lease ended");
}

#[tokio::test(start_paused = true)]
async fn a_leave_is_tried_until_the_lease_must_have_ended_and_no_longer() {
    let sim = Sim::new();
    let client = sim.client();
    client.wire.always(Verb::Leave, Some(Fault::Refused));
    drop(hold(&client, &ttl(s(10))).await);
    let start = sim.now();
    let error = client.locks.close(s(9)).await.expect_err("the entry may still be there");
    assert!(
        matches!(&error.unconfirmed[..], [(name, Some(time))] if name.as_str() == "a" && sim.now() + *time >= start + s(10))
    );
    assert!(error.held.is_empty(), "{error}");
    client.locks.close(s(10)).await.expect("its lease has ended, and nobody can be kept out by it");
    let tries = client.wire.sent(Verb::Leave).len();
    sleep(s(30)).await;
    assert_eq!(client.wire.sent(Verb::Leave).len(), tries, "what is given up is not tried again");
}

#[tokio::test(start_paused = true)]
async fn where_a_session_keeps_an_entry_its_departure_is_never_given_up() {
    // PR09
    let sim = Sim::new();
    let client = sim.client();
    client.wire.share_leases();
    client.wire.always(Verb::Leave, Some(Fault::Refused));
    drop(hold(&client, &ttl(s(10))).await);
    client.locks.close(s(120)).await.expect_err("a session would keep it forever");
    let tries = client.wire.sent(Verb::Leave).len();
    client.wire.always(Verb::Leave, None);
    client.locks.close(s(6)).await.expect("the store is back");
    assert!(client.wire.sent(Verb::Leave).len() > tries);
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_may_still_be_created_is_left_for_beyond_its_ttl() {
    // PR08
    let sim = Sim::new();
    let client = sim.client();
    client.wire.always(Verb::Enter, Some(Fault::Lost(ms(500))));
    client.wire.always(Verb::Leave, Some(Fault::Refused));
    client.locks.mutex("a").unwrap().try_acquire_with(&ttl(s(10))).await.unwrap_err();
    client.locks.close(s(60)).await.expect_err("its request may arrive at any time");
    client.wire.always(Verb::Leave, None);
    client.locks.close(s(6)).await.expect("the late create is refused");
}

/// Its record goes with it: a close neither waits for it nor leaves for an entry that was never there.
#[tokio::test(start_paused = true)]
async fn a_try_that_created_nothing_leaves_a_close_nothing_to_do() {
    let sim = Sim::new();
    let (holder, client) = (sim.client(), sim.client());
    let held = hold(&holder, &ttl(s(60))).await;
    let lock = client.locks.mutex("a").unwrap();
    let busy = lock.try_acquire_with(&ttl(s(10))).await.expect("the store answers");
    assert!(busy.is_none(), "another client holds it");
    client.wire.always(Verb::Enter, Some(Fault::Refused));
    lock.try_acquire_with(&ttl(s(10))).await.expect_err("nothing was sent");
    let start = sim.now();
    client.locks.close(s(30)).await.expect("nothing of it is in the store");
    assert_eq!(client.wire.sent(Verb::Leave).len(), 0);
    assert_eq!(sim.now(), start, "it waited for something");
    drop(held);
}

/// A service goes on asking a store that is away: leaves are refused at once, or not answered, so that more of them begin than end.
#[tokio::test(start_paused = true)]
async fn what_is_in_doubt_is_given_up_when_nothing_of_it_can_be_there() {
    for (fault, times) in [(Fault::Refused, 200), (Fault::Lost(s(5)), 3_000)] {
        let sim = Sim::new();
        let client = sim.client();
        client.wire.always(Verb::Enter, Some(Fault::Hangs));
        client.wire.always(Verb::Leave, Some(fault));
        let (lock, start) = (client.locks.mutex("a").unwrap(), sim.now());
        for _ in 0..times {
            lock.acquire_with(&ttl(s(10)).wait(ms(1))).await.unwrap_err();
        }
        let error = client.locks.close(s(60)).await.expect_err("a create may arrive a minute late");
        assert!(sim.now() < start + s(70), "it took {:?}", sim.now().since(start));
        assert_eq!(error.unconfirmed.len(), times);
        let free_within = error.unconfirmed.iter().map(|(_, time)| time.unwrap()).min().unwrap();
        assert!(sim.now() + free_within >= start + s(70), "one can live longer than {free_within:?}");
        let closed = client.locks.close(s(120)).await;
        assert!(closed.is_ok(), "{fault:?}: {closed:?}");
    }
}

/// Many acquisitions were given up while the store was away, and it is slow when it comes back. The create of the guard was in doubt, too.
#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_left_for_before_what_failed_or_is_in_doubt() {
    for fault in [Fault::Refused, Fault::Lost(s(5))] {
        let sim = Sim::new();
        let client = sim.client();
        client.wire.once(Verb::Enter, Fault::ReplyLost);
        let guard = hold(&client, &ttl(s(60))).await;
        client.wire.always(Verb::Enter, Some(Fault::Hangs));
        client.wire.always(Verb::Leave, Some(fault));
        let lock = client.locks.mutex("b").unwrap();
        for _ in 0..1_000 {
            lock.acquire_with(&ttl(s(60)).wait(ms(1))).await.unwrap_err();
        }
        client.wire.always(Verb::Leave, Some(Fault::Late(s(5))));
        sleep(s(4)).await;
        drop(guard);
        sleep(ms(10)).await;
        assert!(sim.rows("a").await.is_empty(), "{fault:?}: it is behind others");
    }
}

/// The store answers neither the creates of patient waiters nor the leaves that follow when their ttl is over, or at a close.
#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_left_for_before_creates_that_the_keeper_gives_up() {
    for closes in [false, true] {
        let sim = Sim::new();
        let client = sim.client();
        client.wire.share_leases();
        let guard = hold(&client, &ttl(s(60))).await;
        client.wire.always(Verb::Enter, Some(Fault::Hangs));
        client.wire.always(Verb::Leave, Some(Fault::Hangs));
        for _ in 0..100 {
            let lock = client.locks.mutex("b").unwrap();
            tokio::spawn(async move { lock.acquire_with(&ttl(s(10))).await });
        }
        sleep(ms(10)).await;
        if closes {
            client.locks.close(ms(10)).await.expect_err("a lock is held");
        } else {
            sleep(s(12)).await;
        }
        assert!(client.wire.sent(Verb::Leave).len() >= 64, "the keeper leaves for the others");
        client.wire.always(Verb::Leave, None);
        drop(guard);
        sleep(ms(10)).await;
        assert!(sim.rows("a").await.is_empty(), "it is behind others; closed: {closes}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_ends_at_max_hold_is_left_even_if_the_store_hears_of_it_only_later() {
    let sim = Sim::new();
    let client = sim.client();
    client.wire.always(Verb::Leave, Some(Fault::Refused));
    let guard = hold(&client, &ttl(s(60)).max_hold(s(2))).await;
    guard.lost().await;
    sleep(s(5)).await;
    assert_eq!(sim.rows("a").await.len(), 1, "nothing came through");
    client.wire.always(Verb::Leave, None);
    sleep(s(6)).await;
    assert!(sim.rows("a").await.is_empty(), "the keeper gave up before the lease ended");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_not_confirmed_says_by_when_the_lease_has_ended() {
    let sim = Sim::new();
    let client = sim.client();
    let start = sim.now();
    let guard = hold(&client, &ttl(s(10))).await;
    client.wire.always(Verb::Leave, Some(Fault::Lost(ms(500))));
    let released = guard.release().await.unwrap();
    let Released::Pending { free_within: Some(time), .. } = released else { panic!("{released:?}") };
    let free_by = sim.now() + time;
    assert!(free_by >= start + s(10), "the lease lasts {:?} longer", (start + s(10)).since(free_by));
    assert!(free_by <= start + s(12), "nobody has to wait for so long");
}

#[tokio::test(start_paused = true)]
async fn what_is_pending_says_the_time_of_the_store_and_not_that_of_the_guard() {
    let sim = Sim::new();
    let client = sim.client();
    let pending = async |guard: Guard| {
        client.wire.always(Verb::Leave, Some(Fault::Lost(ms(500))));
        let released = guard.release().await.unwrap();
        client.wire.always(Verb::Leave, None);
        let Released::Pending { free_within: Some(time), .. } = released else { panic!("{released:?}") };
        sim.now() + time
    };

    let start = sim.now();
    let guard = hold(&client, &ttl(s(10)).max_hold(s(1))).await;
    assert!(pending(guard).await >= start + s(10), "the end of `max_hold` is not that of the lease");

    // A renewal that was carried out, and was not answered.
    let guard = client.locks.mutex("b").unwrap().acquire_with(&ttl(s(10))).await.unwrap();
    client.wire.always(Verb::Renew, Some(Fault::Lost(ms(100))));
    sleep(s(4)).await;
    let renewed = *client.wire.sent(Verb::Renew).last().unwrap();
    assert!(pending(guard).await >= renewed + s(10), "the lease was extended unseen");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_broke_off_is_sent_once_more_and_a_late_one_is_not() {
    // PR10
    let sim = Sim::new();
    let client = sim.client();
    for (fault, tries) in [(Fault::ReplyLost, 2), (Fault::Refused, 2), (Fault::Lost(ms(500)), 1)] {
        let guard = hold(&client, &ttl(s(10))).await;
        let before = client.wire.sent(Verb::Leave).len();
        client.wire.once(Verb::Leave, fault);
        let released = guard.release().await.unwrap();
        assert_eq!(client.wire.sent(Verb::Leave).len() - before, tries, "{fault:?}");
        assert_eq!(released.confirmed().is_ok(), tries == 2, "{fault:?}");
        hold(&client, &ttl(s(1))).await.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn close_names_what_is_held_and_ends_when_no_leave_is_pending() {
    let sim = Sim::new();
    let client = sim.client();
    let guard = hold(&client, &ttl(s(10))).await;
    let started = sim.now();
    let error = client.locks.close(s(1)).await.unwrap_err();
    assert!(
        matches!(&error.held[..], [name] if name.as_str() == "a") && error.unconfirmed.is_empty(),
        "{error:?}"
    );
    assert!(guard.is_held(), "to close takes nothing away");
    drop(guard);
    client.locks.close(s(5)).await.unwrap();
    assert!(sim.now().since(started) < lease(s(10)), "it did not wait for a lease");
    assert!(sim.rows("a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn close_names_a_lost_lock_that_the_keeper_has_not_left_for_yet() {
    let sim = Sim::new();
    let client = sim.client();
    let _guard = hold(&client, &ttl(s(60)).max_hold(s(2))).await;
    // The keeper has no turn between the end of the hold and that of the close.
    sim.suspend(s(3));
    let error = client.locks.close(Duration::ZERO).await.expect_err("the entry is still there");
    assert_eq!(sim.rows("a").await.len(), 1);
    assert!(
        matches!(&error.unconfirmed[..], [(name, Some(time))] if name.as_str() == "a" && *time >= s(57)),
        "{error:?}"
    );
    assert!(error.held.is_empty(), "{error:?}");
    client.locks.close(s(5)).await.expect("the keeper leaves for it");
    assert!(sim.rows("a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_release_is_one_request_and_nothing_follows_it() {
    let sim = Sim::new();
    let client = sim.client();
    for drops in [false, true] {
        let (left, renewed) = (client.wire.sent(Verb::Leave).len(), client.wire.sent(Verb::Renew).len());
        let guard = hold(&client, &ttl(s(10))).await;
        if drops {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
        sleep(s(60)).await;
        assert_eq!(client.wire.sent(Verb::Leave).len() - left, 1, "dropped: {drops}");
        assert_eq!(client.wire.sent(Verb::Renew).len(), renewed, "dropped: {drops}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_lost_is_left_once_whatever_becomes_of_its_guard() {
    let sim = Sim::new();
    let client = sim.client();
    for drops in [false, true] {
        let left = client.wire.sent(Verb::Leave).len();
        let guard = hold(&client, &ttl(s(10)).renew(false)).await;
        guard.lost().await;
        sleep(s(1)).await;
        assert_eq!(client.wire.sent(Verb::Leave).len() - left, 1, "the keeper saw to it");
        if drops {
            drop(guard);
        } else {
            assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
        }
        sleep(s(60)).await;
        assert_eq!(client.wire.sent(Verb::Leave).len() - left, 1, "dropped: {drops}");
    }
}

#[tokio::test(start_paused = true)]
async fn locks_that_are_dropped_leave_no_task_behind() {
    let sim = Sim::new();
    let client = sim.client();
    let guard = hold(&client, &ttl(s(10))).await;
    // Long enough to be renewed.
    sleep(s(20)).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(tasks() > 0);
    guard.release().await.unwrap();
    drop(client);
    sleep(s(20)).await;
    assert_eq!(tasks(), 0);
}
