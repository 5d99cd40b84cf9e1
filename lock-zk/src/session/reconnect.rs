//! Reconnects a session that has lost its connection.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use lock_core::{BackOff, BackendErrorKind as Kind, BootTime, Entropy, Keeper, SystemEntropy, isolate};
use zookeeper_client::Error;

use super::{pool::Pool, session::Session};
use crate::{
    client::{Ensemble, ReconnectingClient},
    error::{Cause, Failure},
};

/// The time between two attempts if a server answered but could not continue the session. If none answered, the circuit breaker
/// decides when the next attempt begins.
const BACK_OFF: BackOff = BackOff { least: Duration::from_millis(50), most: Duration::from_secs(1) };

/// Makes a new connection for a session that has none, and continues the session on it, unless the session ends before or the ensemble says
/// that it has ended. This does not keep the pool alive: dropping a pool ends its sessions, even while one is being reconnected.
///
/// ### To ensure correctness
/// First it looks for a server without naming the session: one that serves, if there are several, and that grants sessions of the timeout
/// that this one has. The ensemble uses the timeout that the last server granted, and that answer may be lost. So a server whose limit is
/// unknown is tried with another session first. Requests on the former connection have been decided when a request on the new one is
/// answered (PR08): a server accepts nothing more from a connection once the session has moved.
///
/// The new client attaches to the session by id and password, and does not say which transactions it has seen. So servers that have lost
/// their data do not reject it, but say that there is no such session. A server that lags behind or is cut off may say so as well (F3).
/// So the connection is used only after a write on it was answered: then the server has seen all that this session has seen. The write
/// went through the current leader, or one before it, so the session was extended at the leader that counts: a server that follows another
/// leader, or none, closes its connections.
pub(super) async fn reconnect(
    pool: &Weak<Pool>,
    ensemble: &Ensemble,
    keeper: &Keeper,
    session: &Arc<Session>,
) {
    tokio::select! {
        biased;
        () = session.ended() => {}
        _ = keeper.timeout_at(session.lives_until(), attach(pool, ensemble, keeper, session)) => {}
    }
}

async fn attach(pool: &Weak<Pool>, ensemble: &Ensemble, keeper: &Keeper, session: &Arc<Session>) {
    let mut failures = 0;
    loop {
        match attach_once(ensemble, keeper, session).await {
            Ok((client, attached)) => {
                isolate(|| {
                    tracing::debug!(session = %format_args!("{:#x}", session.id), "a zookeeper session has a connection again");
                });
                // A holder does not remove the watches that it had as a waiter, and a watch keeps its client alive.
                if let Some(pool) = pool.upgrade() {
                    pool.sessions.members_of(session).iter().for_each(|member| member.clear_deletion_watch());
                }
                return session.switch_to(&client, attached);
            }
            // The next attempt would fail in the same way.
            Err(failure) if failure.is_end_of_session() || *failure.kind() == Kind::Denied => {
                session.end();
                return;
            }
            Err(failure) => {
                isolate(|| {
                    tracing::debug!(session = %format_args!("{:#x}", session.id), "a zookeeper session has no connection yet: {failure}");
                });
            }
        }
        failures += 1;
        let pause = BACK_OFF.pause(failures, SystemEntropy.bits() as u64);
        keeper.sleep_until(ensemble.retry_at(pause)).await;
    }
}

/// The new client, and when it attached to the session: from then on the timeout counts anew.
async fn attach_once(
    ensemble: &Ensemble,
    keeper: &Keeper,
    session: &Session,
) -> Result<(Arc<ReconnectingClient>, BootTime), Failure> {
    let granted = session.granted();
    let too_short = || Failure::new(Kind::Unreachable, format!("no server gives sessions of {granted:?}"));
    let endpoint = ensemble.endpoint_for(granted).await.ok_or_else(too_short)?;
    if !ensemble.grants(endpoint, granted).await? {
        return Err(too_short());
    }
    let attached = keeper.now();
    let client = ensemble.attach(granted, session.info.clone(), endpoint).await?;
    if client.session_timeout() < granted {
        return Err(abandon(ensemble, session, &client, attached));
    }
    let (sent, limit) = (keeper.now(), ensemble.answer_limit(granted));
    let written = keeper.timeout_at(sent + limit, client.set_data(&session.heartbeat_node, &[])).await;
    let failure = match written {
        // `NoNode`: the node was deleted, and the next heartbeat makes it again. `NoAuth`: this is an answer as well, and the right may
        // be given back in time.
        Some(Ok(_) | Err(Error::NoNode | Error::NoAuth)) => return Ok((client, attached)),
        // The session has moved to another connection, and it is unknown which one came last.
        Some(Err(error @ Error::SessionMoved)) => Failure::new(Kind::Unreachable, error.to_string()),
        Some(Err(error)) => Failure::of(&error),
        None => Failure::timed_out("a heartbeat", limit),
    };
    if failure.cause() != Cause::SessionGone {
        // Without this, dropping the client would close the session.
        client.detach();
    }
    Err(failure)
}

/// A server that granted sessions as long as this one has lowered its limit since, or another server has its address: the session ends
/// earlier than holders were told. So they lose their locks now, long before the ensemble ends the session, and the session is not closed
/// before they know.
fn abandon(
    ensemble: &Ensemble,
    session: &Session,
    client: &ReconnectingClient,
    attached: BootTime,
) -> Failure {
    let (id, granted, given) = (session.id, session.granted(), client.session_timeout());
    ensemble.log.note("shortened", move |times| {
        tracing::warn!(
            session = %format_args!("{id:#x}"),
            times,
            "a zookeeper server gives sessions of {given:?}, where one of {granted:?} had been given: all locks of that are lost"
        );
    });
    client.detach();
    session.abandon(attached + given / 2);
    Failure::session_gone()
}
