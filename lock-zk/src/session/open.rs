//! Opening a session.

use std::{sync::Arc, time::Duration};

use lock_core::{BackendErrorKind as Kind, FirstProcess};
use tokio::sync::watch;
use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Error, Permission, Stat};

use super::{OpenTask, Pool, Session, SessionClass, evictions, task};
use crate::{
    error::{Cause, Failure},
    link::Link,
};

/// With fewer ticks there is no time in which a session is known to live.
const LEAST_TICKS: u32 = 4;

/// Opens a session on the keeper, which drives it from then on.
pub(super) fn open(pool: &Arc<Pool>, class: &mut SessionClass, timeout: Duration) -> OpenTask {
    let (done, opening) = watch::channel(None);
    class.opening = Some(opening.clone());
    let pool_for_task = Arc::downgrade(pool);
    pool.keeper.spawn(async move {
        let Some(pool) = pool_for_task.upgrade() else { return };
        // Nothing was created in anybody's queue if it fails: so it is *unsent*, as far as an entry goes.
        let opened = open_one(&pool, timeout).await.map_err(Failure::unsent);
        let mut registry = pool.lock();
        let class = registry.classes.entry(timeout).or_default();
        class.opening = None;
        if let Ok(session) = &opened {
            class.sessions.push(Arc::clone(session));
        }
        drop(registry);
        if let Ok(session) = &opened {
            task::start(&pool, Arc::clone(session), timeout);
            evictions::start(&pool, session);
        }
        // Nobody may wait for it any more.
        let _ = done.send(Some(opened));
    });
    opening
}

/// The process that first opened a session. The client looks at its sockets on a thread of the process, which is not there in a
/// fork.
static OPENED: FirstProcess = FirstProcess::new();

fn check_fork() -> Result<(), Failure> {
    if OPENED.is_this() {
        return Ok(());
    }
    Err(Failure::new(
        Kind::Unsupported,
        "this process was forked from one that had opened a session, and a thread that is needed is not there; connect only in the \
         forks, or execute a program there",
    )
    .advised())
}

async fn open_one(pool: &Pool, timeout: Duration) -> Result<Arc<Session>, Failure> {
    check_fork()?;
    let sent = pool.keeper.now();
    let client = pool.route.open(timeout).await?;
    let (granted, tick) = (client.session_timeout(), pool.config.tick);
    if granted < tick * LEAST_TICKS {
        let message = format!(
            "the servers give sessions of {granted:?}, which is less than {LEAST_TICKS} ticks of {tick:?}: raise their \
             `maxSessionTimeout`, or set `tick` to their `tickTime`"
        );
        return Err(Failure::new(Kind::Unsupported, message).about(&pool.config.to_string()).advised());
    }
    let heartbeat_node = pool.keys.session(client.session().id().0);
    let session = Arc::new(Session::new(client, sent, heartbeat_node, pool.settings()));
    make_heartbeat_node(pool, &session).await?;
    if !session.is_alive(pool.keeper.now()) {
        // Whoever stood under it would be gone at once, again and again.
        let failure = Failure::new(Kind::TimedOut, "a session was over before it was opened");
        return Err(failure.about(&pool.config.to_string()));
    }
    tracing::debug!(session = %format_args!("{:#x}", session.id), asked = ?timeout, granted = ?granted, "zookeeper session opened");
    Ok(session)
}

/// Makes the node of the heartbeats, and what has to be above it.
pub(super) async fn make_heartbeat_node(pool: &Pool, session: &Arc<Session>) -> Result<Stat, Failure> {
    let ephemeral = CreateMode::Ephemeral.with_acls(Acls::new(&pool.acl));
    for _ in 0..2 {
        let client = session.client()?;
        let made = session
            .write("making a session's node", client.create(&session.heartbeat_node, &[], &ephemeral))
            .await;
        match made {
            Err(failure) if failure.cause() == Cause::NoNode => make_home(pool, session, &client).await?,
            Err(failure) if failure.cause() == Cause::NodeExists => {
                return session.heartbeat(pool.config.command_timeout).await;
            }
            Err(failure) => return Err(failure),
            Ok((stat, _)) => return Ok(stat),
        }
    }
    let failure = Failure::new(Kind::Unavailable, "somebody deletes the nodes above those of locks");
    Err(failure.about(&session.address))
}

/// Makes what is above locks and sessions, as far as it is not there.
pub(super) async fn make_home(pool: &Pool, session: &Session, client: &Link) -> Result<(), Failure> {
    for path in [pool.keys.sessions(), pool.keys.locks(), pool.keys.evictions()] {
        if path != "/" {
            let made = mkdir(client, &path, pool.keys.above().len(), &pool.acl);
            session.answer("making the nodes above those of locks", made).await?;
        }
    }
    Ok(())
}

/// As `mkdir -p`, the last first: nobody needs rights above what is there. The first `above` bytes of the path are above the chroot, where
/// others may have nodes beside ours, and take nothing away.
async fn mkdir(client: &Link, path: &str, above: usize, acl: &[Acl]) -> Result<(), Error> {
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
