//! Opening a session.

use std::{sync::Arc, time::Duration};

use lock_core::{BackendErrorKind as Kind, ForkDetector};
use tokio::sync::watch;

use super::{
    base_nodes::make_heartbeat_node,
    evictions,
    pool::{OpenTask, Pool, SessionClass},
    session::Session,
    task,
};
use crate::error::Failure;

/// With fewer ticks, a session is never known to live.
const LEAST_TICKS: u32 = 4;

/// Opens a session on the keeper, which drives it from then on. Everything that needs one waits for the same task.
pub(super) fn open(pool: &Arc<Pool>, class: &mut SessionClass, timeout: Duration) -> OpenTask {
    let (done, opening) = watch::channel(None);
    class.opening = Some(opening.clone());
    let pool_for_task = Arc::downgrade(pool);
    pool.keeper.spawn(async move {
        let Some(pool) = pool_for_task.upgrade() else { return };
        // If this fails, nothing was created in any queue: for an entry, its request is *unsent*.
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
        // Perhaps nothing waits for it any more.
        let _ = done.send(Some(opened));
    });
    opening
}

/// The process that first opened a session. The client polls its sockets on a thread of that process, which does not exist in a
/// fork.
static OPENED: ForkDetector = ForkDetector::new();

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
    let client = pool.ensemble.open(timeout).await?;
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
        // Its entries would be gone at once, again and again.
        let failure = Failure::new(Kind::TimedOut, "a session was over before it was opened");
        return Err(failure.about(&pool.config.to_string()));
    }
    tracing::debug!(session = %format_args!("{:#x}", session.id), asked = ?timeout, granted = ?granted, "zookeeper session opened");
    Ok(session)
}
