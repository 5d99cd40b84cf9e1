//! Creates the nodes above those of locks, and the nodes of the sessions.

use std::sync::Arc;

use lock_core::BackendErrorKind as Kind;
use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Error, Permission, Stat};

use super::{pool::Pool, session::Session};
use crate::{
    client::ReconnectingClient,
    error::{Cause, Failure},
};

/// Creates the node of the heartbeats, and the nodes above it.
pub(super) async fn make_heartbeat_node(pool: &Pool, session: &Arc<Session>) -> Result<Stat, Failure> {
    let ephemeral = CreateMode::Ephemeral.with_acls(Acls::new(&pool.acl));
    for _ in 0..2 {
        let client = session.client()?;
        let made = session
            .write("making a session's node", client.create(&session.heartbeat_node, &[], &ephemeral))
            .await;
        match made {
            Err(failure) if failure.cause() == Cause::NoNode => {
                make_base_nodes(pool, session, &client).await?;
            }
            Err(failure) if failure.cause() == Cause::NodeExists => {
                return session.heartbeat(pool.config.server.command_timeout).await;
            }
            Err(failure) => return Err(failure),
            Ok((stat, _)) => return Ok(stat),
        }
    }
    let failure =
        Failure::new(Kind::Unavailable, "the nodes above those of locks are deleted again and again");
    Err(failure.about(&session.address))
}

/// Creates the nodes above those of locks and sessions, if they do not exist.
pub(super) async fn make_base_nodes(
    pool: &Pool,
    session: &Session,
    client: &ReconnectingClient,
) -> Result<(), Failure> {
    for path in [pool.keys.sessions(), pool.keys.locks(), pool.keys.evictions()] {
        if path != "/" {
            let made = mkdir(client, &path, pool.keys.above().len(), &pool.acl);
            session.answer("making the nodes above those of locks", made).await?;
        }
    }
    Ok(())
}

/// Writes a node and returns its stat, which contains the server's time. The node is created once for each session and ends with it: a new
/// node for each call would stay if the call is dropped.
pub(super) async fn write_clock(pool: &Pool, session: &Session) -> Result<Stat, Failure> {
    let clock = format!("{}-clock", session.heartbeat_node);
    let ephemeral = CreateMode::Ephemeral.with_acls(Acls::new(&pool.acl));
    for _ in 0..2 {
        let client = session.client()?;
        match session.write("a look", client.set_data(&clock, &[])).await {
            Err(failure) if failure.cause() == Cause::NoNode => {}
            written => return written,
        }
        match session.write("a look", client.create(&clock, &[], &ephemeral)).await {
            // Another call was quicker.
            Err(failure) if failure.cause() == Cause::NodeExists => {}
            made => return made.map(|(stat, _)| stat),
        }
    }
    let failure = Failure::new(Kind::Unavailable, "the nodes of sessions are deleted again and again");
    Err(failure.about(&session.address))
}

/// Like `mkdir -p`, but tries the last node first, so that no rights are needed above nodes that exist. The first `above` bytes of the path
/// are above the chroot. There, other clients may create nodes as well, but delete none.
async fn mkdir(client: &ReconnectingClient, path: &str, above: usize, acl: &[Acl]) -> Result<(), Error> {
    let others = Acl::new(Permission::CREATE | Permission::READ, AuthId::anyone());
    let shared: Vec<_> = acl.iter().cloned().chain([others]).collect();
    let mut end = path.len();
    loop {
        let acls = Acls::new(if end <= above { &shared } else { acl });
        match client.create(&path[..end], &[], &CreateMode::Persistent.with_acls(acls)).await {
            Ok(_) | Err(Error::NodeExists) if end == path.len() => return Ok(()),
            Ok(_) | Err(Error::NodeExists) => {
                end = path[end + 1..].find('/').map_or(path.len(), |next| end + 1 + next);
            }
            Err(Error::NoNode) => match path[..end].rfind('/') {
                Some(up @ 1..) => end = up,
                _ => return Err(Error::NoNode),
            },
            Err(error) => return Err(error),
        }
    }
}
