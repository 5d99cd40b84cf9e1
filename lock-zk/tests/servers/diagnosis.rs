//! A diagnosis while the server does not answer: what could not be read must not look as if it were good.

use std::sync::Arc;

use lock_conformance::Framing;
use lock_core::{BackendErrorKind, Diagnosis};

use crate::{
    common::{client, soon},
    packet_faults::{ConnectionBreaker, RIGHTS, RequestCounter, relay},
    server::TestServer,
};

const LIMITS: &str = "command_timeout=1s&connect_timeout=1s";

#[tokio::test(flavor = "multi_thread")]
async fn problems_are_told_though_the_connection_breaks_while_they_are_looked_for() {
    let server = TestServer::shared().await;
    let breaks = Arc::new(ConnectionBreaker::default());
    let (_relay, url) = relay(&server, Arc::clone(&breaks) as Arc<dyn Framing>);
    for node in ["/s1/", "/q1"] {
        let here = client(&format!("{url}&{LIMITS}"));
        breaks.at(RIGHTS, node);
        let problems = soon("a diagnosis", here.backend.operator().diagnose()).await.unwrap().problems;
        assert!(breaks.is_over());
        let told = problems.iter().any(|problem| problem.contains("everybody may change what is under"));
        assert!(told, "{node}: {problems:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_are_told_though_the_session_was_closed_by_an_operator() {
    let server = TestServer::shared().await;
    let here = client(&format!("{}&{LIMITS}", server.url()));
    let diagnose = async || soon("a diagnosis", here.backend.operator().diagnose()).await.unwrap();
    let mut before = diagnose().await;
    // Several times, because the client may notice the end before the diagnosis begins.
    for _ in 0..8 {
        server.admin().close_session(session(&before)).await;
        let after = diagnose().await;
        assert_ne!(after.facts, before.facts, "the session was not closed");
        assert_eq!(after.problems, before.problems);
        before = after;
    }
}

/// The id of the session that a diagnosis tells.
fn session(diagnosis: &Diagnosis) -> i64 {
    let (_, session) = diagnosis.facts.iter().find(|(fact, _)| *fact == "session").unwrap();
    i64::from_str_radix(session.trim_start_matches("0x"), 16).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diagnosis_fails_if_the_rights_cannot_be_read() {
    let server = TestServer::shared().await;
    let counts = Arc::new(RequestCounter::about("/q1"));
    let (_relay, url) = relay(&server, Arc::clone(&counts) as Arc<dyn Framing>);
    let here = client(&format!("{url}&{LIMITS}"));
    counts.lose(Some(RIGHTS));
    let failure = soon("a diagnosis", here.backend.operator().diagnose()).await.unwrap_err();
    assert_eq!(*failure.kind(), BackendErrorKind::TimedOut, "{failure:?}");
    assert_eq!(counts.of(RIGHTS), 2, "it is tried once more");
}
