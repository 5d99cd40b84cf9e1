//! Locks on three servers, of which some are lost for a while. H52, H53, H54, H76; E1, E4, E15, E16.

mod common;
mod server;

use std::time::{Duration, Instant};

use common::{
    Client, HOUR, LATE,
    kept::{KEPT, Kept, assert_alone, is_kept, on_a_cluster},
    kind, options, soon, told,
};
use lock_conformance::{
    Critical, Links, Newcomers,
    audit::{eventually, within},
};
use lock_core::{BackendErrorKind, DistributedLock, Error, Outage};
use server::Cluster;
use tokio::task::JoinSet;

const NAME: &str = "job";

/// For tests that wait for the end of a lease.
const SHORT: Duration = Duration::from_secs(4);

/// The command timeout leaves time for an election. A silent stream is given up sooner.
fn url(cluster: &Cluster) -> String {
    url_from(cluster, 0)
}

/// The same for a client that connects to this member first.
fn url_from(cluster: &Cluster, first: usize) -> String {
    let addresses = cluster.addresses(first);
    format!("etcd://{addresses}/case?command_timeout=3s&connect_timeout=1s&heartbeat=500ms")
}

/// A client of the leader, which has to change to another member when the leader is gone, and a client of another member.
async fn beside_the_leader(cluster: &Cluster) -> (usize, Client, Client) {
    let leader = cluster.leader().await;
    let others = (leader + 1) % 3;
    (leader, Client::new(&url_from(cluster, leader)), Client::new(&url_from(cluster, others)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_kept_while_the_leader_is_killed() {
    on_a_cluster(async |cluster| {
        let (leader, holder, other) = beside_the_leader(cluster).await;
        let witness = cluster.witness().await;
        let guard = holder.take(NAME, &options().ttl(KEPT)).await;
        cluster.kill(leader);
        is_kept(&guard, &other, &witness).await?;
        guard.release().await.unwrap().confirmed().unwrap();
        other.assert_free(NAME).await;
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_granted_after_the_leader_was_killed() {
    let cluster = Cluster::start("case").await;
    let (leader, holder, other) = beside_the_leader(&cluster).await;
    let guard = holder.take(NAME, &told()).await;
    let head = other.waiting(NAME, &told(), 2).await;
    let last = holder.waiting(NAME, &told(), 3).await;
    cluster.kill(leader);
    cluster.next_leader(leader).await;
    assert!(!head.is_finished() && guard.is_held());
    let token = guard.token();
    guard.release().await.unwrap().confirmed().unwrap();
    let guard = soon("the head of the queue", head).await.unwrap();
    assert!(guard.token() > token && !last.is_finished());
    guard.release().await.unwrap().confirmed().unwrap();
    let guard = soon("the last in the queue", last).await.unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
    other.assert_free(NAME).await;
}

/// A new leader counts every lease from its start (E15): the next holder is admitted later than otherwise, and never too early.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_holder_is_followed_although_the_leader_is_killed() {
    let cluster = Cluster::start("case").await;
    let (holder, other) = (Client::new(&url(&cluster)), Client::new(&url(&cluster)));
    let guard = holder.take(NAME, &options().ttl(SHORT)).await;
    let waiter = other.waiting(NAME, &options(), 2).await;
    holder.crash();
    cluster.kill(cluster.leader().await);
    let next = within("the end of a dead holder's lease", SHORT * 2 + LATE, waiter).await.unwrap();
    assert!(!guard.is_held(), "granted {:?} before the deadline of the dead holder", guard.remaining());
    assert!(next.token() > guard.token());
    next.release().await.unwrap().confirmed().unwrap();
}

/// The answer to the release is often lost with the leader.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_carried_out_though_the_leader_is_killed_meanwhile() {
    let cluster = Cluster::start("case").await;
    let (holder, other) = (Client::new(&url(&cluster)), Client::new(&url(&cluster)));
    for delay in [0, 1, 3].map(Duration::from_millis) {
        let guard = holder.take(NAME, &options()).await;
        let waiter = other.waiting(NAME, &options(), 2).await;
        let leader = cluster.leader().await;
        let release = tokio::spawn(guard.release());
        tokio::time::sleep(delay).await;
        cluster.kill(leader);
        let next = soon("the next in the queue", waiter).await.unwrap();
        soon("the release", release).await.unwrap().unwrap().confirmed().unwrap();
        next.release().await.unwrap().confirmed().unwrap();
        cluster.restart(leader).await;
    }
    other.assert_free(NAME).await;
}

/// No client believes what the leader says after its pause: H52, and etcd's own stale reads after a pause (H93).
#[tokio::test(flavor = "multi_thread")]
async fn a_held_lock_is_not_granted_after_a_leader_paused_beyond_the_ttl() {
    let cluster = Cluster::start("case").await;
    let (holder, other) = (Client::new(&url(&cluster)), Client::new(&url(&cluster)));
    let ttl = Duration::from_secs(2);
    let guard = holder.take(NAME, &options().ttl(ttl)).await;
    let waiter = other.waiting(NAME, &options().ttl(ttl), 2).await;
    let leader = cluster.leader().await;
    cluster.pause(leader);
    let end = Instant::now() + ttl * 2;
    let next = loop {
        if waiter.is_finished() {
            assert!(!guard.is_held(), "granted {:?} before the holder's deadline", guard.remaining());
            break waiter.await.unwrap();
        }
        if Instant::now() > end {
            cluster.resume(leader);
            // The test continues whether the lock was kept or lost in the meantime.
            let token = guard.token();
            let released = guard.release().await;
            assert!(matches!(released, Ok(_) | Err(Error::Lost { .. })), "{released:?}");
            let next = within("the next in the queue", ttl * 2 + LATE, waiter).await.unwrap();
            assert!(next.token() > token);
            break next;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    cluster.resume(leader);
    assert_alone(&next, &holder).await;
    drop(next);
    other.assert_free(NAME).await;
}

/// A client that is connected to this member. Several are made, because a client does not stay with a member that is slow to answer.
async fn talks_to(cluster: &Cluster, member: usize) -> Client {
    let others = cluster.talked_to(member);
    for _ in 0..50 {
        let client = Client::new(&url_from(cluster, member));
        client.assert_free("warm").await;
        if cluster.talked_to(member) > others {
            return client;
        }
    }
    panic!("no client stays with the first of its members");
}

/// Makes something happen to a member while a client that is connected to it holds one lock and waits for another.
async fn goes_on_without(cluster: &Cluster, lost: usize, happens: impl AsyncFn(&Cluster, usize)) -> Kept {
    let other = Client::new(&url_from(cluster, (lost + 1) % 3));
    let observer = Client::new(&url_from(cluster, (lost + 2) % 3));
    let first = other.take("other", &options().ttl(HOUR)).await;
    let client = talks_to(cluster, lost).await;
    let witness = cluster.witness().await;
    let guard = client.take(NAME, &options().ttl(KEPT)).await;
    let waiter = client.waiting("other", &told(), 2).await;
    happens(cluster, lost).await;
    first.release().await.unwrap().confirmed().unwrap();
    let granted = soon("the lock that was waited for", waiter).await.unwrap();
    granted.release().await.unwrap().confirmed().unwrap();
    is_kept(&guard, &observer, &witness).await?;
    guard.release().await.unwrap().confirmed().unwrap();
    client.assert_free(NAME).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_goes_on_when_the_member_that_it_talks_to_is_killed() {
    on_a_cluster(async |cluster| {
        let follower = cluster.follower().await;
        goes_on_without(cluster, follower, async |cluster, lost| cluster.kill(lost)).await
    })
    .await;
}

/// The client gets no error: every answer just stays away. E1, E3, H53.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_goes_on_when_it_is_cut_off_from_its_member() {
    on_a_cluster(async |cluster| {
        let follower = cluster.follower().await;
        let silenced = async |cluster: &Cluster, lost| cluster.front(lost).silence(Links::All);
        goes_on_without(cluster, follower, silenced).await
    })
    .await;
}

/// The member still answers, but gets no updates from the others: H76, E16.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_goes_on_when_its_member_is_cut_off_from_the_others() {
    on_a_cluster(async |cluster| {
        let follower = cluster.follower().await;
        goes_on_without(cluster, follower, async |cluster, lost| cluster.isolate(lost).await).await
    })
    .await;
}

/// The member still believes that it is the leader: H76, E16.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_goes_on_when_its_leader_is_cut_off_from_the_others() {
    on_a_cluster(async |cluster| {
        let leader = cluster.leader().await;
        goes_on_without(cluster, leader, async |cluster, lost| cluster.isolate(lost).await).await
    })
    .await;
}

/// L06.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_go_on_when_all_members_come_back() {
    let cluster = Cluster::start("case").await;
    let (holder, other) = (Client::new(&url(&cluster)), Client::new(&url(&cluster)));
    let often = Duration::from_millis(200);
    let looking = options().ttl(HOUR).look_again(often, often);
    let guard = holder.take(NAME, &looking).await;
    let waiter = other.waiting(NAME, &looking, 2).await;
    (0..3).for_each(|i| cluster.kill(i));
    // The waiter looks again in the meantime, and gets no answer.
    tokio::time::sleep(often * 5).await;
    // One member alone does not answer.
    tokio::join!(cluster.restart(0), cluster.restart(1), cluster.restart(2));
    assert!(guard.is_held() && !waiter.is_finished());
    guard.release().await.unwrap().confirmed().unwrap();
    let guard = soon("the waiter after the restart", waiter).await.unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
    other.assert_free(NAME).await;
}

/// L07. No client reaches any member for longer than every lease lasts; all lose their places.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_partition_every_waiter_is_granted() {
    let cluster = Cluster::start("case").await;
    let section = Critical::new(1);
    let ttl = Duration::from_secs(2);
    let holder = Client::new(&url(&cluster));
    let guard = holder.take(NAME, &options().ttl(ttl)).await;
    let mut waiters = JoinSet::new();
    for len in 2..7 {
        let client = Client::new(&url(&cluster));
        let (lock, section) = (client.mutex(NAME), section.clone());
        waiters.spawn(async move {
            let guard = lock.acquire_with(&options().ttl(ttl).outage(Outage::Wait)).await.unwrap();
            drop(section.enter(1));
            guard.release().await.unwrap()
        });
        holder.await_queue(NAME, len).await;
    }
    (0..3).for_each(|i| cluster.front(i).silence(Links::All));
    within("the loss of a lock that cannot be renewed", ttl + LATE, guard.lost()).await;
    tokio::time::sleep(ttl).await;
    assert_eq!(section.visits(), 0);
    cluster.heal();
    let healed = Instant::now();
    while let Some(released) =
        within("a waiter after the partition", ttl * 2 + LATE, waiters.join_next()).await
    {
        assert!(released.unwrap().confirmed().is_ok(), "after {:?}", healed.elapsed());
    }
    assert_eq!(section.visits(), 5);
    holder.assert_free(NAME).await;
}

/// F06.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_grow_across_failovers() {
    let cluster = Cluster::start("case").await;
    let client = Client::new(&url(&cluster));
    let patient = options().outage(Outage::Wait);
    let mut last = client.take(NAME, &patient).await;
    for _ in 0..3 {
        let leader = cluster.leader().await;
        cluster.kill(leader);
        let token = last.token();
        last.release().await.unwrap().confirmed().unwrap();
        last = soon("a lock after a failover", client.mutex(NAME).acquire_with(&patient)).await.unwrap();
        assert!(last.token() > token, "{} after {token}", last.token());
        cluster.restart(leader).await;
    }
    last.release().await.unwrap();
}

/// E4: with the balancer of the client crate, a third of the calls would go to the dead member.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_member_in_the_list_of_endpoints_fails_nothing() {
    let cluster = Cluster::start("case").await;
    let dead = cluster.follower().await;
    cluster.kill(dead);
    cluster.front(dead).newcomers(Newcomers::Refuse);
    cluster.next_leader(dead).await;
    // At every position in the list.
    for round in 0..6 {
        let client = Client::new(&url_from(&cluster, round % 3));
        for i in 0..20 {
            let name = format!("job {round} {i}");
            let guard = soon("a lock that is free", client.mutex(&name).acquire()).await;
            let guard = guard.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            guard.release().await.unwrap().confirmed().unwrap();
        }
    }
}

/// Two of three members are away: no lock can be granted, and every client gets an error in time.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_a_majority_gives_a_typed_error_in_time() {
    let cluster = Cluster::start("case").await;
    let client = Client::new(&url(&cluster));
    client.assert_free(NAME).await;
    cluster.kill(0);
    cluster.kill(1);
    // One time limit to connect and one for the command.
    let acquired = within("an answer", Duration::from_secs(4) + LATE, client.mutex(NAME).acquire()).await;
    let error = acquired.unwrap_err();
    let transient = matches!(
        kind(&error),
        BackendErrorKind::TimedOut | BackendErrorKind::Unavailable | BackendErrorKind::Unreachable
    );
    assert!(transient && error.is_transient(), "{error:?}");
}

/// While there is no leader, one member says so to a client that connects, and another one says nothing, forever.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_opens_soon_after_a_leader_is_there_past_a_silent_member() {
    let cluster = Cluster::start("case").await;
    let addresses = cluster.addresses(0);
    let (two, _) = addresses.rsplit_once(',').unwrap();
    let url = format!("etcd://{two}/case?command_timeout=1s&connect_timeout=1h");
    cluster.pause(0);
    cluster.pause(2);
    let knows = async || cluster.admin(1).status().await.is_ok_and(|status| status.leader() == 0);
    eventually("a member without a leader", LATE, knows).await;
    // A proposal during an election may be dropped silently, and sending it to the silent member as well is no help. So a request may
    // time out, and is repeated. A connection that is still being opened is not opened again.
    let lock = Client::new(&url).mutex(NAME).with_options(told().outage(Outage::Wait));
    let taking = tokio::spawn(async move { lock.acquire().await.unwrap() });
    let asked = || async { (0..2).all(|i| cluster.front(i).opened() > 0) };
    eventually("a question to both", LATE, asked).await;
    cluster.resume(2);
    let guard = soon("a lock on a cluster that serves", taking).await.unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
}

/// A learner says that it is healthy, knows the leader, and refuses all other requests.
#[tokio::test(flavor = "multi_thread")]
async fn a_learner_in_the_list_of_endpoints_fails_nothing() {
    let cluster = Cluster::start("case").await;
    let learner = cluster.add_learner().await;
    let members = cluster.addresses(0);
    let url = format!("etcd://{},{members}/case?command_timeout=3s", learner.address());
    let client = Client::new(&url);
    for i in 0..3 {
        let guard = client.take(&format!("job {i}"), &told()).await;
        guard.release().await.unwrap().confirmed().unwrap();
    }
    let error = Client::new(&format!("etcd://{}/case?command_timeout=300ms", learner.address()));
    let error = error.mutex(NAME).acquire().await.unwrap_err();
    assert_eq!(kind(&error), &BackendErrorKind::Unavailable, "{error:?}");
    assert!(format!("{error:?}").contains("learner"), "{error:?}");
}
