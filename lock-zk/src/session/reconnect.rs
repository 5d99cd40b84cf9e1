//! Bringing a session back that has lost its connection.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use lock_core::{BackOff, BackendErrorKind as Kind, BootTime, Entropy, Keeper, SystemEntropy};
use zookeeper_client::Error;

use super::{pool::Pool, session::Session};
use crate::{
    client::{Ensemble, ReconnectingClient, timeout_at},
    error::{Cause, Failure},
};

/// The time between two tries where a server answered, and could not go on with the session. Where none answered, it is that of the
/// circuit breaker.
const BACK_OFF: BackOff = BackOff { least: Duration::from_millis(50), most: Duration::from_secs(1) };

/// Makes a connection for a session whose client has none, and goes on with that; unless the session is over before, or the
/// ensemble says that it is. It keeps nothing of whoever has the session: to drop a pool ends its sessions, also while one is brought
/// back.
///
/// ### To ensure correctness
/// First a server is looked for, without a word about the session: one that serves, if there are several, and that gives sessions of the
/// timeout that this one has. The ensemble goes by what the last server gave, and the answer to that may be lost: so a server of which it
/// is not known shows it on another session. What was sent on the connection before has been decided when something is answered on the new one (PR08): a server
/// takes nothing more from a connection when the session has moved on.
///
/// The new client attaches to the session by number and password, and says nothing of what it has seen: so it
/// is not turned away by servers that have lost their data, but told that there is no such session. That could be a server that
/// lags behind as well, or one that is cut off (F3). So the connection is used only when a write on it was answered: then the
/// server has seen all that we have. Whoever was asked for the session on this connection leads, or led by a leader that does, so
/// that its end was moved where it counts: a server that follows another leader, or none, closes its connections.
pub(super) async fn reconnect(pool: &Weak<Pool>, ensemble: &Ensemble, keeper: &Keeper, session: &Session) {
    tokio::select! {
        biased;
        () = session.ended() => {}
        _ = timeout_at(keeper, session.lives_until(), attach(pool, ensemble, keeper, session)) => {}
    }
}

async fn attach(pool: &Weak<Pool>, ensemble: &Ensemble, keeper: &Keeper, session: &Session) {
    let mut failures = 0;
    loop {
        match attach_once(ensemble, keeper, session).await {
            Ok((client, attached)) => {
                tracing::debug!(session = %format_args!("{:#x}", session.id), "a zookeeper session has a connection again");
                // Who holds a lock does not look after what he watched as he waited, and what is watched keeps its client.
                if let Some(pool) = pool.upgrade() {
                    pool.members_of(session).iter().for_each(|member| member.clear_deletion_watch());
                }
                return session.switch_to(&client, attached);
            }
            // The same would be said of the next one.
            Err(failure) if failure.is_end_of_session() || *failure.kind() == Kind::Denied => {
                session.end();
                return;
            }
            Err(failure) => {
                tracing::debug!(session = %format_args!("{:#x}", session.id), "a zookeeper session has no connection yet: {failure}");
            }
        }
        failures += 1;
        let pause = BACK_OFF.pause(failures, SystemEntropy.bits() as u64);
        keeper.sleep_until(ensemble.retry_at(pause)).await;
    }
}

/// The new client, and when it asked for the session: whoever attaches to one counts its timeout anew.
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
    let written = timeout_at(keeper, sent + limit, client.set_data(&session.heartbeat_node, &[])).await;
    let failure = match written {
        // Without the node: somebody deleted it, and the next heartbeat makes it again. Without the right to write to it: that was
        // answered as well, and somebody may give it back in time.
        Some(Ok(_) | Err(Error::NoNode | Error::NoAuth)) => return Ok((client, attached)),
        // To another connection of ours: what is in doubt is which one came last.
        Some(Err(error @ Error::SessionMoved)) => Failure::new(Kind::Unreachable, error.to_string()),
        Some(Err(error)) => Failure::of(&error),
        None => Failure::timed_out("a heartbeat", limit),
    };
    if failure.cause() != Cause::SessionGone {
        // To drop it as it is would close the session.
        client.detach();
    }
    Err(failure)
}

/// A server that gave sessions as long as this one has lowered its limit since, or another one has its address: the session is over earlier
/// than whoever relies on it was told. So all of them lose it now, long before the ensemble ends it, and nobody closes it before they
/// know.
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
