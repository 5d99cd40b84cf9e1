//! The risk of long names. The transaction that ends a session contains the paths of all its nodes. If it is longer than the longest
//! message between servers, they stop and do not start again (ZOOKEEPER-4306).

use std::time::Duration;

use lock_conformance::audit::within;

use crate::{
    common::{client, options, soon, take},
    server::{Ensemble, PATIENCE},
};

/// Their paths are 3 MB together. By default, servers send one another at most 2 MB.
const LOCKS: usize = 240;

/// The longest possible name. Each of its bytes takes three in a path.
fn name(i: usize) -> String {
    format!("{i:04}{}", "/".repeat(4092))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_survives_the_end_of_sessions_that_are_as_full_as_they_get() {
    let ensemble = Ensemble::start().await;
    let (here, admin) = (client(&ensemble.url_of(&ensemble.addresses())), ensemble.admin(0));
    let lasting = options().ttl(Duration::from_secs(60));
    let mut guards = Vec::new();
    for i in 0..LOCKS {
        guards.push(take(&here, &name(i), &lasting).await);
    }
    let nodes = admin.client().await.list_children(&format!("{}/s1", admin.chroot())).await.unwrap();
    let sessions: Vec<_> = nodes.iter().filter_map(|node| u64::from_str_radix(node, 16).ok()).collect();
    for session in &sessions {
        within("the end of a session", PATIENCE, admin.close_session(session.cast_signed())).await;
    }
    // Each of the servers carries out a write.
    ensemble.mend().await;
    for guard in &guards {
        soon("the loss", guard.lost()).await;
    }
    let again = take(&here, &name(0), &lasting).await;
    assert!(again.token() > guards[0].token());
    again.release().await.unwrap().confirmed().unwrap();
    assert!(sessions.len() > 1, "all of them in one session");
}
