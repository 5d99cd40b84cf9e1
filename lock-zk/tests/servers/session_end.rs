//! What the end of a session costs, and that it ends in time.

use std::{sync::Arc, time::Duration};

use lock_conformance::{
    Flow, Links, SLACK, Way,
    audit::{eventually, within},
};
use lock_core::{BackendErrorKind, Claim, Creates, DistributedLock, Error, Standing, Step, WaitMode};

use crate::{
    common::{client, options, soon, take},
    server::TestServer,
};

/// A server behind a network that can be cut.
async fn start() -> TestServer {
    TestServer::shared().await.behind_proxy()
}

/// Each lock of the session needs a leave, and each leave asks whether the session has ended.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_session_takes_few_connections_however_many_locks_it_had() {
    const MANY: usize = 60;
    let server = start().await;
    let here = client(&server.url());
    let mut guards = Vec::new();
    for i in 0..MANY {
        guards.push(take(&here, &format!("job {i}"), &options()).await);
    }
    let session = server.admin().session_of(&server.admin().node(guards[0].name(), 0).await).await;
    let before = server.proxy().opened();
    server.admin().close_session(session).await;
    for guard in &guards {
        soon("the loss", guard.lost()).await;
    }
    let released: Vec<_> = guards.into_iter().map(|guard| tokio::spawn(guard.release())).collect();
    for released in released {
        assert!(matches!(soon("an answer", released).await.unwrap(), Err(Error::Lost { .. })));
    }
    assert_eq!(server.admin().queues().await, 0);
    // Once more, so that all pending work is done.
    assert!(here.locks.close(SLACK).await.is_ok());
    let opened = server.proxy().opened() - before;
    assert!(opened <= 8, "{opened} connections for the end of one session");
}

/// The server accepts connections and sends nothing on them: each lives for as long as something waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_session_in_a_black_hole_takes_few_connections() {
    const MANY: usize = 60;
    const MOST: usize = 8;
    let server = start().await;
    let here = client(&server.url());
    let mut guards = Vec::new();
    for i in 0..MANY {
        guards.push(take(&here, &format!("job {i}"), &options().ttl(Duration::from_secs(4))).await);
    }
    server.proxy().silence(Links::All);
    for guard in &guards {
        soon("the loss", guard.lost()).await;
    }
    let before = server.proxy().opened();
    let released: Vec<_> = guards.into_iter().map(|guard| tokio::spawn(guard.release())).collect();
    let mut most = 0;
    // So that some unanswered connections were given up, and others tried.
    eventually("connections by which the session is to be closed", SLACK, || {
        most = most.max(server.proxy().open());
        let opened = server.proxy().opened() - before;
        async move { opened >= 3 }
    })
    .await;
    assert!(most <= MOST, "{most} connections at once for the end of one session");
    server.proxy().heal();
    server.proxy().reset(Links::All);
    for released in released {
        assert!(matches!(soon("an answer", released).await.unwrap(), Err(Error::Lost { .. })));
    }
    eventually("an end of all that stood under it", SLACK, || async { server.admin().queues().await == 0 })
        .await;
}

/// Attaching to a session extends it (PR28), whether or not the answer arrives. So while no server answers, nothing attaches to a session
/// that is to be closed, and its entries end with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lock_is_free_in_time_while_only_answers_are_lost() {
    const TTL: Duration = Duration::from_secs(4);
    let server = start().await;
    // Many attempts to close the session fit into its timeout.
    let here = client(&format!("{}&command_timeout=1s&connect_timeout=1s", server.url()));
    let other = client(&server.direct_url());
    let guard = take(&here, "job", &options().ttl(TTL)).await;
    // On new connections, too.
    server.proxy().order(Links::All, Way::Replies, &Flow::Lose);
    soon("the loss", guard.lost()).await;
    let opened = server.proxy().opened();
    // Attempts to continue the session have extended it until the loss.
    let next = other.mutex("job");
    let next = within("the next grant", guard.ttl() * 2 + SLACK, next.acquire()).await.unwrap();
    assert!(server.proxy().opened() > opened, "nothing tried to close the session");
    server.proxy().heal();
    server.proxy().reset(Links::All);
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    assert!(here.locks.close(SLACK).await.is_ok());
    next.release().await.unwrap().confirmed().unwrap();
}

/// A cleanup may run anywhere: a thread without a runtime has nothing to drive a connection.
#[tokio::test(flavor = "multi_thread")]
async fn to_leave_a_session_that_has_ended_takes_no_runtime() {
    const TTL: Duration = Duration::from_secs(4);
    let server = start().await;
    let here = client(&server.url());
    let guard = take(&here, "job", &options().ttl(TTL)).await;
    let entry = Arc::new(here.entry("other", Claim::mutex(), TTL));
    let standing = here.backend.enter(&entry, Step::Create, WaitMode::Queue).await.unwrap();
    assert!(matches!(standing, Standing::Admitted { .. }), "{standing:?}");
    server.proxy().silence(Links::All);
    soon("the end of the session", guard.lost()).await;
    let leave = || {
        let (backend, entry) = (Arc::clone(&here.backend), Arc::clone(&entry));
        tokio::task::spawn_blocking(|| {
            let outside = std::thread::spawn(move || {
                assert!(tokio::runtime::Handle::try_current().is_err());
                futures_executor::block_on(backend.leave(&entry, Creates::Answered))
            });
            outside.join().expect("it does not panic")
        })
    };
    // The session is not closed before its time is over. Then closing it needs a connection, on which nothing is answered.
    let tried = || async {
        let error = leave().await.unwrap().unwrap_err();
        matches!(error.kind(), BackendErrorKind::TimedOut | BackendErrorKind::Unreachable)
    };
    eventually("a try to close the session", SLACK, tried).await;
    server.proxy().heal();
    server.proxy().reset(Links::All);
    eventually("a leave that is confirmed", SLACK, || async { leave().await.unwrap().is_ok() }).await;
    eventually("an end of all that stood under it", SLACK, || async { server.admin().queues().await == 0 })
        .await;
}
