//! [`member`]: a server with the settings of all tests, alone or one of a cluster.

use lock_test_servers::EtcdServer;

use super::Admin;

/// A server that does not run yet, and serves clients by `scheme`.
pub(super) fn member(scheme: &'static str) -> EtcdServer {
    let mut member = EtcdServer::new(scheme);
    member.with([
        // What was written outlives a kill of the process, and the operating system is not killed.
        "--unsafe-no-fsync",
        // The shortest lease is then 1 s, and a new leader is there soon.
        "--heartbeat-interval=50",
        "--election-timeout=500",
        // To check a password is no work for a busy machine.
        "--bcrypt-cost=4",
        "--log-level=warn",
        "--logger=zap",
    ]);
    member
}

/// Returns when the server answers, or, with `false`, when another process has taken one of its ports.
pub(super) async fn answers(member: &EtcdServer, admin: &Admin) -> bool {
    // Our own server, and not another one on the same port. Boxed, because it is large.
    let look =
        || Box::pin(async move { admin.name_of_server().await.is_some_and(|name| name == member.name()) });
    member.answers(look).await
}
