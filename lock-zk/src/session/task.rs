//! What the keeper does for a session.
//!
//! It proves that the session lives. And because a shared session keeps everything under it alive, it takes away what should be
//! dead (PR09): members whose own time is over, and nodes that nobody knows.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{
    future::{BoxFuture, join_all},
    stream::{FuturesUnordered, StreamExt},
};
use lock_core::{BackendErrorKind as Kind, BootTime};
use zookeeper_client::{SessionState, Stat, StateWatcher};

use super::{
    base_nodes::make_heartbeat_node, pool::Pool, reap::reap, reconnect::reconnect, session::Session,
};
use crate::error::{Cause, Failure};

/// How often members are looked at whose time may be over.
const SWEEP: Duration = Duration::from_millis(500);

/// How often the nodes of a session are compared with its members: at each so manyth heartbeat.
const INSPECT: u32 = 8;

/// How long a session that nobody has a slot in is kept for the next one.
const IDLE: Duration = Duration::from_secs(60);

/// The least time from one connection to the next where the first was of no use: a server may end each at once.
const PAUSE: Duration = Duration::from_millis(250);

/// Keeps a session until it has ended or nobody needs it.
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
    /// What was asked for.
    timeout: Duration,
    /// What its client tells of its connection.
    states: StateWatcher,
    /// Heartbeats that are not answered, nor late.
    heartbeats: FuturesUnordered<BoxFuture<'static, Result<Stat, Failure>>>,
    /// Not before then, after a heartbeat that failed.
    next_retry: BootTime,
    /// How many heartbeats were answered.
    answered: u32,
    /// Not before then, after a connection that was of no use.
    next_connect: BootTime,
}

impl SessionTask {
    fn on_state(&mut self, state: SessionState) {
        // Whether there is a connection is looked at in each round.
        if state.is_terminated() {
            self.session.end();
        }
    }

    /// Does what is due. What to wait for then, or `None` if the session is over.
    async fn round(&mut self, weak: &Weak<Pool>) -> Option<lock_core::Sleep> {
        // Whoever drops the pool closes its sessions.
        let mut pool = weak.upgrade()?;
        let session = Arc::clone(&self.session);
        let now = pool.keeper.now();
        if !session.is_alive(now) {
            return self.finish(&pool);
        }
        if session.close_if_idle(IDLE, now) {
            self.remove(&pool);
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

    /// Sends a heartbeat. The next one may be due before its answer is there.
    fn heartbeat(&self, pool: &Arc<Pool>) {
        // So that several tries fit between the first and the deadline.
        let limit = (self.session.granted() / 6).min(pool.config.command_timeout);
        let (heartbeat, session, pool) =
            (self.session.heartbeat(limit), Arc::clone(&self.session), Arc::downgrade(pool));
        self.heartbeats.push(Box::pin(async move {
            match (heartbeat.await, pool.upgrade()) {
                // Somebody deleted the node. To make it again is a proof as well.
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
                // The answer that did not come in time was waited for long enough.
                if *failure.kind() != Kind::TimedOut {
                    let pause =
                        (session.granted() / 20).clamp(Duration::from_millis(20), Duration::from_secs(1));
                    self.next_retry = pool.keeper.now() + pause;
                }
            }
        }
    }

    fn finish(&self, pool: &Arc<Pool>) -> Option<lock_core::Sleep> {
        self.remove(pool);
        self.session.end();
        pool.notify_members(&self.session);
        reap(pool, &self.session);
        None
    }

    fn remove(&self, pool: &Pool) {
        let mut registry = pool.lock();
        if let Some(class) = registry.classes.get_mut(&self.timeout) {
            class.sessions.retain(|known| !Arc::ptr_eq(known, &self.session));
        }
    }
}

/// Leaves for members whose time is over: nobody refreshed them, and nobody left for them. Not in the way of heartbeats.
fn sweep(pool: &Arc<Pool>, session: &Arc<Session>) {
    let now = pool.keeper.now();
    let overdue: Vec<_> =
        pool.members_of(session).into_iter().filter(|member| member.is_overdue(now)).collect();
    if overdue.is_empty() || !session.try_begin_sweep() {
        return;
    }
    let (pool, session) = (Arc::clone(pool), Arc::clone(session));
    pool.keeper.clone().spawn(async move {
        for some in overdue.chunks(64) {
            let left = join_all(some.iter().map(|member| pool.remove_entry(member))).await;
            // What failed is tried again at the next look.
            if let Some(failure) = left.iter().find_map(|left| left.as_ref().err()) {
                tracing::debug!("an entry that is over is not gone yet: {failure}");
                break;
            }
        }
        session.end_sweep();
    });
}

/// Deletes what the session keeps alive and nobody knows: there should be none.
fn inspect(pool: &Arc<Pool>, session: &Arc<Session>) {
    let (pool, session) = (Arc::clone(pool), Arc::clone(session));
    pool.keeper.clone().spawn(async move {
        let Ok(client) = session.client() else { return };
        let locks = pool.keys.locks();
        let Ok(paths) = session.answer("an inspection", client.list_ephemerals(&locks)).await else { return };
        for path in paths {
            // Looked up only now: whoever came meanwhile was known before its node was there.
            if pool.keys.entry_at(&path).is_some_and(|entry| !pool.is_member_of(entry, &session)) {
                // What fails is found again at the next inspection.
                drop(session.write("an inspection", client.delete(&path)).await);
                pool.ensemble.log.note("unknown", move |times| {
                    tracing::warn!(%path, times, "an entry that nobody knows is deleted");
                });
            }
        }
    });
}
