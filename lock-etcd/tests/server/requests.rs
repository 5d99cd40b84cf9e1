//! [`requests`]: what a server was asked, as it counts it itself.

use std::{collections::BTreeMap, time::Duration};

use lock_test_servers::http_get;

/// How often each method was called, as `KV/Txn`; of a stream, how many messages came on it.
///
/// # Panics
/// If the server at `host:port` does not say.
pub(crate) async fn requests(address: &str) -> BTreeMap<String, u64> {
    let text = metrics(address).await;
    let counts: BTreeMap<_, _> = text.lines().filter_map(|line| count(line, "msg_received")).collect();
    assert!(counts.contains_key("KV/Txn"), "the server does not count as it did:\n{text}");
    counts
}

/// What a server was asked when it is asked for none of these any more: for whatever it may be, if none is named.
///
/// # Panics
/// As for [`requests`].
pub(crate) async fn quiet(address: &str, methods: &[&str]) -> BTreeMap<String, u64> {
    let counted = |asked: &BTreeMap<String, u64>| match methods {
        [] => asked.values().sum::<u64>(),
        methods => methods.iter().filter_map(|method| asked.get(*method)).sum(),
    };
    let mut before = requests(address).await;
    let mut unchanged = 0;
    // Twice in a row: a client has time for its next request.
    while unchanged < 2 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = requests(address).await;
        unchanged = if counted(&now) == counted(&before) { unchanged + 1 } else { 0 };
        before = now;
    }
    before
}

/// How many requests of this method were carried out or refused.
///
/// # Panics
/// If the server at `host:port` does not say.
pub(crate) async fn answered(address: &str, method: &str) -> u64 {
    let text = metrics(address).await;
    // One line for each outcome.
    let counts = text.lines().filter_map(|line| count(line, "handled"));
    counts.filter(|(counted, _)| counted == method).map(|(_, count)| count).sum()
}

/// How many streams of watches were opened.
///
/// # Panics
/// If the server at `host:port` does not say.
pub(crate) async fn watch_streams(address: &str) -> u64 {
    let text = metrics(address).await;
    let mut counts = text.lines().filter_map(|line| count(line, "started"));
    let watches = counts.find(|(method, _)| method == "Watch/Watch");
    watches.unwrap_or_else(|| panic!("the server does not count as it did:\n{text}")).1
}

async fn metrics(address: &str) -> String {
    http_get(address, "/metrics").await.expect("the server answers with a text")
}

/// Reads a line such as `grpc_server_msg_received_total{grpc_method="Txn",grpc_service="etcdserverpb.KV",…} 12`.
fn count(line: &str, what: &str) -> Option<(String, u64)> {
    let line = line.strip_prefix(&format!("grpc_server_{what}_total{{"))?;
    let label = |name: &str| line.split(&format!("{name}=\"")).nth(1)?.split('"').next();
    let service = label("grpc_service")?.strip_prefix("etcdserverpb.")?;
    Some((format!("{service}/{}", label("grpc_method")?), line.rsplit(' ').next()?.parse().ok()?))
}
