//! Opens sessions.

use std::{sync::Arc, time::Duration};

use lock_core::{BackendErrorKind as Kind, BootTime, ForkDetector, isolate};

use super::{base_nodes::make_heartbeat_node, pool::Pool, session::Session};
use crate::{client::ReconnectingClient, error::Failure};

/// With fewer ticks, a session can never be proved alive.
const LEAST_TICKS: u32 = 4;

/// The process that first opened a session. The client polls its sockets on a thread of that process, which does not exist in a
/// fork.
static OPENED: ForkDetector = ForkDetector::new();

fn check_fork() -> Result<(), Failure> {
    if OPENED.is_this() {
        return Ok(());
    }
    Err(Failure::new(
        Kind::Unsupported,
        "this process was forked from one that had opened a session, and lacks a thread of that process; connect only in the \
         forks, or execute a program there",
    )
    .advised())
}

/// Opens a session on the current runtime, which has to be the keeper's: the client's tasks run there.
///
/// A server may grant a session and then not answer for a while. The session is then over before it can be used, or its connection is given
/// up while its node is created. In that case, another session is opened, once: the server may go on, and an ensemble has other servers. The
/// second attempt ends when the time to connect and the time for a command are over.
pub(super) async fn open(pool: &Pool, timeout: Duration) -> Result<Arc<Session>, Failure> {
    check_fork()?;
    let (sent, limits) = (pool.keeper.now(), &pool.config.server);
    let until = sent + limits.connect_timeout + limits.command_timeout;
    let client = pool.ensemble.open(timeout).await?;
    let opened = match prepare(pool, client, sent).await {
        Err(failure) if failure.is_of_connection() => {
            isolate(|| tracing::debug!("another zookeeper session is opened: {failure}"));
            let again = async {
                let sent = pool.keeper.now();
                prepare(pool, pool.ensemble.open(timeout).await?, sent).await
            };
            pool.keeper.timeout_at(until, again).await.unwrap_or(Err(failure))
        }
        opened => opened,
    };
    if let Ok(session) = &opened {
        isolate(|| {
            tracing::debug!(session = %format_args!("{:#x}", session.id), asked = ?timeout, granted = ?session.granted(), "zookeeper session opened");
        });
    }
    opened
}

/// The session of a client that was asked for at `sent`, with its node.
async fn prepare(
    pool: &Pool,
    client: Arc<ReconnectingClient>,
    sent: BootTime,
) -> Result<Arc<Session>, Failure> {
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
        // The entries of such a session would be gone immediately, each time.
        let failure = Failure::new(Kind::TimedOut, "a session was over before it was opened");
        return Err(failure.about(&pool.config.to_string()));
    }
    Ok(session)
}
