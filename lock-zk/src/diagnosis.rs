//! Facts about the ensemble, and what is wrong with it for locks.

use futures_util::future::join_all;
use lock_core::{BackendError, BackendErrorKind as Kind, Diagnosis};
use tokio::sync::oneshot;
use zookeeper_client::{Acl, Permission};

use crate::{
    ZooKeeper,
    connection::by,
    error::{Failure, STORE},
    session::Session,
};

/// The oldest version that has all that is asked of it: containers, and the list of a session's own nodes.
const OLDEST: (u32, u32) = (3, 6);

/// The oldest series that is still mended.
const MAINTAINED: (u32, u32) = (3, 8);

/// Whether a server gives us a session, is new enough, and lets us write under the chroot: a session writes there first of all.
pub(crate) async fn check(zookeeper: &ZooKeeper) -> Result<(), BackendError> {
    let _session = zookeeper.sessions.any().await?;
    let told = servers(zookeeper).await;
    // One that does not tell may be told not to.
    let old = told.iter().flatten().filter_map(|told| version(told)).find(|(_, number)| *number < OLDEST);
    if let Some((text, _)) = old {
        let message = format!("version {text} is too old: use 3.8 or later");
        return Err(BackendError::new(STORE, Kind::Unsupported, message));
    }
    Ok(())
}

pub(crate) async fn diagnose(zookeeper: &ZooKeeper) -> Result<Diagnosis, BackendError> {
    let session = zookeeper.sessions.shortest().await?;
    let told = servers(zookeeper).await;
    let config = &zookeeper.config;
    let answer = told.iter().flatten().count();
    let version_of = |told: &String| version(told).map(|(text, _)| text);
    let mut diagnosis = Diagnosis::default();
    diagnosis.facts = vec![
        ("store", "zookeeper".to_owned()),
        ("version", told.iter().flatten().find_map(version_of).unwrap_or_else(|| "not told".to_owned())),
        ("session", format!("{:#x}", session.id)),
        ("shortest session", format!("{:?}", session.granted())),
        ("tick", format!("{:?}", config.tick)),
        ("endpoints that tell about themselves", format!("{answer} of {}", told.len())),
    ];
    let least = config.tick * 6;
    if session.granted() != least {
        diagnosis.problems.push(format!(
            "a session of {least:?} was asked for, and one of {:?} given: set `tick` to the `tickTime` of the servers, or change \
             their `minSessionTimeout` and `maxSessionTimeout`",
            session.granted()
        ));
    }
    diagnosis.problems.extend(open_to_everybody(zookeeper, &session).await);
    for (endpoint, told) in told.iter().enumerate() {
        let address = config.address(endpoint);
        match told {
            Ok(told) => server_problems(&mut diagnosis.problems, &address, told),
            Err(failure) => diagnosis.problems.push(format!(
                "{address} does not tell about itself ({failure}): start it, take it from the list of endpoints, or add `srvr` to \
                 its `4lw.commands.whitelist`"
            )),
        }
    }
    Ok(diagnosis)
}

/// What is to be said if everybody who reaches the servers may take locks away, or make entries.
async fn open_to_everybody(zookeeper: &ZooKeeper, session: &Session) -> Option<String> {
    let path = zookeeper.config.nodes().locks();
    let client = session.client().ok()?;
    // Who may not read them is not everybody.
    let rights = session.answer("reading the rights of the locks' node", client.get_acl(&path)).await.ok()?;
    let changes = [Permission::CREATE, Permission::DELETE, Permission::WRITE, Permission::ADMIN];
    let for_all =
        |acl: &Acl| acl.scheme() == "world" && changes.iter().any(|change| acl.permission().has(*change));
    rights.iter().any(for_all).then(|| {
        format!(
            "everybody may change what is under {path}, and so release the locks of others: give all clients a user or a certificate, \
             and take the rights of `world` away from the nodes that are there (see `acl` in docs/backends/zookeeper.md)"
        )
    })
}

fn server_problems(problems: &mut Vec<String>, address: &str, told: &str) {
    if told.contains("not currently serving requests") {
        problems.push(format!(
            "{address} serves no requests: see that a majority of the servers runs and is connected"
        ));
    } else if told.contains("Mode: read-only") {
        problems.push(format!("{address} is cut off from the majority and only reads: connect it"));
    } else if told.contains("is not in the whitelist") {
        problems
            .push(format!("{address} does not tell its version: add `srvr` to its `4lw.commands.whitelist`"));
    }
    if let Some((text, _)) = version(told).filter(|(_, number)| *number < MAINTAINED) {
        problems
            .push(format!("{address} has version {text}, which is not mended any more: use 3.8 or later"));
    }
}

/// What each server tells about itself.
async fn servers(zookeeper: &ZooKeeper) -> Vec<Result<String, Failure>> {
    join_all((0..zookeeper.config.endpoints.len()).map(|endpoint| srvr(zookeeper, endpoint))).await
}

async fn srvr(zookeeper: &ZooKeeper, endpoint: usize) -> Result<String, Failure> {
    let (keeper, limit) = (&zookeeper.keeper, zookeeper.config.connect_timeout);
    let route = zookeeper.sessions.route().clone();
    let (done, answer) = oneshot::channel();
    let until = keeper.now() + limit;
    keeper.spawn(async move {
        // Nobody may wait for it any more.
        let _ = done.send(route.ask(endpoint).await);
    });
    match by(keeper, until, answer).await {
        Some(Ok(Ok(told))) => Ok(told),
        Some(Ok(Err(error))) => Err(Failure::new(Kind::Unreachable, error.to_string())),
        Some(Err(_)) => Err(Failure::new(Kind::Unavailable, "the keeper has ended")),
        None => Err(Failure::timed_out("the question", limit)),
    }
}

/// The version that a server tells: as it writes it, and major and minor.
fn version(told: &str) -> Option<(String, (u32, u32))> {
    let text = told.lines().find_map(|line| line.strip_prefix("Zookeeper version: "))?;
    let text = text.split(['-', ',', ' ']).next()?;
    let mut parts = text.split('.');
    Some((text.to_owned(), (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_a_server_tells() {
        let told = "Zookeeper version: 3.9.4-7246445ec281f3dbf53dc54e970c914f39713903, built on 2025-08-19\nMode: standalone\n";
        assert_eq!(version(told), Some(("3.9.4".into(), (3, 9))));
        assert_eq!(version("This ZooKeeper instance is not currently serving requests"), None);
        let mut problems = Vec::new();
        server_problems(&mut problems, "a:1", "This ZooKeeper instance is not currently serving requests");
        server_problems(&mut problems, "b:1", "Zookeeper version: 3.6.4--x, built\nMode: follower");
        assert!(problems[0].contains("majority") && problems[1].contains("3.8"), "{problems:?}");
    }
}
