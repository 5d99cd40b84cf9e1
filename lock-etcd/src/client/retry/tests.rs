//! Requests with answers that these tests define: what is sent again, where, and what the outcome says.

use std::{
    future::pending,
    sync::atomic::{AtomicUsize, Ordering},
};

use etcd_client::Error;
use futures_util::future::join_all;
use lock_core::Keeper;
use tonic::{Code, Status};

use super::*;
use crate::{EtcdConfig, client::Cluster};

const LIMIT: Duration = Duration::from_secs(3);

/// What happens to a request each time it is sent.
#[derive(Clone, Copy)]
enum Fate {
    Answered,
    Refused(Code, &'static str),
    Silent,
}

const BROKEN: Fate = Fate::Refused(Code::Unknown, "transport error");
const NOT_OPENED: Fate = Fate::Refused(Code::Unavailable, "tcp connect error");

/// Sends one request to members that do not exist. Each time it is sent, the next of the fates happens to it.
async fn send(members: usize, fates: &[Fate]) -> (Outcome<&'static str>, usize, Connections) {
    let endpoints = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"][..members].join(",");
    let config: EtcdConfig = format!("etcd://{endpoints}/p").parse().unwrap();
    let cluster = Arc::new(Cluster::new(Arc::new(config)).unwrap());
    for _ in fates {
        // No connection is opened before a request is sent.
        let connected = etcd_client::Client::connect(["127.0.0.1:1"], None).await.unwrap();
        cluster.prepare(Channel::new(connected, "there".into(), 0));
    }
    let connections = Connections::new(cluster, Keeper::start().unwrap());
    let sent = AtomicUsize::new(0);
    let answer = connections
        .send_within(LIMIT, |_| {
            let fate = fates.get(sent.fetch_add(1, Ordering::Relaxed)).copied();
            async move {
                match fate.unwrap_or(Fate::Silent) {
                    Fate::Answered => Ok("done"),
                    Fate::Refused(code, said) => Err(Error::GRpcStatus(Status::new(code, said))),
                    Fate::Silent => pending().await,
                }
            }
        })
        .await;
    (answer, sent.into_inner(), connections)
}

#[tokio::test]
async fn what_is_answered_is_sent_once_and_certain() {
    let (sent, times, _) = send(3, &[Fate::Answered, Fate::Answered]).await;
    assert_eq!((sent.answer.unwrap(), sent.unanswered, times), ("done", false, 1));
}

#[tokio::test]
async fn a_refusal_is_an_answer() {
    for (code, said) in [
        (Code::PermissionDenied, "etcdserver: permission denied"),
        (Code::NotFound, "etcdserver: requested lease not found"),
        (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"),
    ] {
        let (sent, times, _) = send(3, &[Fate::Refused(code, said), Fate::Answered]).await;
        assert!(sent.answer.is_err(), "{said}");
        assert_eq!((sent.unanswered, times), (false, 1), "{said}");
    }
}

/// The server has carried out a request whether or not its answer could be read.
#[tokio::test]
async fn what_our_own_client_says_after_the_sending_is_no_answer() {
    for (code, said) in [
        (Code::OutOfRange, "Error, decoded message length too large: found 5 bytes, the limit is: 4 bytes"),
        (Code::Unimplemented, "Content is compressed with `zstd` which isn't supported"),
    ] {
        let (sent, times, _) = send(3, &[Fate::Refused(code, said), Fate::Answered]).await;
        assert!(sent.answer.is_err(), "{said}");
        assert_eq!((sent.unanswered, times), (true, 1), "{said}");
    }
}

/// E4: a request that was never sent leaves no doubt, and a request on a broken connection does.
#[tokio::test]
async fn what_breaks_goes_elsewhere_at_once_and_may_have_been_carried_out() {
    for (fate, unanswered) in [(BROKEN, true), (NOT_OPENED, false)] {
        let (sent, times, _) = send(3, &[fate, Fate::Answered]).await;
        assert_eq!((sent.answer.unwrap(), sent.unanswered, times), ("done", unanswered, 2));
    }
}

/// An election drops what was proposed during it, and may also carry it out later.
#[tokio::test]
async fn a_cluster_that_is_not_ready_is_asked_again_after_a_while() {
    let keeper = Keeper::start().unwrap();
    let began = keeper.now();
    let (sent, times, _) =
        send(1, &[Fate::Refused(Code::Unavailable, "etcdserver: request timed out"), Fate::Answered]).await;
    assert_eq!((sent.answer.unwrap(), sent.unanswered, times), ("done", true, 2));
    assert!(keeper.now().since(began) >= NOT_READY_DELAY);
}

#[tokio::test]
async fn silence_of_the_only_member_ends_at_the_limit_with_its_connection() {
    let keeper = Keeper::start().unwrap();
    let began = keeper.now();
    let (sent, times, connections) = send(1, &[Fate::Silent]).await;
    assert_eq!(*sent.answer.unwrap_err().kind(), Kind::TimedOut);
    assert!(sent.unanswered && times == 1);
    assert!(keeper.now().since(began) >= LIMIT);
    assert!(
        connections.open_connection().is_none(),
        "a connection that does not answer gets no more requests"
    );
}

/// It is sent beside the first, which may still be answered or carried out.
#[tokio::test]
async fn a_silent_request_is_sent_to_another_member_in_a_third_of_its_time() {
    let keeper = Keeper::start().unwrap();
    let began = keeper.now();
    let (sent, times, _) = send(3, &[Fate::Silent, Fate::Answered]).await;
    assert_eq!((sent.answer.unwrap(), sent.unanswered, times), ("done", true, 2));
    // And before the limit, because otherwise there would be no answer.
    assert!(keeper.now().since(began) >= LIMIT / 3);
}

#[tokio::test]
async fn a_token_that_is_not_known_any_more_gets_a_new_connection() {
    let (sent, times, connections) = send(
        1,
        &[Fate::Refused(Code::InvalidArgument, "etcdserver: revision of auth store is old"), Fate::Answered],
    )
    .await;
    assert_eq!((sent.answer.unwrap(), sent.unanswered, times), ("done", false, 2));
    assert!(connections.open_connection().is_some());
}

/// Connections to two members, `each` connections to each: first those to the first member.
async fn connections_to_two(each: usize) -> Connections {
    let config: EtcdConfig = "etcd://127.0.0.1:1,127.0.0.1:2/p".parse().unwrap();
    let cluster = Arc::new(Cluster::new(Arc::new(config)).unwrap());
    for endpoint in 0..2 {
        for _ in 0..each {
            let connected = etcd_client::Client::connect(["127.0.0.1:1"], None).await.unwrap();
            cluster.prepare(Channel::new(connected, "there".into(), endpoint));
        }
    }
    Connections::new(cluster, Keeper::start().unwrap())
}

/// Otherwise a stall of the cluster prolongs itself.
#[tokio::test]
async fn while_all_answers_are_late_few_requests_are_sent_beside_others() {
    const REQUESTS: usize = 200;
    let connections = connections_to_two(REQUESTS).await;
    let (connections, sent) = (&connections, &AtomicUsize::new(0));
    let late = || async move {
        let answer = connections.send_within(LIMIT, |_| async {
            sent.fetch_add(1, Ordering::Relaxed);
            // After the request is sent again, and before the limit.
            connections.keeper().sleep_until(connections.keeper().now() + LIMIT / 2).await;
            Ok("done")
        });
        answer.await.answer.unwrap()
    };
    join_all((0..REQUESTS).map(|_| late())).await;
    let sent = sent.load(Ordering::Relaxed);
    // One in ten, ten more at once, and each of these once more.
    assert!((REQUESTS..REQUESTS + 2 * (REQUESTS / 10 + 10)).contains(&sent), "{sent} for {REQUESTS}");
}

/// They are sent to it as soon as one of them has shown that another member answers.
#[tokio::test]
async fn all_requests_to_a_member_that_is_silent_are_answered_by_another() {
    const REQUESTS: usize = 200;
    let connections = connections_to_two(1).await;
    let (connections, sent) = (&connections, &AtomicUsize::new(0));
    let ask = || async move {
        let answer = connections.send_within(LIMIT, |channel| {
            let silent = channel.endpoint == 0;
            async move {
                sent.fetch_add(1, Ordering::Relaxed);
                if silent { pending().await } else { Ok("done") }
            }
        });
        answer.await
    };
    for answer in join_all((0..REQUESTS).map(|_| ask())).await {
        assert_eq!((answer.answer.unwrap(), answer.unanswered), ("done", true));
    }
    assert_eq!(sent.load(Ordering::Relaxed), 2 * REQUESTS);
}
