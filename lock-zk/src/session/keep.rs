//! What the keeper does for a session.
//!
//! It proves that the session lives. And because a shared session keeps everything under it alive, it takes away what should be
//! dead (PR09): members whose own time is over, and nodes that nobody knows.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::join_all;
use lock_core::{BackOff, BackendErrorKind as Kind, BootTime, Entropy, SystemEntropy};

use zookeeper_client::SessionState;

use super::{Pool, Session, class, open::make_heart};
use crate::{
    connection::by,
    error::{Cause, Failure},
};

/// How often members are looked at whose time may be over.
const SWEEP: Duration = Duration::from_millis(500);

/// How often the nodes of a session are compared with its members: at each so manyth heartbeat.
const INSPECT: u32 = 8;

/// How long a session without members is kept for the next one.
const IDLE: Duration = Duration::from_secs(60);

/// How long a connection may be away before the session is asked for over another one.
const INQUEST: Duration = Duration::from_millis(500);

/// How often it is looked meanwhile whether the client is back.
const GLANCE: Duration = Duration::from_millis(5);

const BACK_OFF: BackOff = BackOff { least: Duration::from_millis(50), most: Duration::from_secs(5) };

/// Keeps a session until it has ended or nobody needs it.
pub(super) fn start(pool: &Arc<Pool>, session: Arc<Session>, timeout: Duration) {
    let weak = Arc::downgrade(pool);
    let now = pool.keeper.now();
    let Ok(mut states) = session.states() else { return };
    let mut care = Care { session, timeout, retry: now, used: now, beats: 0, inquest: None };
    pool.keeper.spawn(async move {
        while let Some(next) = care.round(&weak).await {
            tokio::select! {
                () = next => {}
                () = care.session.ended() => {}
                state = states.changed() => care.hears_of(state),
            }
        }
    });
}

struct Care {
    session: Arc<Session>,
    /// What was asked for.
    timeout: Duration,
    /// Not before then, after a heartbeat that failed.
    retry: BootTime,
    /// When it last had a member.
    used: BootTime,
    beats: u32,
    /// How long it has been without a connection. Asked elsewhere then.
    inquest: Option<Inquest>,
}

/// A connection was lost.
enum Inquest {
    /// Just now: mostly there is another at once.
    New,
    At(BootTime),
}

impl Care {
    fn hears_of(&mut self, state: SessionState) {
        match state {
            SessionState::Disconnected => self.inquest = Some(Inquest::New),
            SessionState::Expired | SessionState::Closed | SessionState::AuthFailed => {
                drop(self.session.end());
            }
            _ => self.inquest = None,
        }
    }

    /// Does what is due. What to wait for then, or `None` if the session is over.
    async fn round(&mut self, pool: &Weak<Pool>) -> Option<lock_core::Sleep> {
        // Whoever drops the pool closes its sessions.
        let pool = pool.upgrade()?;
        let session = Arc::clone(&self.session);
        let now = pool.keeper.now();
        if !session.is_alive(now) {
            return self.over(&pool);
        }
        if !session.members().is_empty() {
            self.used = now;
        } else if now.since(self.used) >= IDLE && session.close_if_empty() {
            self.remove(&pool);
            session.over.send_replace(true);
            return None;
        }
        if now >= self.retry.max(session.next_beat(pool.config.tick)) {
            self.beat(&pool).await;
            if !session.is_alive(pool.keeper.now()) {
                return self.over(&pool);
            }
        }
        if let Some(inquest) = self.inquest.take() {
            self.inquest = match inquest {
                Inquest::New => Some(Inquest::At(now + INQUEST)),
                Inquest::At(when) if when <= now => {
                    self.inquire(&pool).await.then(|| Inquest::At(pool.keeper.now() + INQUEST))
                }
                later @ Inquest::At(_) => Some(later),
            };
            if session.has_ended() {
                return self.over(&pool);
            }
        }
        sweep(&pool, &session);
        let next = self.retry.max(session.next_beat(pool.config.tick)).min(session.lives_until());
        Some(pool.keeper.sleep_until(next.min(pool.keeper.now() + SWEEP)))
    }

    async fn beat(&mut self, pool: &Arc<Pool>) {
        let session = &self.session;
        // So that several tries fit between the first and the deadline.
        let limit = (session.granted() / 6).min(pool.config.command_timeout);
        let mut beat = session.beat(limit).await;
        if beat.as_ref().is_err_and(|failure| failure.cause() == Cause::NoNode) {
            // Somebody deleted the node. To make it again is a proof as well.
            beat = make_heart(pool, session).await;
        }
        match beat {
            Ok(_) => {
                self.beats += 1;
                if self.beats.is_multiple_of(INSPECT) {
                    inspect(pool, session);
                }
            }
            Err(failure) => {
                tracing::warn!(session = %format_args!("{:#x}", session.id), "a zookeeper session is not proved alive: {failure}");
                // The answer that did not come in time was waited for long enough.
                if *failure.kind() != Kind::TimedOut {
                    let pause =
                        (session.granted() / 20).clamp(Duration::from_millis(20), Duration::from_secs(1));
                    self.retry = pool.keeper.now() + pause;
                }
            }
        }
    }

    /// Asks whether the session is there, over another connection: servers that have lost their data refuse a client that has seen
    /// more than they have, over and over. True if it is still without a connection.
    async fn inquire(&self, pool: &Arc<Pool>) -> bool {
        let session = &self.session;
        let back = async {
            while !session.is_connected() {
                pool.keeper.sleep_until(pool.keeper.now() + GLANCE).await;
            }
        };
        tokio::select! {
            biased;
            () = back => return false,
            over = by(&pool.keeper, session.lives_until(), Box::pin(is_over_elsewhere(pool, session))) => {
                if over.unwrap_or_default() {
                    session.end();
                }
            }
        }
        !session.is_connected()
    }

    fn over(&self, pool: &Arc<Pool>) -> Option<lock_core::Sleep> {
        self.remove(pool);
        pool.bell.ring(self.session.end());
        bury(pool, &self.session);
        None
    }

    fn remove(&self, pool: &Pool) {
        let mut book = pool.lock();
        if let Some(class) = book.classes.get_mut(&self.timeout) {
            class.sessions.retain(|known| !Arc::ptr_eq(known, &self.session));
        }
    }
}

/// Leaves for members whose time is over: nobody refreshed them, and nobody left for them. Not in the way of heartbeats.
fn sweep(pool: &Arc<Pool>, session: &Arc<Session>) {
    let now = pool.keeper.now();
    let overdue: Vec<_> = session.members().into_iter().filter(|member| member.is_overdue(now)).collect();
    if overdue.is_empty() || !session.starts_sweep() {
        return;
    }
    let (pool, session) = (Arc::clone(pool), Arc::clone(session));
    pool.keeper.clone().spawn(async move {
        for some in overdue.chunks(64) {
            let left = join_all(some.iter().map(|member| pool.take_out(member))).await;
            // What failed is tried again at the next look.
            if let Some(failure) = left.iter().find_map(|left| left.as_ref().err()) {
                tracing::debug!("an entry that is over is not gone yet: {failure}");
                break;
            }
        }
        session.ends_sweep();
    });
}

/// Deletes what the session keeps alive and nobody knows: there should be none.
fn inspect(pool: &Arc<Pool>, session: &Arc<Session>) {
    let (pool, session) = (Arc::clone(pool), Arc::clone(session));
    pool.keeper.clone().spawn(async move {
        let Ok(client) = session.client() else { return };
        let locks = pool.nodes.locks();
        let Ok(paths) = session.answer("an inspection", client.list_ephemerals(&locks)).await else { return };
        for path in paths {
            // Looked up only now: whoever came meanwhile was known before its node was there.
            if pool.nodes.entry_at(&path).is_some_and(|entry| !session.has(entry)) {
                tracing::warn!(%path, "an entry that nobody knows is deleted");
                // What fails is found again at the next inspection.
                drop(session.write("an inspection", client.delete(&path, None)).await);
            }
        }
    });
}

/// Ends a session that is over, until the ensemble says that it is: what stands under it must not live on, and may not be called
/// gone before. The client does not tell whether a session was closed; so it is opened again by its password, until that is
/// refused.
fn bury(pool: &Arc<Pool>, session: &Arc<Session>) {
    let (weak, session) = (Weak::clone(&pool.this), Arc::clone(session));
    pool.keeper.spawn(async move {
        let mut failures = 0;
        loop {
            let Some(pool) = weak.upgrade() else { return };
            match confirm_over(&pool, &session).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(failure) => {
                    tracing::debug!(session = %format_args!("{:#x}", session.id), "the end of a session is not confirmed yet: {failure}");
                }
            }
            failures += 1;
            let pause = BACK_OFF.pause(failures, SystemEntropy.bits() as u64);
            let pause = pool.keeper.sleep_until(pool.keeper.now() + pause);
            drop(pool);
            pause.await;
        }
    });
}

/// Whether the ensemble says that a session is over whose client is away. A server drops one connection of a session for another: to
/// ask by the session itself would take the connection from a client that is back by now, and leave in doubt what was sent on it. So
/// somebody else looks first whether the node of its heartbeats is there.
async fn is_over_elsewhere(pool: &Pool, session: &Session) -> bool {
    let Ok(other) = pool.route.open(class::timeout(Duration::ZERO, pool.config.tick)).await else {
        return false;
    };
    let limit = pool.keeper.now() + pool.config.command_timeout;
    let heart = by(&pool.keeper, limit, other.check_stat(&session.heart)).await;
    if !matches!(heart, Some(Ok(None))) {
        return false;
    }
    // Anybody may have deleted the node. The session is given back as it is.
    let attached = pool.route.attach(session.granted(), session.info.clone(), true);
    attached.await.is_err_and(|failure| is_over(&failure))
}

/// Whether the ensemble says that a session which was ended here is over. If not, it is closed from another connection.
pub(super) async fn confirm_over(pool: &Pool, session: &Session) -> Result<bool, Failure> {
    let attached = pool.route.attach(session.granted(), session.info.clone(), false);
    match attached.await {
        // To drop it closes the session.
        Ok(client) => {
            drop(client);
            Ok(false)
        }
        Err(failure) if is_over(&failure) => {
            for member in session.members() {
                pool.forget(&member);
            }
            session.over.send_replace(true);
            Ok(true)
        }
        Err(failure) => Err(failure),
    }
}

/// Whether it is the ensemble's own word that a session that was to be attached to is not there.
fn is_over(failure: &Failure) -> bool {
    failure.cause() == Cause::SessionGone && *failure.kind() != Kind::Denied
}
