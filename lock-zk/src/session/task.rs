//! [`SessionTask`]: the keeper's task for a session.
//!
//! It proves the session alive. And because a shared session keeps all its nodes alive, it removes what should have ended (PR09): members
//! whose own time is over, and nodes that belong to no member.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use lock_core::{BackendErrorKind as Kind, BootTime, session_pool::sweep};
use zookeeper_client::{SessionState, Stat, StateWatcher};

use super::{
    base_nodes::make_heartbeat_node, pool::Pool, reap::reap, reconnect::reconnect, session::Session,
};
use crate::error::{Cause, Failure};

/// How often members are checked for whether their time is over.
const SWEEP: Duration = Duration::from_millis(500);

/// The nodes of a session are compared with its members after this many heartbeats.
const INSPECT: u32 = 8;

/// How long a session without members is kept for the next one.
const IDLE: Duration = Duration::from_secs(60);

/// The minimum time between a connection that turned out unusable and the next one: a server may end each one at once.
const PAUSE: Duration = Duration::from_millis(250);

/// Keeps a session until it has ended or has long been idle.
pub(super) fn start(pool: &Arc<Pool>, session: Arc<Session>, timeout: Duration) {
    let weak = Arc::downgrade(pool);
    let now = pool.keeper.now();
    let Ok(states) = session.states() else { return };
    let heartbeats = FuturesUnordered::new();
    let mut task =
        SessionTask { session, timeout, states, heartbeats, next_retry: now, answered: 0, next_connect: now };
    pool.keeper.spawn(async move {
        while let Some(next) = task.round(&weak).await {
            tokio::select! {
                () = next => {}
                () = task.session.ended() => {}
                () = task.session.heartbeat_answered() => {}
                Some(heartbeat) = task.heartbeats.next() => task.on_heartbeat(&weak, heartbeat),
                state = task.states.changed() => task.on_state(state),
            }
        }
    });
}

struct SessionTask {
    session: Arc<Session>,
    /// The requested timeout.
    timeout: Duration,
    /// Reports changes of the client's connection.
    states: StateWatcher,
    /// The heartbeats that are neither answered nor late.
    heartbeats: FuturesUnordered<BoxFuture<'static, Result<Stat, Failure>>>,
    /// After a failed heartbeat, the next one is not sent before this time.
    next_retry: BootTime,
    /// The number of answered heartbeats.
    answered: u32,
    /// After an unusable connection, the next one is not made before this time.
    next_connect: BootTime,
}

impl SessionTask {
    fn on_state(&mut self, state: SessionState) {
        // Each round checks whether there is a connection.
        if state.is_terminated() {
            self.session.end();
        }
    }

    /// Does what is due. Returns how long to wait then, or `None` if the session has ended.
    async fn round(&mut self, weak: &Weak<Pool>) -> Option<lock_core::Sleep> {
        // Dropping the pool closes its sessions.
        let mut pool = weak.upgrade()?;
        let session = Arc::clone(&self.session);
        let now = pool.keeper.now();
        if !session.is_alive(now) {
            return self.finish(&pool);
        }
        if pool.sessions.close_if_idle(&session, IDLE) {
            session.close();
            pool.sessions.remove(&session, self.timeout);
            session.end_confirmed.send_replace(true);
            return None;
        }
        if !session.is_connected() {
            if now < self.next_connect && !session.connection_works() {
                return Some(pool.keeper.sleep_until(self.next_connect.min(session.lives_until())));
            }
            let (ensemble, keeper) = (pool.ensemble.clone(), pool.keeper.clone());
            drop(pool);
            reconnect(weak, &ensemble, &keeper, &session).await;
            pool = weak.upgrade()?;
            let Ok(states) = session.states() else { return self.finish(&pool) };
            self.states = states;
            self.next_connect = pool.keeper.now() + PAUSE;
        }
        if pool.keeper.now() >= self.next_retry.max(session.next_heartbeat()) {
            self.heartbeat(&pool);
        }
        sweep(&pool, &session);
        let next = self.next_retry.max(session.next_heartbeat()).min(session.lives_until());
        Some(pool.keeper.sleep_until(next.min(pool.keeper.now() + SWEEP)))
    }

    /// Sends a heartbeat. The next one may be due before it is answered.
    fn heartbeat(&self, pool: &Arc<Pool>) {
        // So that several attempts fit between the first one and the deadline.
        let limit = (self.session.granted() / 6).min(pool.config.server.command_timeout);
        let (heartbeat, session, pool) =
            (self.session.heartbeat(limit), Arc::clone(&self.session), Arc::downgrade(pool));
        self.heartbeats.push(Box::pin(async move {
            match (heartbeat.await, pool.upgrade()) {
                // The node was deleted. Creating it again is a proof as well.
                (Err(failure), Some(pool)) if failure.cause() == Cause::NoNode => {
                    make_heartbeat_node(&pool, &session).await
                }
                (heartbeat, _) => heartbeat,
            }
        }));
    }

    fn on_heartbeat(&mut self, pool: &Weak<Pool>, heartbeat: Result<Stat, Failure>) {
        let (session, Some(pool)) = (&self.session, pool.upgrade()) else { return };
        match heartbeat {
            Ok(_) => {
                self.answered += 1;
                if self.answered.is_multiple_of(INSPECT) {
                    inspect(&pool, session);
                }
            }
            Err(failure) => {
                let (id, why) = (session.id, failure.clone());
                pool.ensemble.log.note("not proved alive", move |times| {
                    tracing::warn!(session = %format_args!("{id:#x}"), times, "a zookeeper session is not proved alive: {why}");
                });
                // A timeout was enough of a pause.
                if *failure.kind() != Kind::TimedOut {
                    let pause =
                        (session.granted() / 20).clamp(Duration::from_millis(20), Duration::from_secs(1));
                    self.next_retry = pool.keeper.now() + pause;
                }
            }
        }
    }

    fn finish(&self, pool: &Arc<Pool>) -> Option<lock_core::Sleep> {
        pool.sessions.remove(&self.session, self.timeout);
        self.session.end();
        pool.notify_members(&self.session);
        reap(pool, &self.session);
        None
    }
}

/// Deletes nodes that the session keeps alive and that belong to no member. There should be none.
fn inspect(pool: &Arc<Pool>, session: &Arc<Session>) {
    let (pool, session) = (Arc::clone(pool), Arc::clone(session));
    pool.keeper.clone().spawn(async move {
        let Ok(client) = session.client() else { return };
        let locks = pool.keys.locks();
        let Ok(paths) = session.answer("an inspection", client.list_ephemerals(&locks)).await else { return };
        for path in paths {
            // Looked up only now: a new entry is a member before its node is created.
            if pool.keys.entry_at(&path).is_some_and(|entry| !pool.sessions.is_member_of(entry, &session)) {
                // If the delete fails, the next inspection finds the node again.
                drop(session.write("an inspection", client.delete(&path)).await);
                pool.ensemble.log.note("unknown", move |times| {
                    tracing::warn!(%path, times, "an entry that nobody knows is deleted");
                });
            }
        }
    });
}
