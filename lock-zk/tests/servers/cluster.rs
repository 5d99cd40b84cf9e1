//! Locks on three servers, of which some are lost for a while.

use std::time::{Duration, Instant};

use lock_conformance::{
    Critical, Flow, Gate, Links, Newcomers, SLACK, Way,
    audit::{await_queue, within},
};
use lock_core::{AcquireOptions, BackendErrorKind, DistributedLock, Error, Guard, Outage, Released};
use tokio::task::JoinSet;

use crate::{
    common::{alone_while, assert_free, client, kind, options, queue, soon, take, waiting},
    server::{Ensemble, TICK},
};

const NAME: &str = "job";

/// Even on a busy machine an election takes less than half of this.
const TTL: Duration = Duration::from_secs(30);

/// A session of this ttl outlives an election, but not by much.
const BRIEF: Duration = Duration::from_millis(4800);

fn lasting() -> AcquireOptions {
    options().ttl(TTL)
}

fn url(ensemble: &Ensemble) -> String {
    url_of(ensemble, &ensemble.addresses())
}

/// The command timeout leaves time for an election.
fn url_of(ensemble: &Ensemble, addresses: &str) -> String {
    format!("{}&command_timeout=3s&connect_timeout=1s", ensemble.url_of(addresses))
}

/// Checks that a lock that was held while there was no leader for `away` is still held, and is renewed.
async fn assert_kept(guard: &Guard, away: Duration) {
    assert!(away < TTL / 2, "no write was carried out for {away:?}: with this ttl nothing is shown");
    within("a renewal", SLACK, async { while guard.extend().await.is_err() {} }).await;
    assert!(guard.is_held() && guard.remaining() > TTL / 2, "lost: {:?}", guard.state());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_kept_while_the_leader_is_killed() {
    let ensemble = Ensemble::start().await;
    let (holder, other) = (client(&url(&ensemble)), client(&url(&ensemble)));
    let guard = take(&holder, NAME, &lasting()).await;
    let (_, away) = alone_while(&guard, &other, ensemble.overthrow()).await;
    assert_kept(&guard, away).await;
    guard.release().await.unwrap().confirmed().unwrap();
    assert_free(&other, NAME).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_granted_after_the_leader_was_killed() {
    let ensemble = Ensemble::start().await;
    let (holder, other) = (client(&url(&ensemble)), client(&url(&ensemble)));
    let guard = take(&holder, NAME, &lasting()).await;
    let head = waiting(&other, NAME, &lasting(), 2).await;
    let last = waiting(&holder, NAME, &lasting(), 3).await;
    let (_, away) = ensemble.overthrow().await;
    assert_kept(&guard, away).await;
    assert!(!head.is_finished());
    let token = guard.token();
    assert_carried_out(guard.release().await);
    let guard = soon("the head of the queue", head).await.unwrap();
    assert!(guard.token() > token && !last.is_finished());
    assert_carried_out(guard.release().await);
    let guard = soon("the last in the queue", last).await.unwrap();
    assert_carried_out(guard.release().await);
    assert_free(&other, NAME).await;
}

/// A new leader counts every session from its start: the next holder is admitted later than otherwise, and never too early.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_holder_is_followed_although_the_leader_is_killed() {
    let ensemble = Ensemble::start().await;
    let (holder, other) = (client(&url(&ensemble)), client(&url(&ensemble)));
    let guard = take(&holder, NAME, &options().ttl(BRIEF)).await;
    let waiter = waiting(&other, NAME, &lasting(), 2).await;
    holder.crash().await;
    ensemble.overthrow().await;
    let next = within("the end of a dead holder's session", BRIEF * 2 + SLACK, waiter).await.unwrap();
    assert!(!guard.is_held(), "granted {:?} before the deadline of the dead holder", guard.remaining());
    assert!(next.token() > guard.token());
    next.release().await.unwrap().confirmed().unwrap();
}

/// The answer to the release is often lost with the leader.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_carried_out_though_the_leader_is_killed_meanwhile() {
    let ensemble = Ensemble::start().await;
    let (holder, other) = (client(&url(&ensemble)), client(&url(&ensemble)));
    for delay in [0, 2].map(Duration::from_millis) {
        let guard = take(&holder, NAME, &lasting()).await;
        let waiter = waiting(&other, NAME, &lasting(), 2).await;
        let leader = ensemble.leader().await;
        let release = tokio::spawn(guard.release());
        tokio::time::sleep(delay).await;
        ensemble.kill(leader);
        let next = within("the next in the queue", SLACK * 2, waiter).await.unwrap();
        assert_carried_out(soon("the release", release).await.unwrap());
        assert_carried_out(next.release().await);
        ensemble.restart(leader).await;
    }
    assert_free(&other, NAME).await;
}

/// No client believes what the leader says after its pause.
#[tokio::test(flavor = "multi_thread")]
async fn a_held_lock_is_not_granted_after_a_leader_paused_beyond_the_ttl() {
    let ensemble = Ensemble::start().await;
    let (holder, other) = (client(&url(&ensemble)), client(&url(&ensemble)));
    let ttl = TICK * 12;
    let guard = take(&holder, NAME, &options().ttl(ttl)).await;
    let waiter = waiting(&other, NAME, &options().ttl(ttl), 2).await;
    let leader = ensemble.leader().await;
    ensemble.pause(leader);
    let end = Instant::now() + ttl * 2;
    let next = loop {
        if waiter.is_finished() {
            assert!(!guard.is_held(), "granted {:?} before the holder's deadline", guard.remaining());
            break waiter.await.unwrap();
        }
        if Instant::now() > end {
            ensemble.resume(leader);
            // The test continues whether the lock was kept or lost in the meantime.
            let token = guard.token();
            assert_carried_out_or_lost(guard.release().await);
            let next = within("the next in the queue", ttl * 2 + SLACK, waiter).await.unwrap();
            assert!(next.token() > token);
            break next;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    ensemble.resume(leader);
    alone_while(&next, &holder, tokio::time::sleep(ttl)).await;
    drop(next);
    assert_free(&other, NAME).await;
}

/// A release may take longer than it waits for. Then it reports that, and continues in the background.
fn assert_carried_out(released: Result<Released, Error>) {
    released.unwrap();
}

fn assert_carried_out_or_lost(released: Result<Released, Error>) {
    if !matches!(released, Err(Error::Lost { .. })) {
        assert_carried_out(released);
    }
}

/// Makes something happen to a member while a client that is connected to it holds one lock and waits for another.
async fn lose_the_member_that_is_talked_to(ensemble: Ensemble, lose: impl AsyncFn(&Ensemble, usize)) {
    // Only this client has a connection to the member; all others use other members.
    let [talked_to, elsewhere] = ensemble.followers().await;
    let other = client(&url_of(&ensemble, &ensemble.address(elsewhere)));
    let first = take(&other, "other", &lasting()).await;
    for i in (0..3).filter(|i| *i != talked_to) {
        ensemble.front(i).newcomers(Newcomers::Refuse);
    }
    let this = client(&url(&ensemble));
    let guard = take(&this, NAME, &lasting()).await;
    let waiter = waiting(&this, "other", &lasting(), 2).await;
    for i in 0..3 {
        ensemble.front(i).newcomers(Newcomers::Serve);
    }
    let observer = client(&url_of(&ensemble, &ensemble.address(elsewhere)));
    let began = Instant::now();
    lose(&ensemble, talked_to).await;
    alone_while(&guard, &observer, async {
        assert_carried_out(first.release().await);
        let granted = within("the lock that was waited for", TTL / 2, waiter).await.unwrap();
        assert_carried_out(granted.release().await);
    })
    .await;
    assert_kept(&guard, began.elapsed()).await;
    guard.release().await.unwrap().confirmed().unwrap();
    assert_free(&this, NAME).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_goes_on_when_the_member_that_it_talks_to_is_killed() {
    let ensemble = Ensemble::start().await;
    lose_the_member_that_is_talked_to(ensemble, async |ensemble, lost| ensemble.kill(lost)).await;
}

/// The client gets no error: every answer just stays away. Z3: the client crate does not report that as the loss of a connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_goes_on_when_it_is_cut_off_from_its_member() {
    let ensemble = Ensemble::start().await;
    let cut_off = async |ensemble: &Ensemble, lost| ensemble.front(lost).silence(Links::All);
    lose_the_member_that_is_talked_to(ensemble, cut_off).await;
}

/// The member still answers, but gets no updates from the others, until it gives up.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_goes_on_when_its_member_is_cut_off_from_the_others() {
    let ensemble = Ensemble::start().await;
    lose_the_member_that_is_talked_to(ensemble, async |ensemble, lost| ensemble.isolate(lost)).await;
}

/// H07: a client that asks the follower without a sync finds nothing, and creates a second node that belongs to no member.
#[tokio::test(flavor = "multi_thread")]
async fn a_create_whose_reply_is_lost_is_found_by_way_of_a_lagging_follower() {
    let ensemble = Ensemble::start_patient().await;
    let leader = ensemble.leader().await;
    let [near, lagging] = ensemble.followers().await;
    let observer = client(&url_of(&ensemble, &ensemble.address(leader)));
    ensemble.front(lagging).newcomers(Newcomers::Refuse);
    let both = format!("{},{}", ensemble.address(near), ensemble.address(lagging));
    let this = client(&url_of(&ensemble, &both));
    for _ in 0..3 {
        assert_free(&this, NAME).await;
        let gate = Gate::new();
        ensemble.hold_back(lagging, &Flow::Hold(gate.clone()));
        ensemble.front(near).order(Links::All, Way::Replies, &Flow::Lose);
        let lock = this.mutex(NAME).with_options(options().outage(Outage::Wait));
        let acquiring = tokio::spawn(async move { lock.acquire().await.unwrap() });
        await_queue(&observer, NAME, 1).await;
        // The create was carried out, but not answered. The follower that is left does not know it yet.
        ensemble.front(lagging).newcomers(Newcomers::Serve);
        ensemble.turn_away(near);
        tokio::time::sleep(TICK).await;
        gate.open();
        let guard = within("the grant", SLACK * 3, acquiring).await.unwrap();
        let entries: Vec<_> = queue(&observer, NAME).await.iter().map(|row| row.entry).collect();
        assert_eq!(entries, [Some(guard.entry_id())], "more than one node, or another one");
        guard.release().await.unwrap().confirmed().unwrap();
        ensemble.hold_back(lagging, &Flow::Pass);
        ensemble.front(near).heal();
        ensemble.turn_away(lagging);
    }
}

/// PR18, F3: the client's server does not know of the deletion yet, and reports the node as existing if it is asked before the proof.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_by_way_of_a_lagging_follower_sees_that_its_node_is_deleted() {
    let ensemble = Ensemble::start_patient().await;
    let leader = ensemble.leader().await;
    let [lagging, _] = ensemble.followers().await;
    let holder = client(&url_of(&ensemble, &ensemble.address(lagging)));
    for _ in 0..3 {
        let guard = take(&holder, NAME, &options().ttl(Duration::from_secs(60)).renew(false)).await;
        let gate = Gate::new();
        ensemble.hold_back(lagging, &Flow::Hold(gate.clone()));
        ensemble.admin(leader).delete(guard.name()).await;
        let extending = tokio::spawn(async move { (guard.extend().await, guard) });
        tokio::time::sleep(TICK).await;
        gate.open();
        let (extended, guard) = soon("an answer to the renewal", extending).await.unwrap();
        assert!(matches!(extended, Err(Error::Lost { .. })), "{extended:?}, and the node is gone");
        drop(guard);
        ensemble.hold_back(lagging, &Flow::Pass);
    }
}

/// L06.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_go_on_when_all_members_come_back() {
    let ensemble = Ensemble::start().await;
    let (holder, other) = (client(&url(&ensemble)), client(&url(&ensemble)));
    // So long that three servers are back before it ends.
    let long = options().ttl(Duration::from_secs(60));
    let guard = take(&holder, NAME, &long).await;
    let waiter = waiting(&other, NAME, &long, 2).await;
    (0..3).for_each(|i| ensemble.kill(i));
    tokio::time::sleep(Duration::from_millis(300)).await;
    // One member alone does not serve.
    tokio::join!(ensemble.restart(0), ensemble.restart(1), ensemble.restart(2));
    assert!(guard.is_held() && !waiter.is_finished());
    assert_carried_out(guard.release().await);
    let guard = within("the waiter after the restart", long.ttl / 3 + SLACK, waiter).await.unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
    assert_free(&other, NAME).await;
}

/// L07. No client reaches any member for longer than every session lasts; all lose their places.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_partition_every_waiter_is_granted() {
    let ensemble = Ensemble::start().await;
    let section = Critical::new(1);
    let ttl = TICK * 12;
    let holder = client(&url(&ensemble));
    let guard = take(&holder, NAME, &options().ttl(ttl)).await;
    let mut waiters = JoinSet::new();
    for len in 2..7 {
        let client = client(&url(&ensemble));
        let (lock, section) = (client.mutex(NAME), section.clone());
        waiters.spawn(async move {
            let guard = lock.acquire_with(&options().ttl(ttl).outage(Outage::Wait)).await.unwrap();
            drop(section.enter(1));
            guard.release().await.unwrap()
        });
        await_queue(&holder, NAME, len).await;
    }
    (0..3).for_each(|i| ensemble.front(i).silence(Links::All));
    within("the loss of a lock that cannot be renewed", ttl + SLACK, guard.lost()).await;
    tokio::time::sleep(ttl).await;
    assert_eq!(section.visits(), 0);
    ensemble.heal();
    let healed = Instant::now();
    while let Some(released) =
        within("a waiter after the partition", ttl * 2 + SLACK, waiters.join_next()).await
    {
        assert!(released.unwrap().confirmed().is_ok(), "after {:?}", healed.elapsed());
    }
    assert_eq!(section.visits(), 5);
    assert_free(&holder, NAME).await;
}

/// F06.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_grow_across_failovers() {
    let ensemble = Ensemble::start().await;
    let client = client(&url(&ensemble));
    let patient = lasting().outage(Outage::Wait);
    let mut last = take(&client, NAME, &patient).await;
    for _ in 0..2 {
        let leader = ensemble.leader().await;
        ensemble.kill(leader);
        let token = last.token();
        assert_carried_out(last.release().await);
        last = within("a lock after a failover", SLACK * 2, client.mutex(NAME).acquire_with(&patient))
            .await
            .unwrap();
        assert!(last.token() > token, "{} after {token}", last.token());
        ensemble.restart(leader).await;
    }
    last.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_member_in_the_list_of_endpoints_fails_nothing() {
    let ensemble = Ensemble::start().await;
    let [dead, _] = ensemble.followers().await;
    ensemble.kill(dead);
    ensemble.front(dead).newcomers(Newcomers::Refuse);
    // Each of these clients tries the members in a random order.
    for round in 0..6 {
        let client = client(&url(&ensemble));
        for i in 0..3 {
            let name = format!("job {round} {i}");
            let guard = soon("a lock that is free", client.mutex(&name).acquire()).await;
            let guard = guard.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            guard.release().await.unwrap().confirmed().unwrap();
        }
    }
}

/// Two of three servers are away: nothing can be granted, and requests fail in time.
#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_without_a_majority_gives_a_typed_error_in_time() {
    let ensemble = Ensemble::start().await;
    let client = client(&url(&ensemble));
    assert_free(&client, NAME).await;
    ensemble.kill(0);
    ensemble.kill(1);
    let asked = Instant::now();
    let error = client.mutex(NAME).acquire().await.unwrap_err();
    let transient = matches!(
        kind(&error),
        BackendErrorKind::TimedOut | BackendErrorKind::Unavailable | BackendErrorKind::Unreachable
    );
    assert!(transient && error.is_transient(), "{error:?}");
    // One time limit to connect and one for the command.
    assert!(asked.elapsed() < Duration::from_secs(4) + SLACK, "after {:?}", asked.elapsed());
}
