//! [`Member`]: an entry of this process, kept alive by its session.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt, Shared};
use lock_core::{
    BootTime, Entry, EntryId, FencingToken,
    session_pool::PooledMember,
    sync::{Mutex, MutexGuard},
};

use super::{capacity::size, session::Session};
use crate::queue::Snapshot;

/// Ready when the entry's own node was deleted or the connection ended. The server sends events in the order of the changes.
pub(crate) type DeletionWatch = Shared<BoxFuture<'static, ()>>;

/// An entry of this process, from before its first request until it is known to be gone.
pub(crate) struct Member {
    pub(crate) entry: Arc<Entry>,
    /// The lock's container.
    pub(crate) lock: String,
    /// The name of the entry's node, up to the sequence.
    pub(crate) prefix: String,
    pub(crate) session: Arc<Session>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When the entry's lease would end if it had one of its own (PR09).
    expires: Option<BootTime>,
    /// Whether a leave of the entry has begun or is done. The entry does not come back.
    ended: bool,
    /// How long the first attempt to leave may take.
    leaves_until: Option<BootTime>,
    /// The number of creates that were sent and not answered. Each may have been carried out, or may still be.
    unanswered_creates: u32,
    own_node: Option<OwnNode>,
    /// Whether the entry's claim was compared with that of the first entry. That is done once (PR07).
    checked: bool,
    /// Whether the entry was told that it is admitted.
    admitted: bool,
    deletion_watch: Option<DeletionWatch>,
    snapshot: Option<Snapshot>,
}

/// The node of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnNode {
    /// The name of the node, without its path.
    pub(crate) name: String,
    /// The transaction that created the node.
    pub(crate) token: FencingToken,
}

impl Member {
    pub(super) fn new(entry: &Entry, lock_and_prefix: &str, session: &Arc<Session>, now: BootTime) -> Self {
        // No prefix has a `/`.
        let (lock, prefix) = lock_and_prefix.rsplit_once('/').unwrap_or_default();
        let state = State { expires: Some(now + entry.ttl), ..State::default() };
        Self {
            entry: Arc::new(entry.clone()),
            lock: lock.to_owned(),
            prefix: prefix.to_owned(),
            session: Arc::clone(session),
            state: Mutex::new(state),
        }
    }

    /// The path of the entry's node, up to the sequence.
    pub(crate) fn path_prefix(&self) -> String {
        format!("{}/{}", self.lock, self.prefix)
    }

    /// The path of a node in the same container.
    pub(crate) fn sibling_path(&self, node: &str) -> String {
        format!("{}/{node}", self.lock)
    }

    /// Whether the entry may still be in the store, by the clock.
    pub(crate) fn is_alive(&self, now: BootTime) -> bool {
        // The two locks are never held at once, so their order does not matter.
        if !self.session.is_alive(now) {
            return false;
        }
        let state = self.lock();
        !state.ended && state.expires.is_none_or(|end| now < end)
    }

    /// Extends the lease after the answer to a request that was sent at `sent`. Returns false if a leave of the entry has begun in the
    /// meantime, which the answer does not show.
    pub(crate) fn refresh(&self, sent: BootTime) -> bool {
        let mut state = self.lock();
        state.expires = state.expires.max(Some(sent + self.entry.ttl));
        !state.ended
    }

    /// Sends a create, unless a leave of the entry has begun: no create is sent after that. The create is in doubt until
    /// [`create_answered`](Self::create_answered).
    pub(crate) fn send_create<T>(&self, request: impl FnOnce() -> T) -> Option<T> {
        let mut state = self.lock();
        if state.ended {
            return None;
        }
        state.unanswered_creates += 1;
        // This only sends a message to the keeper.
        let sent = request();
        drop(state);
        Some(sent)
    }

    /// Records that a create was answered: it made this node, or none.
    pub(crate) fn create_answered(&self, own_node: Option<OwnNode>) {
        let mut state = self.lock();
        state.unanswered_creates -= 1;
        state.own_node = own_node.or(state.own_node.take());
    }

    /// The number of creates in doubt.
    pub(crate) fn unanswered_creates(&self) -> u32 {
        self.lock().unanswered_creates
    }

    /// Records that `doubts` creates are no longer in doubt: they made this node, or none.
    pub(crate) fn settle_creates(&self, doubts: u32, own_node: Option<OwnNode>) {
        let mut state = self.lock();
        state.unanswered_creates = state.unanswered_creates.saturating_sub(doubts);
        state.own_node = own_node;
    }

    /// The entry's node, if it is known.
    pub(crate) fn own_node(&self) -> Option<OwnNode> {
        self.lock().own_node.clone()
    }

    /// Whether the entry's claim was compared with that of the first entry.
    pub(crate) fn is_checked(&self) -> bool {
        self.lock().checked
    }

    /// Records that the entry's claim agrees with that of the first entry.
    pub(crate) fn mark_accepted(&self) {
        self.lock().checked = true;
    }

    /// Whether no entry was ahead of this node at some time, because it was admitted with an exclusive claim.
    pub(crate) fn was_first_at(&self, node: &str) -> bool {
        let state = self.lock();
        let here = state.own_node.as_ref().is_some_and(|own_node| own_node.name == node);
        state.admitted && here && self.entry.claim.permits() == self.entry.claim.limit()
    }

    /// Records that the entry is admitted.
    pub(crate) fn mark_admitted(&self) {
        let mut state = self.lock();
        state.admitted = true;
        state.snapshot = None;
    }

    /// The watch on the entry's own node, which a waiter needs (PR18). `None` if there is none any more: a watch fires once, and may have
    /// fired for another event than the deletion.
    pub(crate) fn deletion_watch(&self) -> Option<DeletionWatch> {
        self.lock().deletion_watch.clone().filter(|watch| watch.peek().is_none())
    }

    /// Sets the watch on the entry's own node. It is kept as long as the entry is, because removing a watch takes a request.
    pub(crate) fn set_deletion_watch(
        &self,
        watch: impl Future<Output = ()> + Send + 'static,
    ) -> DeletionWatch {
        let watch = watch.boxed().shared();
        let before = self.lock().deletion_watch.replace(watch.clone());
        drop(before);
        watch
    }

    /// Removes the watch on the entry's own node, which ended with the connection.
    pub(super) fn clear_deletion_watch(&self) {
        let before = self.lock().deletion_watch.take();
        drop(before);
    }

    /// The last snapshot of the queue, if no watched entry is known to have left since.
    pub(crate) fn snapshot(&self, own_node: &OwnNode) -> Option<Snapshot> {
        self.lock().snapshot.clone().filter(|snapshot| snapshot.token() == own_node.token)
    }

    /// Sets the snapshot, or removes one that is out of date.
    pub(crate) fn set_snapshot(&self, snapshot: Option<Snapshot>) {
        self.lock().snapshot = snapshot;
    }

    /// Ends the member. Returns whether its time was over before.
    pub(super) fn end(&self, now: BootTime) -> bool {
        let alive = self.session.is_alive(now);
        let mut state = self.lock();
        state.ended = true;
        state.expires.is_some_and(|end| now >= end) || !alive
    }

    /// Records that a leave of the entry begins, which may take until `now + limit`. Returns the end of an earlier attempt that is not over
    /// yet.
    pub(super) fn begin_leave(&self, now: BootTime, limit: Duration) -> Option<BootTime> {
        let mut state = self.lock();
        let began = state.leaves_until.filter(|until| now < *until);
        if began.is_none() {
            state.leaves_until = Some(now + limit);
        }
        began
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl PooledMember for Member {
    type Session = Session;

    fn id(&self) -> EntryId {
        self.entry.id
    }

    fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The size of the entry in the transaction that ends the session.
    fn size(&self) -> usize {
        size(self.lock.len() + 1 + self.prefix.len())
    }

    fn is_overdue(&self, now: BootTime) -> bool {
        self.lock().expires.is_some_and(|end| now >= end)
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
