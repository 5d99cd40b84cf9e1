//! Facts about the ensemble, and problems that it has with locks.

use futures_util::future::join_all;
use lock_core::{BackendError, BackendErrorKind as Kind, Diagnosis, excerpt};
use tokio::sync::oneshot;
use zookeeper_client::{Acl, Permission};

use crate::{
    ZkConfig,
    error::{Cause, Failure, STORE},
    session::{Session, Sessions},
};

/// The oldest version with all features that are needed: containers, and the list of a session's own nodes.
const OLDEST: (u32, u32) = (3, 6);

/// The oldest series that is still maintained.
const MAINTAINED: (u32, u32) = (3, 8);

/// Checks that a server opens a session, is new enough, and lets us write under the chroot. Opening a session includes a write.
pub(crate) async fn check(sessions: &Sessions) -> Result<(), BackendError> {
    let _session = sessions.any().await?;
    let statuses = statuses(sessions).await;
    // A server may be configured not to report its status.
    let old =
        statuses.iter().flatten().filter_map(|status| version(status)).find(|(_, number)| *number < OLDEST);
    if let Some((text, _)) = old {
        let message = format!("{}: version {text} is too old: use 3.8 or later", sessions.config());
        return Err(BackendError::new(STORE, Kind::Unsupported, message).advised());
    }
    Ok(())
}

/// The diagnosis. It only reads, so it is begun anew if the connection is lost meanwhile, once, and if the session is, once. One may follow
/// the other: a server that ends a session closes its connection, and the client learns the reason when it connects again.
pub(crate) async fn diagnose(sessions: &Sessions) -> Result<Diagnosis, BackendError> {
    let (mut lost_connection, mut lost_session) = (false, false);
    loop {
        match examine(sessions).await {
            Err(failure) if failure.is_of_connection() && !lost_connection => lost_connection = true,
            Err(failure) if failure.is_end_of_session() && !lost_session => lost_session = true,
            examined => return examined.map_err(BackendError::from),
        }
    }
}

async fn examine(sessions: &Sessions) -> Result<Diagnosis, Failure> {
    let session = sessions.shortest().await?;
    let statuses = statuses(sessions).await;
    let config = sessions.config();
    let answer = statuses.iter().flatten().count();
    let version_of = |status: &String| version(status).map(|(text, _)| text);
    let mut diagnosis = Diagnosis::default();
    diagnosis.facts = vec![
        ("store", "zookeeper".to_owned()),
        ("version", statuses.iter().flatten().find_map(version_of).unwrap_or_else(|| "not told".to_owned())),
        ("session", format!("{:#x}", session.id)),
        ("shortest session", format!("{:?}", session.granted())),
        ("tick", format!("{:?}", config.tick)),
        ("endpoints that tell about themselves", format!("{answer} of {}", statuses.len())),
    ];
    let least = config.tick * 6;
    if session.granted() != least {
        diagnosis.problems.push(format!(
            "a session of {least:?} was asked for, and one of {:?} given: set `tick` to the `tickTime` of the servers, or change \
             their `minSessionTimeout` and `maxSessionTimeout`",
            session.granted()
        ));
    }
    diagnosis.problems.extend(rights(config, &session).await?);
    for (endpoint, status) in statuses.iter().enumerate() {
        let address = config.address(endpoint);
        match status {
            Ok(status) => server_problems(&mut diagnosis.problems, &address, status),
            Err(failure) => diagnosis.problems.push(format!(
                "{address} does not tell about itself ({failure}): start it, take it from the list of endpoints, or add `srvr` to \
                 its `4lw.commands.whitelist`"
            )),
        }
    }
    Ok(diagnosis)
}

/// The problems if others may release locks, create entries or end sessions.
///
/// # Errors
/// If the rights cannot be read: that must not look as if they were good.
async fn rights(config: &ZkConfig, session: &Session) -> Result<Vec<String>, Failure> {
    let keys = config.keys();
    let own = [keys.locks(), keys.sessions(), keys.evictions()];
    // Our own identity, as the servers write it: that of the creator of our session's node.
    let ours = acl(session, &keys.session(session.id)).await?;
    let (mut open, mut taken) = (Vec::new(), Vec::new());
    for path in [keys.chroot()].into_iter().chain(own.iter().map(String::as_str)) {
        match acl(session, path).await {
            Ok(acl) if acl.iter().any(is_for_everybody) => open.push(path),
            Ok(acl) if acl.iter().any(|one| ours.iter().any(|ours| is_same(ours, one))) => {}
            Ok(_) => taken.push(path),
            // Without the right to read the rights, we have no other right.
            Err(failure) if *failure.kind() == Kind::Denied => taken.push(path),
            // An operator may delete a node that is not in use.
            Err(failure) if failure.cause() == Cause::NoNode => {}
            Err(failure) => return Err(failure),
        }
    }
    // With Curator's layout, two of the paths are the same.
    open.dedup();
    taken.dedup();
    let open = (!open.is_empty()).then(|| {
        format!(
            "everybody may change what is under {}, and so release the locks of others: give all clients a user or a certificate, and \
             take the rights of `world` and of addresses (`ip`) away from the nodes that are there (see `acl` in \
             docs/backends/zookeeper.md)",
            open.join(", ")
        )
    });
    let taken = (!taken.is_empty()).then(|| {
        format!(
            "{} belongs to somebody else, who may deny us access or delete what is under it: let an operator give it the rights of the \
             other nodes (`setAcl`), or use another chroot",
            taken.join(", ")
        )
    });
    Ok(open.into_iter().chain(taken).collect())
}

async fn acl(session: &Session, path: &str) -> Result<Vec<Acl>, Failure> {
    session.answer("reading the rights of a node", session.client()?.get_acl(path)).await
}

fn may_change(acl: &Acl) -> bool {
    let changes = [Permission::CREATE, Permission::DELETE, Permission::WRITE, Permission::ADMIN];
    changes.iter().any(|change| acl.permission().has(*change))
}

/// Whether an entry lets unauthenticated clients change something. All programs of a machine share its address, and another machine may
/// claim it.
fn is_for_everybody(acl: &Acl) -> bool {
    matches!(acl.scheme(), "world" | "ip") && may_change(acl)
}

/// Whether both entries let the same identity change something. To a client that may not change them, servers show only the name of a user,
/// with an `x` for the rest.
fn is_same(ours: &Acl, other: &Acl) -> bool {
    let user = |acl: &Acl| acl.id().split(':').next().map(str::to_owned);
    let is_masked = other.scheme() == "digest" && other.id().ends_with(":x");
    let is_same = ours.id() == other.id() || is_masked && user(ours) == user(other);
    ours.scheme() == other.scheme() && is_same && may_change(ours) && may_change(other)
}

fn server_problems(problems: &mut Vec<String>, address: &str, status: &str) {
    if status.contains("not currently serving requests") {
        problems.push(format!(
            "{address} serves no requests: see that a majority of the servers runs and is connected"
        ));
    } else if status.contains("Mode: read-only") {
        problems.push(format!("{address} is cut off from the majority and only reads: connect it"));
    } else if status.contains("is not in the whitelist") {
        problems
            .push(format!("{address} does not tell its version: add `srvr` to its `4lw.commands.whitelist`"));
    }
    if let Some((text, _)) = version(status).filter(|(_, number)| *number < MAINTAINED) {
        problems.push(format!(
            "{address} has version {text}, which is not maintained any more: use 3.8 or later"
        ));
    }
}

/// The status of each server.
async fn statuses(sessions: &Sessions) -> Vec<Result<String, Failure>> {
    join_all((0..sessions.config().endpoints.len()).map(|endpoint| status_of(sessions, endpoint))).await
}

async fn status_of(sessions: &Sessions, endpoint: usize) -> Result<String, Failure> {
    let (keeper, limit) = (sessions.keeper(), sessions.config().server.connect_timeout);
    let ensemble = sessions.ensemble().clone();
    let (done, answer) = oneshot::channel();
    let until = keeper.now() + limit;
    keeper.spawn(async move {
        // The caller may have been dropped.
        let _ = done.send(ensemble.server_status(endpoint).await);
    });
    match keeper.timeout_at(until, answer).await {
        Some(Ok(Ok(status))) => Ok(status),
        Some(Ok(Err(error))) => Err(Failure::new(Kind::Unreachable, excerpt(format_args!("{error}")))),
        Some(Err(_)) => Err(Failure::new(Kind::Unavailable, "the keeper has ended")),
        None => Err(Failure::timed_out("the question", limit)),
    }
}

/// The version in a status: as the server writes it, and as major and minor numbers.
fn version(status: &str) -> Option<(String, (u32, u32))> {
    let text = status.lines().find_map(|line| line.strip_prefix("Zookeeper version: "))?;
    let text = text.split(['-', ',', ' ']).next()?;
    let mut parts = text.split('.');
    let number = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((excerpt(format_args!("{text}")), number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_a_server_tells() {
        let status = "Zookeeper version: 3.9.4-7246445ec281f3dbf53dc54e970c914f39713903, built on 2025-08-19\nMode: standalone\n";
        assert_eq!(version(status), Some(("3.9.4".into(), (3, 9))));
        assert_eq!(version("This ZooKeeper instance is not currently serving requests"), None);
        let (text, number) = version("Zookeeper version: 3.5.\u{1b}[2J\u{202e}").unwrap();
        assert_eq!((text.as_str(), number), ("3.5.\\u{1b}[2J\\u{202e}", (3, 5)));
        let mut problems = Vec::new();
        server_problems(&mut problems, "a:1", "This ZooKeeper instance is not currently serving requests");
        server_problems(&mut problems, "b:1", "Zookeeper version: 3.6.4--x, built\nMode: follower");
        assert!(problems[0].contains("majority") && problems[1].contains("3.8"), "{problems:?}");
    }
}
