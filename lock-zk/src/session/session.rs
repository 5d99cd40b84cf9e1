//! [`Session`]: keeps entries alive, and knows until when it is proved alive.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use lock_core::{
    BackendErrorKind as Kind, BootTime, Keeper, margin,
    session_pool::PooledSession,
    sync::{Mutex, MutexGuard},
};
use tokio::sync::{Notify, oneshot, watch};
use zookeeper_client::{Error, SessionInfo, Stat, StateWatcher};

use super::{
    heartbeat::Heartbeat,
    liveness::Liveness,
    read_permits::{ReadPermit, ReadPermits},
    settings::SessionSettings,
};
use crate::{
    client::ReconnectingClient,
    error::{Cause, Failure},
};

/// The outcome of an attempt to close a session, for all its callers: whether the session has ended.
pub(super) type CloseAttempt = watch::Receiver<Option<Result<bool, Failure>>>;

/// A session, on one connection at a time. The keeper drives it, so that no user's runtime can delay it.
///
/// ### To ensure correctness
/// It is valid only as long as writes that were carried out prove it alive: see [`Liveness`]. Neither pings nor reads count: a
/// server that is cut off from the others answers both (F3), and the client reports that a session has expired long after it did
/// (Z4). After its deadline the session is not used any more, and is closed until the ensemble confirms its end.
pub(crate) struct Session {
    pub(crate) id: i64,
    /// Includes the password, with which the session can be closed from another connection.
    pub(super) info: SessionInfo,
    /// The timeout that the ensemble granted.
    granted: Duration,
    /// The node that its heartbeats write.
    pub(super) heartbeat_node: String,
    keeper: Keeper,
    tick: Duration,
    command_timeout: Duration,
    pub(crate) address: Arc<str>,
    ended: Notify,
    /// Notified when a heartbeat is answered, because the next one may then be due earlier.
    heartbeat_answered: Notify,
    read_permits: ReadPermits,
    state: Mutex<State>,
    /// Whether the ensemble has confirmed that the session has ended and its nodes are gone.
    pub(super) end_confirmed: watch::Sender<bool>,
}

struct State {
    /// `None` once the session has ended.
    client: Option<Arc<ReconnectingClient>>,
    liveness: Liveness,
    /// Whether a write was carried out on the current connection.
    connection_works: bool,
    heartbeat: Heartbeat,
    /// The last attempt to close the session.
    attempt: Option<CloseAttempt>,
    /// The session must not be closed before this time.
    quiet_until: BootTime,
}

impl Session {
    pub(super) fn new(
        client: Arc<ReconnectingClient>,
        opened: BootTime,
        node: String,
        settings: SessionSettings,
    ) -> Self {
        let granted = client.session_timeout();
        Self {
            id: client.session().id().0,
            info: client.session().clone(),
            granted,
            heartbeat_node: node,
            keeper: settings.keeper,
            tick: settings.tick,
            command_timeout: settings.command_timeout,
            address: settings.address,
            ended: Notify::new(),
            heartbeat_answered: Notify::new(),
            read_permits: ReadPermits::new(),
            state: Mutex::new(State {
                liveness: Liveness::new(settings.tick, granted, opened),
                connection_works: false,
                heartbeat: Heartbeat::new(settings.tick, granted, opened),
                attempt: None,
                quiet_until: opened,
                client: Some(client),
            }),
            end_confirmed: watch::Sender::new(false),
        }
    }

    /// The timeout that the ensemble granted.
    pub(crate) fn granted(&self) -> Duration {
        self.granted
    }

    /// The client for requests, until the session has ended.
    pub(crate) fn client(&self) -> Result<Arc<ReconnectingClient>, Failure> {
        self.lock().client.clone().ok_or_else(|| Failure::session_gone().about(&self.address))
    }

    /// The answer to a request, within the time limit for commands. The client has no limit of its own (Z4).
    pub(crate) async fn answer<T>(
        &self,
        doing: &str,
        request: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Failure> {
        self.answer_within(self.command_timeout, doing, request).await
    }

    pub(super) async fn answer_within<T>(
        &self,
        limit: Duration,
        doing: &str,
        request: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Failure> {
        let failure = match self.keeper.timeout_at(self.keeper.now() + limit, request).await {
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(error)) => Failure::of(&error).about(doing),
            None if self.is_connected() => Failure::timed_out(doing, limit),
            // The time limit is used up, and a repetition would wait as long again.
            None => {
                Failure::new(Kind::TimedOut, format!("{doing}: no server was connected within {limit:?}"))
            }
        };
        if failure.cause() == Cause::SessionGone {
            self.end();
        }
        Err(failure.about(&self.address))
    }

    /// Waits for a permit to read a queue. After too long a wait, the queue is read without one, unless the connection has ended: then all
    /// who waited would read at once on the next one.
    pub(crate) async fn read_permit(&self) -> Result<ReadPermit<'_>, Failure> {
        let permit = self.read_permits.take(&self.keeper, self.command_timeout).await;
        if permit.is_granted() || self.is_connected() {
            return Ok(permit);
        }
        Err(Failure::timed_out("a read permit", self.command_timeout).unsent().about(&self.address))
    }

    /// Sends a write. Its answer proves the session alive.
    pub(crate) async fn write<T>(
        &self,
        doing: &str,
        request: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Failure> {
        let sent = self.keeper.now();
        let answer = self.answer(doing, request).await?;
        self.mark_alive(sent);
        Ok(answer)
    }

    /// Records that a write that was sent at `sent` was just answered, and so was carried out.
    pub(crate) fn mark_alive(&self, sent: BootTime) {
        let now = self.keeper.now();
        let mut state = self.lock();
        state.connection_works = true;
        state.liveness.record(sent, now);
    }

    /// Whether a write was carried out on the current connection, or on the last one.
    pub(super) fn connection_works(&self) -> bool {
        self.lock().connection_works
    }

    /// Writes the heartbeat node, which proves the session alive. The request is sent immediately, and requests that are sent after it show
    /// the state at that time or later. A late answer counts as well, even if its caller was dropped: the server may always be slow.
    pub(crate) fn heartbeat(
        self: &Arc<Self>,
        limit: Duration,
    ) -> impl Future<Output = Result<Stat, Failure>> + Send + use<> {
        let (this, answer) = (Arc::clone(self), self.send_heartbeat());
        async move {
            let answer = answer?;
            let answer = async { answer.await.unwrap_or(Err(Error::Timeout)) };
            this.answer_within(limit, "a heartbeat", answer).await
        }
    }

    fn send_heartbeat(self: &Arc<Self>) -> Result<oneshot::Receiver<Result<Stat, Error>>, Failure> {
        let sent = self.keeper.now();
        if !self.is_alive(sent) {
            return Err(Failure::session_gone().about(&self.address));
        }
        let request = self.client()?.set_data(&self.heartbeat_node, &[]);
        self.lock().heartbeat.mark_sent(sent);
        let (done, answer) = oneshot::channel();
        let this = Arc::clone(self);
        self.keeper.spawn(async move {
            // A later answer proves nothing.
            let answered = this.keeper.timeout_at(sent + this.granted, request).await;
            if let Some(Ok(_)) = answered {
                this.mark_alive(sent);
                this.lock().heartbeat.mark_answered(sent, this.keeper.now());
                this.heartbeat_answered.notify_one();
            }
            // The caller may have been dropped.
            let _ = answered.map(|answered| done.send(answered));
        });
        Ok(answer)
    }

    /// When the next heartbeat is due.
    pub(super) fn next_heartbeat(&self) -> BootTime {
        let state = self.lock();
        state.heartbeat.next_due(&state.liveness)
    }

    /// Waits until a heartbeat is answered. Returns at once if one was answered since the last call.
    pub(super) async fn heartbeat_answered(&self) {
        self.heartbeat_answered.notified().await;
    }

    /// The session's deadline: until when it is certainly alive, less the margin.
    pub(super) fn lives_until(&self) -> BootTime {
        self.lock().liveness.end()
    }

    /// The deadline of an entry with this ttl that was refreshed by a request sent at `sent`.
    pub(crate) fn valid_until(&self, sent: BootTime, ttl: Duration) -> BootTime {
        (sent + ttl.saturating_sub(margin(ttl))).min(self.lives_until())
    }

    /// Whether the session is still valid.
    pub(crate) fn is_alive(&self, now: BootTime) -> bool {
        self.lock().is_alive(now)
    }

    /// Reports the end of the current connection.
    pub(super) fn states(&self) -> Result<StateWatcher, Failure> {
        Ok(self.client()?.states())
    }

    pub(super) fn is_connected(&self) -> bool {
        self.lock().client.as_ref().is_some_and(|client| client.is_connected())
    }

    /// Whether this is the session's current client.
    pub(crate) fn is_using(&self, client: &Arc<ReconnectingClient>) -> bool {
        self.lock().client.as_ref().is_some_and(|has| Arc::ptr_eq(has, client))
    }

    /// Switches to another client, which attached to the session by a request sent at `attached`, unless the session has ended.
    /// Requests that wait for the former client continue there as well.
    pub(super) fn switch_to(&self, client: &Arc<ReconnectingClient>, attached: BootTime) {
        let now = self.keeper.now();
        let before = {
            let mut state = self.lock();
            state.connection_works = false;
            if now < state.liveness.end() {
                state.liveness = Liveness::new(self.tick, self.granted, attached);
            }
            state.client.as_mut().map(|before| std::mem::replace(before, Arc::clone(client)))
        };
        // Outside the lock, because this wakes tasks, which look for the new client.
        if let Some(before) = before {
            before.mark_replaced_by(client);
        }
    }

    /// Waits until the session is ended. Returns at once if it was ended since the last call.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Ends the session: no request is sent in it any more.
    pub(super) fn end(&self) {
        let client = self.lock().client.take();
        // Dropping the last reference to the client closes the connection. Outside the lock, because this wakes tasks.
        if let Some(client) = client {
            client.close();
        }
        self.ended.notify_one();
    }

    /// Ends the session, but does not close it before `quiet_until`, so that holders who relied on it for longer learn of their loss first.
    pub(super) fn abandon(&self, quiet_until: BootTime) {
        let mut state = self.lock();
        state.quiet_until = quiet_until;
        let client = state.client.take();
        drop(state);
        if let Some(client) = client {
            client.detach();
        }
        self.ended.notify_one();
    }

    /// The session must not be closed before this time. Usually it is in the past.
    pub(super) fn quiet_until(&self) -> BootTime {
        self.lock().quiet_until
    }

    /// Whether the session was ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().client.is_none()
    }

    /// The attempt to close the session that is in progress, or one that begins now.
    pub(super) fn attempt(
        &self,
        begin: impl FnOnce(watch::Sender<Option<Result<bool, Failure>>>),
    ) -> CloseAttempt {
        let mut state = self.lock();
        // If the sender is gone, there will be no outcome.
        let is_under_way = |close: &CloseAttempt| close.borrow().is_none() && close.has_changed().is_ok();
        if let Some(attempt) = state.attempt.clone().filter(is_under_way) {
            return attempt;
        }
        let (done, attempt) = watch::channel(None);
        state.attempt = Some(attempt.clone());
        drop(state);
        begin(done);
        attempt
    }

    /// Closes the session. It was idle, so it has no nodes to remove.
    pub(super) fn close(&self) {
        let client = self.lock().client.take();
        // Dropping the last reference to the client closes the session. Outside the lock, because this wakes tasks.
        drop(client);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl PooledSession for Session {
    fn is_alive(&self, now: BootTime) -> bool {
        self.is_alive(now)
    }
}

impl State {
    fn is_alive(&self, now: BootTime) -> bool {
        self.client.is_some() && now < self.liveness.end()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Session")
            .field("id", &format_args!("{:#x}", self.id))
            .field("timeout", &self.granted)
            .field("open", &state.client.is_some())
            .finish_non_exhaustive()
    }
}
