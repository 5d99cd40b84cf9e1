//! [`ProxiedClient`]: a client behind a proxy, and what several cases do with it.

use std::sync::Arc;

use lock_core::{Error, Guard, QueueRow};

use crate::{
    Client, Newcomers, Proxy, SLACK, ScriptedFaults, TestEnv, Verb,
    audit::{eventually, soon},
    cases::steps::{mutex, queue, refused, take_free},
};

/// A client that connects to the server through a proxy.
pub(super) struct ProxiedClient {
    pub(super) client: Client,
    pub(super) proxy: Proxy,
    /// Counts the requests of the client, and the answers that it gets.
    pub(super) asked: ScriptedFaults,
}

impl ProxiedClient {
    pub(super) async fn new(env: &TestEnv) -> Self {
        Self::by(env.proxy(), env).await
    }

    pub(super) async fn by(proxy: Proxy, env: &TestEnv) -> Self {
        let asked = ScriptedFaults::default();
        let client = env.client_by(proxy.address(), Arc::new(asked.clone())).await;
        Self { client, proxy, asked }
    }
}

/// Waits for the first renewal, which opens the connection that the next ones go over.
pub(super) async fn renewed(proxied: &ProxiedClient) {
    eventually("a renewal", SLACK * 2, || async { proxied.asked.answers(Verb::Renew) > 0 }).await;
}

/// Checks that the only row of a queue is that of a guard. The store may not know its token yet.
pub(super) fn assert_holds_alone(rows: &[QueueRow], guard: &Guard) {
    let held: Vec<_> = rows.iter().map(|row| (row.entry, row.admitted)).collect();
    assert_eq!(held, [(Some(guard.entry_id()), true)]);
    assert!(rows[0].token.is_none_or(|shown| shown == guard.token()), "{rows:?} {guard:?}");
}

/// The error of a call whose connections do not work. New ones are refused until it has returned: some clients would otherwise repeat the
/// request on a new connection, and succeed.
pub(super) async fn error_of<T>(
    proxied: &ProxiedClient,
    call: impl Future<Output = Result<T, Error>>,
) -> Error {
    proxied.proxy.newcomers(Newcomers::Refuse);
    let error = refused(soon("the error", call).await);
    proxied.proxy.newcomers(Newcomers::Serve);
    error
}

/// Opens the connections of a client, so that later requests use open ones.
pub(super) async fn warm(client: &Client, name: &str) {
    let lock = mutex(client, name);
    take_free(&lock).await.release().await.unwrap();
    assert!(queue(&lock).await.is_empty());
}
