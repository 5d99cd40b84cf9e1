//! [`Member`]: an entry of ours, kept alive by its session.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt, Shared};
use lock_core::{BootTime, Entry, FencingToken};
use parking_lot::{Mutex, MutexGuard};

use super::{session::Session, slots::size};
use crate::queue::Snapshot;

/// Ready when the entry's own node was deleted, or its session is over. Told by the server, in the order of what happened.
pub(crate) type DeletionWatch = Shared<BoxFuture<'static, ()>>;

/// An entry of ours, from before its first request to after it is known to be gone.
pub(crate) struct Member {
    pub(crate) entry: Arc<Entry>,
    /// The lock's container.
    pub(crate) lock: String,
    /// What its node is called, up to the sequence.
    pub(crate) prefix: String,
    pub(crate) session: Arc<Session>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When its lease would have ended, if it had one of its own (PR09).
    expires: Option<BootTime>,
    /// Somebody is leaving for it, or did. It does not come back.
    ended: bool,
    /// Until when whoever leaves for it may take.
    leaves_until: Option<BootTime>,
    /// Creates that were sent and not answered: each may have been carried out, or still be.
    unanswered_creates: u32,
    own_node: Option<OwnNode>,
    /// Its claim was compared with those ahead of it. That is done once (PR07).
    checked: bool,
    /// It was told that it is admitted.
    admitted: bool,
    deletion_watch: Option<DeletionWatch>,
    snapshot: Option<Snapshot>,
}

/// Where an entry stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnNode {
    /// Its node's own name.
    pub(crate) name: String,
    /// What created it.
    pub(crate) token: FencingToken,
}

impl Member {
    pub(super) fn new(entry: &Entry, lock_and_prefix: &str, session: Arc<Session>, now: BootTime) -> Self {
        // No prefix has a `/`.
        let (lock, prefix) = lock_and_prefix.rsplit_once('/').unwrap_or_default();
        let state = State { expires: Some(now + entry.ttl), ..State::default() };
        Self {
            entry: Arc::new(entry.clone()),
            lock: lock.to_owned(),
            prefix: prefix.to_owned(),
            session,
            state: Mutex::new(state),
        }
    }

    /// The path of its node, up to the sequence.
    pub(crate) fn path_prefix(&self) -> String {
        format!("{}/{}", self.lock, self.prefix)
    }

    /// What it takes in the transaction that ends its session.
    pub(super) fn size(&self) -> usize {
        size(self.lock.len() + 1 + self.prefix.len())
    }

    /// The path of a node beside it.
    pub(crate) fn sibling_path(&self, node: &str) -> String {
        format!("{}/{node}", self.lock)
    }

    /// Whether it may still be in the store, as far as the clock tells.
    pub(crate) fn is_alive(&self, now: BootTime) -> bool {
        // One lock after the other, and never both: in whatever order others take them.
        if !self.session.is_alive(now) {
            return false;
        }
        let state = self.lock();
        !state.ended && state.expires.is_none_or(|end| now < end)
    }

    /// Takes note of an answer to a request that was sent at `sent`, and refreshed it: false if somebody has left for it
    /// meanwhile, which the answer knows nothing of.
    pub(crate) fn refresh(&self, sent: BootTime) -> bool {
        let mut state = self.lock();
        state.expires = state.expires.max(Some(sent + self.entry.ttl));
        !state.ended
    }

    /// Sends a create, unless somebody has left for it: nothing is sent behind whoever leaves. If its answer is not taken note of,
    /// whether it came or not, it stays in doubt.
    pub(crate) fn send_create<T>(&self, request: impl FnOnce() -> T) -> Option<T> {
        let mut state = self.lock();
        if state.ended {
            return None;
        }
        state.unanswered_creates += 1;
        // Only a message to the keeper.
        let sent = request();
        drop(state);
        Some(sent)
    }

    /// A create was answered: with this place, or with none.
    pub(crate) fn create_answered(&self, own_node: Option<OwnNode>) {
        let mut state = self.lock();
        state.unanswered_creates -= 1;
        state.own_node = own_node.or(state.own_node.take());
    }

    /// How many creates are in doubt.
    pub(crate) fn unanswered_creates(&self) -> u32 {
        self.lock().unanswered_creates
    }

    /// Takes note of what was found where so many creates had been in doubt: none of them is any more.
    pub(crate) fn settle_creates(&self, doubts: u32, own_node: Option<OwnNode>) {
        let mut state = self.lock();
        state.unanswered_creates = state.unanswered_creates.saturating_sub(doubts);
        state.own_node = own_node;
    }

    /// Where it stands, as far as is known.
    pub(crate) fn own_node(&self) -> Option<OwnNode> {
        self.lock().own_node.clone()
    }

    /// Whether its claim was compared with those ahead of it.
    pub(crate) fn is_checked(&self) -> bool {
        self.lock().checked
    }

    /// Nobody ahead of it disagrees.
    pub(crate) fn mark_accepted(&self) {
        self.lock().checked = true;
    }

    /// Whether nobody was left ahead of this node at some time: it was admitted, with a claim that admits nobody else.
    pub(crate) fn was_first_at(&self, node: &str) -> bool {
        let state = self.lock();
        let here = state.own_node.as_ref().is_some_and(|own_node| own_node.name == node);
        state.admitted && here && self.entry.claim.permits() == self.entry.claim.limit()
    }

    /// It is admitted, from where it stands.
    pub(crate) fn mark_admitted(&self) {
        let mut state = self.lock();
        state.admitted = true;
        state.snapshot = None;
    }

    /// Whoever waits watches its own node too (PR18). `None` if nothing watches it any more: what has told once tells no more, and
    /// may have told of something else than its end.
    pub(crate) fn deletion_watch(&self) -> Option<DeletionWatch> {
        self.lock().deletion_watch.clone().filter(|watch| watch.peek().is_none())
    }

    /// Watches its own node from now on. Kept as long as the entry is: to take back a watch is a request.
    pub(crate) fn set_deletion_watch(
        &self,
        watch: impl Future<Output = ()> + Send + 'static,
    ) -> DeletionWatch {
        let watch = watch.boxed().shared();
        let before = self.lock().deletion_watch.replace(watch.clone());
        drop(before);
        watch
    }

    /// What watched its node has ended with the connection.
    pub(super) fn clear_deletion_watch(&self) {
        let before = self.lock().deletion_watch.take();
        drop(before);
    }

    /// What was seen from its place, if nobody of those that it watches has left since, as far as is known.
    pub(crate) fn snapshot(&self, own_node: &OwnNode) -> Option<Snapshot> {
        self.lock().snapshot.clone().filter(|snapshot| snapshot.token == own_node.token)
    }

    /// Remembers what is seen, or that it is so no more.
    pub(crate) fn set_snapshot(&self, snapshot: Option<Snapshot>) {
        self.lock().snapshot = snapshot;
    }

    /// Ends it. True if it was over before.
    pub(super) fn end(&self, now: BootTime) -> bool {
        let alive = self.session.is_alive(now);
        let mut state = self.lock();
        state.ended = true;
        state.expires.is_some_and(|end| now >= end) || !alive
    }

    /// Somebody leaves for it now, and may take so long. Gives until when, if it is less: somebody has begun to before.
    pub(super) fn begin_leave(&self, now: BootTime, limit: Duration) -> Option<BootTime> {
        let mut state = self.lock();
        let began = state.leaves_until.filter(|until| now < *until);
        if began.is_none() {
            state.leaves_until = Some(now + limit);
        }
        began
    }

    /// Whether its time is over and somebody has to leave for it.
    pub(super) fn is_overdue(&self, now: BootTime) -> bool {
        self.lock().expires.is_some_and(|end| now >= end)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Member")
            .field("entry", &self.entry.id)
            .field("session", &format_args!("{:#x}", self.session.id))
            .field("node", &state.own_node)
            .field("ended", &state.ended)
            .finish_non_exhaustive()
    }
}
